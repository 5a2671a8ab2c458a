"""The papers' settings, by the names that experiments have for them, said in Augury's parts.

Augury trains to convergence and draws anew every time. Settings of the papers that only say how they come
near to convergence are accepted and mean nothing here; what is a different method is not available.
"""

from collections.abc import Callable, Mapping
from typing import Any

from augury._errors import UnsupportedError
from augury.bench.driver import NotAvailableError
from augury.bench.ts_rsr_code import LogCandidates, OnCandidates, RedrawnNoise
from augury.maximizers import Gradient, RandomGrid
from augury.policies import (
    EI,
    QEI,
    TSRSR,
    UCB,
    UCBPE,
    Desautels,
    DPPThompson,
    Policy,
    StochasticPolicy,
    Thompson,
)
from augury.policies.schedules import NeuralBOAdaptive
from augury.surrogates import (
    CNN,
    EmpiricalProcess,
    Ensemble,
    GaussianProcess,
    NeuralLinear,
    NeuralTangent,
    NTKProcess,
    SampleThenOptimize,
    TangentProcess,
)
from augury.surrogates.process import Process

CONVERGENCE = ("optimizer", "rate", "learning_rate", "batch", "epochs", "weight_decay", "hyper_samples")
EXPLORATION = 5  # points per parameter; the shares of the budget are those of `augury.design`
# what a setting must be for the method to be one that Augury has, and what it is otherwise
OFFERED: Mapping[str, tuple[Any, str]] = {
    "training": ("convergence", "training that stops before convergence"),
    "parameterization": ("ntk", "the standard parameterization"),
    "draws": ("fresh", "the same random numbers in every draw"),
    "bias_penalty": (None, "a penalty of its own on biases"),
    "output_init": (None, "PyTorch's initial output layer"),
    "decay": ("initial", "a penalty on the distance from 0"),
    "resample": (True, "a single draw for f*, whatever its maximum"),
    "every": (1, "training at some observations only"),
    "initial_in_u": (True, "variances that leave the initial points out"),
}


class Settings:
    """The settings of one method, taken out one by one; what is left at the end is refused."""

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        self.name, self._left = name, dict(given)

    def take(self, key: str, default: Any = None) -> Any:
        """The value of a setting, once."""
        return self._left.pop(key, default)

    def offered(self) -> None:
        """Refuse what Augury does not have."""
        for key, (ours, otherwise) in OFFERED.items():
            if key in self._left and self.take(key) != ours:
                raise NotAvailableError(f"{self.name} with {otherwise} is not offered")
        for key in CONVERGENCE:
            self.take(key)

    def done(self) -> None:
        """Refuse what nobody has taken."""
        if self._left:
            raise UnsupportedError(
                f"the settings of {self.name} must be known ones; got {', '.join(sorted(self._left))}. "
                "Correct the experiment."
            )

    def process(self, **defaults: Any) -> Process:
        """Depth, activation, σ_W, σ_b, noise and output, which is 1 in the papers."""
        if self.take("network", "mlp") == "cnn":
            return self._convolutional()
        gamma = self.take("gamma")
        weight_std = "1/m" if self.take("init") == "1/m" else self.take("weight_std", gamma)
        noise = self.take("noise", self.take("sigma2"))
        for name in ("lambda", "regularization"):
            noise = self.take(name, noise)
        standardize = self.take("standardize", True)
        settings = {
            "depth": self.take("depth"),
            "activation": self.take("activation", "relu"),
            "weight_std": weight_std,
            "bias_std": self.take("bias_std", gamma),
            "noise": noise,
            "output": 1.0,
            "bias": self.take("bias", True),
            "centred": self._centred(),
            "standardize": standardize,
            "relative": standardize,
        }
        return NTKProcess(**(settings | defaults))

    def _convolutional(self) -> EmpiricalProcess:
        """One convolution with pooling, then dense layers, all of the same width (sto-bnts, F.4)."""
        width, depth, pooling = self.take("width", 64), self.take("depth", 2), self.take("pooling", "max")
        if depth < 2:
            raise NotAvailableError(f"{self.name} with a convolution and no dense layer is not offered")
        network = CNN(
            tuple(self.take("image")),
            channels=(width,),
            kernel=self.take("kernel", 3),
            pool=self.take("pool", 3),
            stride=self.take("pool_stride"),
            pooling="average" if pooling == "mean" else pooling,
            depth=depth - 1,
            width=width,
            activation=self.take("activation", "relu"),
            weight_std=self.take("weight_std", 1.5),
            bias_std=self.take("bias_std", 0.05),
            centred=self._centred(),
        )
        noise = self.take("noise", self.take("lambda"))
        return EmpiricalProcess(network, noise, 1.0, self.take("standardize", True))

    def _centred(self) -> bool:
        """Whether the network sees 2x − 1."""
        inputs = self.take("inputs", [-1, 1])
        if inputs not in ([-1, 1], [0, 1]):
            raise NotAvailableError(f"{self.name} on inputs as they are is not offered")
        return inputs == [-1, 1]

    def beta(self) -> Any:
        """The factor of the standard deviation, which papers call β or ν."""
        value = self.take("beta", self.take("nu", 1.0))
        return NeuralBOAdaptive() if value == "adaptive" else value

    def width(self) -> int:
        """Of an MLP; a CNN takes it itself."""
        return 256 if self._left.get("network") == "cnn" else self.take("width", 256)

    def maximizer(self) -> dict[str, Any]:
        """A grid of candidates or ascents of fixed length, if the settings have one."""
        candidates, starts = self.take("candidates"), self.take("starts")
        steps, rate = self.take("steps"), self.take("step_rate")
        if candidates is not None:
            return {"maximizer": RandomGrid(size=candidates)}
        if starts is not None:
            return {"maximizer": Gradient(starts, steps, rate)}
        return {}


def parts(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of :class:`Algorithm` for a paper's method with a paper's settings."""
    settings = Settings(name, given)
    settings.offered()
    made = METHODS[name](settings)
    settings.done()
    return made


def _sampled(settings: Settings) -> dict[str, Any]:
    """sto-bnts and the two of be-greedy."""
    name = settings.name
    restart, warm = settings.take("restart", True), settings.take("warm_start", False)
    if not restart:
        raise NotAvailableError(f"{name} with one network trained on and on is not offered")
    explores = settings.take("explore") is not None
    for share in ("explore_least", "explore_most"):
        settings.take(share)
    width, maximizer, beta = settings.width(), settings.maximizer(), settings.beta()
    distance, perturb = settings.take("distance", True), settings.take("perturb", True)
    process = settings.process()
    if warm:  # one member that goes on from its last parameters draws nothing but its own fit
        surrogate: Any = Ensemble(process, width, 1, distance, warm_start=True, zero_output_bias=True)
    else:
        surrogate = SampleThenOptimize(
            process, width, correction=name != "neural-greedy", perturb_targets=perturb,
            penalty=distance, zero_output_bias=name != "sto-bnts",
        )  # fmt: skip
    exploration = {"exploration": EXPLORATION} if explores else {}
    return {"surrogate": surrogate, "policy": Thompson(beta), **maximizer, **exploration}


def _linear(settings: Settings) -> dict[str, Any]:
    width, beta = settings.width(), settings.beta()
    return {"surrogate": TangentProcess(settings.process(), width), "policy": Thompson(beta)}


def _tangent(settings: Settings) -> dict[str, Any]:
    """neural-bo, neural-ucb and neural-ts.

    The penalty of the last two is on the distance from one θ_0, wherever a training begins: `restart`
    only says how near they come to convergence.
    """
    name = settings.name
    if not settings.take("restart", True) and name == "neural-bo":
        raise NotAvailableError(f"{name} with one network trained on and on is not offered")
    features = settings.take("features", "static" if name == "neural-bo" else "current")
    diagonal = settings.take("diagonal", False) or settings.take("covariance") == "diagonal"
    maximizer, beta = settings.maximizer(), settings.beta()
    width = settings.width()
    surrogate = NeuralTangent(
        settings.process(), width,
        features="initial" if features == "static" else "current",
        covariance="diagonal" if diagonal else "exact",
    )  # fmt: skip
    policy = UCB(beta) if name == "neural-ucb" else Thompson(beta)
    return {"surrogate": surrogate, "policy": policy, **maximizer}


def _head(settings: Settings) -> dict[str, Any]:
    """neural-linear-ts and dngo, whose network is trained without noise of its own."""
    settings.take("policy")
    width, variance, noise = (settings.take(key) for key in ("width", "prior_variance", "noise"))
    process = settings.process(**({"weight_std": None, "bias_std": None, "noise": None, "output": None}
                                  if settings.name == "dngo" else {"noise": 0.0}))  # fmt: skip
    surrogate = NeuralLinear(process, width or 256, variance, noise)
    return {"surrogate": surrogate, "policy": EI() if settings.name == "dngo" else Thompson()}


def _ensemble(settings: Settings) -> dict[str, Any]:
    """deep-ensemble and ensemble-ei; a member has no noise of its own unless it is penalized."""
    width, members = settings.take("width", 256), settings.take("members", 10)
    penalty, warm = settings.take("penalty", False), settings.take("warm_start", False)
    beta = settings.beta()
    process = settings.process(**({} if penalty else {"noise": 0.0}))
    surrogate = Ensemble(process, width, members, penalty, warm_start=warm)
    return {"surrogate": surrogate, "policy": EI() if settings.name == "ensemble-ei" else Thompson(beta)}


def _batch(settings: Settings) -> dict[str, Any]:
    """TS-RSR and those it is compared with, all on one Gaussian process."""
    lengthscale = settings.take("lengthscale")
    surrogate: Any = GaussianProcess(
        settings.take("kernel", "matern52"),
        tuple(lengthscale) if isinstance(lengthscale, list) else lengthscale,
        settings.take("variance"),
        settings.take("noise"),
        relative=settings.take("relative", False),
        standardize=settings.take("standardize", True),
    )
    redrawn = settings.take("redrawn_noise")
    single = settings.take("single_precision", False)
    surrogate = surrogate if redrawn is None else RedrawnNoise(surrogate, redrawn, single)
    size, ascends = settings.take("candidates"), settings.take("ascend_mean", False)
    refine, rate = settings.take("refine_steps", 0), settings.take("refine_rate", 0.01)
    policy = _policy(settings, size)
    if size is not None:
        policy = OnCandidates(policy, size, ascends, refine, rate, tuple(settings.take("box")))
    return {"surrogate": surrogate, "policy": policy}


def _policy(settings: Settings, size: int | None) -> Policy:
    name, beta = settings.name, settings.take("beta")
    if isinstance(beta, Mapping):
        rest = {key: value for key, value in beta.items() if key != "name"}
        if beta.get("name") != "log-candidates" or size is None:
            raise UnsupportedError(
                f"the beta of {name} must be a number or log-candidates with candidates; got {beta}. "
                "Correct the experiment."
            )
        beta = LogCandidates(size, **rest)
    beta = {} if beta is None else {"beta": beta}
    match name:
        case "ts-rsr":
            return TSRSR()
        case "bucb":
            return UCB(**({"beta": Desautels()} | beta))
        case "ucb-pe":
            return UCBPE(**beta, region=settings.take("region", True))
        case "sp":
            points = {} if size is None else {"points": size}
            return StochasticPolicy(settings.take("acquisition", "mean"), **beta, **points)
        case "qei":
            settings.take("xi")  # 0, as here
            return EI() if settings.take("fantasy", "draws") == "believer" else QEI()
        case "dpp-ts":
            return DPPThompson(settings.take("swaps"), settings.take("weight", 1.0))
        case _:
            return Thompson(**beta)


METHODS: Mapping[str, Callable[[Settings], dict[str, Any]]] = {
    "sto-bnts": _sampled,
    "neural-greedy": _sampled,
    "neural-greedy-posterior": _sampled,
    "sto-bnts-linear": _linear,
    "neural-bo": _tangent,
    "neural-ucb": _tangent,
    "neural-ts": _tangent,
    "neural-linear-ts": _head,
    "dngo": _head,
    "deep-ensemble": _ensemble,
    "ensemble-ei": _ensemble,
    **dict.fromkeys(("ts-rsr", "bucb", "ucb-pe", "qei", "sp", "dpp-ts", "gp-ts"), _batch),
}
