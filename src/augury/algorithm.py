"""The table: every algorithm is Surrogate × Policy × Maximizer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from augury._checks import check_count
from augury._errors import UnsupportedError
from augury.locality import Locality
from augury.maximizers import (
    Domain,
    Exhaustive,
    FewColumns,
    Gradient,
    Maximizer,
    Mixed,
    MultiStart,
    NelderMead,
    RandomGrid,
    Rounding,
)
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
from augury.space import Pool, Space
from augury.surrogates import (
    Capability,
    Election,
    Ensemble,
    FourierProcess,
    GaussianProcess,
    NeuralLinear,
    NeuralTangent,
    NTKProcess,
    RandomForest,
    SampleThenOptimize,
    Surrogate,
    TangentProcess,
)
from augury.surrogates.neural_linear import dngo
from augury.surrogates.sample_then_optimize import posterior_smb, simple_smb

Design = Literal["sobol", "random"]

SURROGATES: Mapping[str, Callable[[], Surrogate]] = MappingProxyType(
    {
        "gp": GaussianProcess,
        "election": Election,
        "gp-rff": FourierProcess,
        "ntk": NTKProcess,
        "sto": SampleThenOptimize,
        "sto-linear": TangentProcess,
        "greedy": simple_smb,
        "greedy-posterior": posterior_smb,
        "neural-bo": NeuralTangent,
        "neural-tangent": lambda: NeuralTangent(features="current"),
        "neural-linear": NeuralLinear,
        "dngo": dngo,
        "ensemble": Ensemble,
        "forest": RandomForest,
    }
)
POLICIES: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {
        "ucb": UCB,
        "thompson": Thompson,
        "ei": EI,
        "ts-rsr": TSRSR,
        "bucb": lambda: UCB(Desautels()),
        "ucb-pe": UCBPE,
        "qei": QEI,
        "sp": StochasticPolicy,
        "dpp-ts": DPPThompson,
    }
)
MAXIMIZERS: Mapping[str, Callable[[], Maximizer]] = MappingProxyType(
    {
        "random-grid": RandomGrid,
        "multistart": MultiStart,
        "cg": lambda: MultiStart(method="cg"),
        "gradient": Gradient,
        "nelder-mead": NelderMead,
        "exhaustive": Exhaustive,
        "few-columns": FewColumns,
        "mixed": Mixed,
        "rounding": Rounding,
    }
)

POLISHED = MultiStart(raw=10_000, starts=1, max_evaluations=4)  # a grid, and a little of an ascent
LARGEST_EXHAUSTIVE = 10_000  # points of a discrete space that are all looked at by default


@dataclass(frozen=True)
class Algorithm:
    """Surrogate × Policy × Maximizer; each is a part, or the name of one with its default settings.

    Without surrogate and policy, every point comes from the `design`. Without a maximizer, the one
    that fits the space is used (:func:`default_maximizer`). With `exploration`, so many random points
    per parameter come first, within 2.5 % and 7.5 % of the budget if that is known (be-greedy,
    appendix F), unless the user says otherwise. With a `locality`, at least every second point is looked
    for near the best one, where parameters are continuous (:class:`Locality`). Parts that do not fit
    together are refused here, with a sentence.

    Example: ``Algorithm(surrogate="gp", policy=UCB(beta=2.0), maximizer="random-grid")``
    """

    surrogate: Surrogate | None = None
    policy: Policy | None = None
    maximizer: Maximizer | None = None
    design: Design = "sobol"
    name: str = "custom"
    exploration: int | None = None
    locality: Locality | None = None

    def __init__(
        self,
        surrogate: Surrogate | str | None = None,
        policy: Policy | str | None = None,
        maximizer: Maximizer | str | None = None,
        design: Design = "sobol",
        name: str = "custom",
        exploration: int | None = None,
        locality: Locality | None = None,
    ) -> None:
        parts = {
            "surrogate": _part("surrogate", surrogate, SURROGATES, Surrogate),
            "policy": _part("policy", policy, POLICIES, Policy),
            "maximizer": _part("maximizer", maximizer, MAXIMIZERS, Maximizer),
            "design": design,
            "name": name,
            "exploration": check_count("exploration", exploration),
            "locality": locality,
        }
        for field_name, value in parts.items():
            object.__setattr__(self, field_name, value)
        self._check()

    def _check(self) -> None:
        if self.design not in ("sobol", "random"):
            raise UnsupportedError(
                f'design must be "sobol" or "random"; got {self.design!r}. Use "sobol".'
            )
        if not isinstance(self.locality, Locality | None):
            raise UnsupportedError(
                f"locality must be a Locality or None; got {self.locality!r}. "
                "Use augury.locality.Locality()."
            )
        if (self.surrogate is None) != (self.policy is None):
            raise UnsupportedError(
                "an algorithm must have both a surrogate and a policy, or neither; got "
                f"surrogate={self.surrogate!r} and policy={self.policy!r}. Give the other one too."
            )
        if self.surrogate is None or self.policy is None:
            return
        missing = set(self.policy.requires) - set(self.surrogate.capabilities)
        if missing:
            raise UnsupportedError(
                f"policy {type(self.policy).__name__} needs a surrogate with "
                f"{', '.join(sorted(missing))}; got {type(self.surrogate).__name__}, which has "
                f"{', '.join(sorted(self.surrogate.capabilities))}. Choose another pair."
            )
        if self.locality is not None and Capability.MEAN not in self.surrogate.capabilities:
            raise UnsupportedError(
                f"locality needs a surrogate with a mean; got {type(self.surrogate).__name__}, which has "
                f"{', '.join(sorted(self.surrogate.capabilities))}. Leave it out."
            )
        climbs = self.maximizer is not None and self.maximizer.needs_gradient
        if climbs and Capability.GRADIENT not in self.surrogate.capabilities:
            raise UnsupportedError(
                f"maximizer {type(self.maximizer).__name__} needs gradients; got "
                f"{type(self.surrogate).__name__}, which has none. Use the random-grid maximizer."
            )

    def on(self, space: Domain) -> "Algorithm":
        """The algorithm with parts for that space; an error if those it has do not fit.

        What its surrogate leaves open is chosen by the shape of one input (`Surrogate.on`), and the
        maximizer by the space.
        """
        if self.surrogate is None:
            return self
        shape = space.shape if isinstance(space, Pool) else (space.dim,)
        neural = len(shape) > 1 or (isinstance(space, Pool) and space.sparse)
        if neural and self.name == "auto" and self == TABLE["auto"].build():
            return replace(TABLE["sto-bnts"].build().on(space), name="auto")
        climbs = Capability.GRADIENT in self.surrogate.capabilities
        trained = Capability.MEAN not in self.surrogate.capabilities
        maximizer = self.maximizer or default_maximizer(space, gradient=climbs, trained=trained)
        models: Callable[[int], str | None] = getattr(self.surrogate, "fits", lambda _: None)
        parameters = int(space.groups.max(initial=-1)) + 1
        for reason in (maximizer.fits(space), models(parameters)):
            if reason is not None:
                raise UnsupportedError(reason)
        surrogate: Any = self.surrogate
        if hasattr(surrogate, "on"):
            surrogate = surrogate.on(shape, finite=bool(np.isfinite(space.size)))
        narrowable = isinstance(space, Space) and bool(space.continuous.any()) and not maximizer.exact
        locality = self.locality if narrowable else None
        return replace(self, surrogate=surrogate, maximizer=maximizer, locality=locality)

    def describe(self) -> dict[str, Any]:
        """Class names and fields of the parts, as JSON holds them."""
        return {
            "name": self.name,
            "design": self.design,
            "exploration": self.exploration,
            "locality": _describe(self.locality),
            **{part: _describe(getattr(self, part)) for part in ("surrogate", "policy", "maximizer")},
        }


def default_maximizer(space: Domain, *, gradient: bool = True, trained: bool = False) -> Maximizer:
    """Exhaustive where that is quick, gradients where all is continuous, mixed search elsewhere.

    Without gradients, a random grid. Of a trained network nothing is known but the network itself, and
    its ascents end in corners of the space, far from all observations: there, the best of many points
    is only polished (as by the code of sto-bnts, section 5.3).
    """
    if isinstance(space, Pool) or space.size <= LARGEST_EXHAUSTIVE:
        return Exhaustive()
    if not gradient:
        return RandomGrid()
    if not space.continuous.all():
        return Mixed()
    return POLISHED if trained else MultiStart()


@dataclass(frozen=True)
class Row:
    """One row of the table of algorithms."""

    name: str
    surrogate: str | None
    policy: str | None
    reference: str
    design: Design = "sobol"
    exploration: int | None = None
    local: bool = False  # whether most points are looked for near the best one

    def build(self) -> Algorithm:
        """The algorithm itself."""
        return Algorithm(
            self.surrogate,
            self.policy,
            design=self.design,
            name=self.name,
            exploration=self.exploration,
            locality=Locality() if self.local else None,
        )


_ROWS = (
    Row(
        "auto",
        "election",
        "ei",
        "ours, chosen for the space and the data; sto-bnts for images and word counts",
        local=True,
    ),
    Row("gp-ei", "gp", "ei", "Jones et al. (1998); Ament et al. (2023)"),
    Row("gp-ucb", "gp", "ucb", "Srinivas et al. (2010); random-grid, algorithm 1"),
    Row("gp-ts", "gp", "thompson", "Chowdhury & Gopalan (2017); random-grid, algorithm 2"),
    Row("ts-rsr", "gp", "ts-rsr", "ts-rsr, algorithm 4.1"),
    Row("bucb", "gp", "bucb", "Desautels, Krause & Burdick (2014)"),
    Row("ucb-pe", "gp", "ucb-pe", "Contal et al. (2013)"),
    Row("qei", "gp", "qei", "Ginsbourger et al. (2008); Wilson et al. (2018)"),
    Row("sp", "gp", "sp", "Garcia-Barcos & Martinez-Cantin (2019)"),
    Row("dpp-ts", "gp", "dpp-ts", "Nava, Mutný & Krause (2022)"),
    Row("gp-ucb-rff", "gp-rff", "ucb", "sto-bnts, appendix F.3"),
    Row("gp-ts-rff", "gp-rff", "thompson", "sto-bnts, appendix F.3"),
    Row("sto-bnts", "sto", "thompson", "sto-bnts, algorithm 1"),
    Row("sto-bnts-linear", "sto-linear", "thompson", "sto-bnts, algorithm 2"),
    Row("neural-greedy", "greedy", "thompson", "be-greedy, algorithms 1 and 2", exploration=5),
    Row(
        "neural-greedy-posterior",
        "greedy-posterior",
        "thompson",
        "be-greedy, algorithms 1 and 3",
        exploration=5,
    ),
    Row("neural-bo", "neural-bo", "thompson", "neural-bo, algorithms 1 and 2"),
    Row("neural-ucb", "neural-tangent", "ucb", "Zhou, Li & Gu (2020)"),
    Row("neural-ts", "neural-tangent", "thompson", "Zhang et al. (2021)"),
    Row("neural-linear-ts", "neural-linear", "thompson", "Riquelme et al. (2018); be-greedy, appendix F"),
    Row("dngo", "dngo", "ei", "Snoek et al. (2015)"),
    Row("deep-ensemble", "ensemble", "thompson", "Lakshminarayanan et al. (2017); sto-bnts, section 5.1"),
    Row("ensemble-ei", "ensemble", "ei", "Kim et al. (2021); be-greedy, appendix F"),
    Row("ntk-ei", "ntk", "ei", "ours: settings by marginal likelihood"),
    Row("ntk-ucb", "ntk", "ucb", "ours: settings by marginal likelihood"),
    Row("ntk-ts", "ntk", "thompson", "ours: settings by marginal likelihood"),
    Row("ntk-ts-rsr", "ntk", "ts-rsr", "ours: ts-rsr with the NTK process"),
    Row("rf-ei", "forest", "ei", "Hutter, Hoos & Leyton-Brown (2011)"),
    Row("random", None, None, "uniform points", design="random"),
    Row("sobol", None, None, "Sobol (1967), scrambled", design="sobol"),
)
TABLE: Mapping[str, Row] = MappingProxyType({row.name: row for row in _ROWS})


def algorithms() -> Mapping[str, Row]:
    """The table of named algorithms: surrogate, policy and reference by name."""
    return TABLE


def resolve(algorithm: str | Algorithm) -> Algorithm:
    """The algorithm of that name, or the given one."""
    if isinstance(algorithm, Algorithm):
        return algorithm
    if isinstance(algorithm, str) and algorithm in TABLE:
        return TABLE[algorithm].build()
    raise UnsupportedError(
        f"algorithm must be an Algorithm or one of {', '.join(TABLE)}; got {algorithm!r}. "
        "Choose one; augury.algorithms() lists them."
    )


def _part(kind: str, given: Any, table: Mapping[str, Callable[[], Any]], protocol: type) -> Any:
    if isinstance(given, str):
        if given not in table:
            raise UnsupportedError(
                f"{kind} must be one of {', '.join(table)}; got {given!r}. Use one of these names."
            )
        return table[given]()
    if given is None or (isinstance(given, protocol) and not isinstance(given, type)):
        return given
    raise UnsupportedError(
        f"{kind} must be a {protocol.__name__} or one of {', '.join(table)}; got {given!r}. "
        "Use one of these names."
    )


def _describe(part: Any) -> Any:
    if is_dataclass(part) and not isinstance(part, type):
        inner = {f.name: _describe(getattr(part, f.name)) for f in fields(part)}
        return {"class": type(part).__qualname__, **inner}
    if isinstance(part, list | tuple):
        return [_describe(item) for item in part]
    if isinstance(part, np.ndarray | np.generic):
        return part.tolist()
    if isinstance(part, None | bool | int | float | str):
        return part
    # neither holds an address, which would differ in the next process
    return getattr(part, "__qualname__", None) or {"class": type(part).__qualname__}
