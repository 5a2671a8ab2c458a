"""Peers that are libraries with ask and tell of their own; each imports its library when it is made."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # in its process this file is loaded without Augury
    from augury.bench.peers.child import Axis, Code, Setup

    Codes = list[Code]
    Point = tuple[Codes, Any]


class RandomSearch:
    """Uniform points; a point depends on the seed and its number alone, so a resume changes nothing."""

    takes_failures = True

    def __init__(self, setup: Setup) -> None:
        self._setup, self._told = setup, 0

    def ask(self, n: int, pending: Sequence[Codes]) -> list[Point]:
        """The next n points."""
        first = self._told + len(pending)
        return [(self._draw(number), None) for number in range(first, first + n)]

    def tell(self, codes: Codes, handle: Any, loss: float | None, *, initial: bool) -> None:
        """Count it."""
        self._told += not initial

    def _draw(self, number: int) -> Codes:
        rng = random.Random(f"{self._setup.seed}/{number}")
        return self._setup.space.draw([rng.random() for _ in self._setup.space.axes])


class Optuna:
    """An Optuna study; failures are trials that failed."""

    takes_failures = True

    def __init__(self, setup: Setup, sampler: Any) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna, self._axes = optuna, setup.space.axes
        self._study = optuna.create_study(sampler=sampler)
        self._box = {axis.name: self._distribution(axis) for axis in setup.space.axes}

    def _distribution(self, axis: Axis) -> Any:
        kinds = self._optuna.distributions
        if axis.kind == "category":
            return kinds.CategoricalDistribution(range(int(axis.high) + 1))
        kind = kinds.FloatDistribution if axis.kind == "real" else kinds.IntDistribution
        return kind(axis.low, axis.high, log=axis.log)

    def ask(self, n: int, pending: Sequence[Codes]) -> list[Point]:
        """The next n trials."""
        trials = [self._study.ask(self._box) for _ in range(n)]
        return [([trial.params[name] for name in self._box], trial) for trial in trials]

    def tell(self, codes: Codes, handle: Any, loss: float | None, *, initial: bool) -> None:
        """End the trial, or add one."""
        states = self._optuna.trial.TrialState
        state = states.FAIL if loss is None else states.COMPLETE
        if handle is not None:
            self._study.tell(handle, loss, state)
            return
        params = dict(zip(self._box, codes, strict=True))
        create = self._optuna.trial.create_trial
        self._study.add_trial(create(params=params, distributions=self._box, value=loss, state=state))


def optuna_tpe(setup: Setup, **settings: Any) -> Optuna:
    """The TPE sampler with its default settings."""
    from optuna.samplers import TPESampler

    return Optuna(setup, TPESampler(seed=setup.stream, **settings))


def optuna_gp(setup: Setup, **settings: Any) -> Optuna:
    """The GP sampler with its default settings."""
    import torch  # noqa: F401 - the sampler would import it in the first suggestion
    from optuna.samplers import GPSampler

    return Optuna(setup, GPSampler(seed=setup.stream, **settings))


class Smac:
    """SMAC3, by default its facade for hyper-parameters (a random forest); `blackbox` takes the GP's.

    The given initial points replace SMAC's own design. Every point is evaluated once.
    """

    takes_failures = False

    def __init__(self, setup: Setup, *, blackbox: bool = False) -> None:
        import smac
        from ConfigSpace import Categorical, ConfigurationSpace, Float, Integer

        def parameter(axis: Axis) -> Any:
            if axis.kind == "category":
                return Categorical(axis.name, list(range(int(axis.high) + 1)))
            kind = Float if axis.kind == "real" else Integer
            return kind(axis.name, (axis.low, axis.high), log=axis.log)

        self._setup = setup
        self._kind = smac.BlackBoxFacade if blackbox else smac.HyperparameterOptimizationFacade
        self._space = ConfigurationSpace(seed=setup.stream)
        self._space.add([parameter(axis) for axis in setup.space.axes])
        self._told: list[tuple[Codes, Any, float]] = []
        self._smac: Any = None

    def ask(self, n: int, pending: Sequence[Codes]) -> list[Point]:
        """The next n trials."""
        if self._smac is None:
            self._smac = self._facade()
        for codes, handle, loss in self._told:
            self._tell(codes, handle, loss)
        self._told = []
        trials = [self._smac.ask() for _ in range(n)]
        return [([t.config[axis.name] for axis in self._setup.space.axes], t) for t in trials]

    def tell(self, codes: Codes, handle: Any, loss: float | None, *, initial: bool) -> None:
        """Keep it for the next ask: SMAC is made when the initial points are known."""
        self._told.append((codes, handle, math.nan if loss is None else loss))

    def _facade(self) -> Any:
        from smac import Scenario

        kind, evaluations = self._kind, self._setup.evaluations
        scenario = Scenario(
            self._space,
            output_directory="smac",  # in the working folder, which is a temporary one
            deterministic=True,
            n_trials=max(2 * evaluations, evaluations + 100),  # the runner decides when to stop
            seed=self._setup.stream,
        )
        design = {}
        if self._told:
            first = self._configuration(self._told[0][0])
            design["initial_design"] = kind.get_initial_design(
                scenario, n_configs=0, additional_configs=[first]
            )
        return kind(scenario, _no_function, overwrite=True, logging_level=False, **design)

    def _configuration(self, codes: Codes) -> Any:
        from ConfigSpace import Configuration

        names = [axis.name for axis in self._setup.space.axes]
        return Configuration(self._space, values=dict(zip(names, codes, strict=True)))

    def _tell(self, codes: Codes, trial: Any, loss: float) -> None:
        from smac.runhistory.dataclasses import TrialInfo, TrialValue

        if trial is None:
            trial = TrialInfo(self._configuration(codes), seed=0)  # SMAC's seed where it is deterministic
        self._smac.tell(trial, TrialValue(cost=loss, time=0.0))


def _no_function(config: Any, seed: int = 0) -> float:
    """SMAC wants a function, and does not call it when it is asked and told."""
    raise NotImplementedError


class Cmaes:
    """CMA-ES of the package cmaes, from the best initial point; with margin where there are integers.

    A run that stalls starts again at a random point with twice the population (IPOP).
    """

    takes_failures = False

    def __init__(self, setup: Setup, *, sigma: float = 1 / 6) -> None:
        if any(axis.kind == "category" for axis in setup.space.axes):
            raise ValueError("CMA-ES must have numeric parameters; got a choice without an order")
        if len(setup.space.axes) < 2:
            raise ValueError("CMA-ES must have at least 2 parameters; got 1")
        import cmaes
        import numpy

        self._cmaes, self._numpy = cmaes, numpy
        self._setup, self._sigma = setup, sigma
        self._initial: list[tuple[float, Codes]] = []
        self._generation: list[tuple[Any, float]] = []
        self._restarts = 0
        self._cma: Any = None

    def ask(self, n: int, pending: Sequence[Codes]) -> list[Point]:
        """The next n points of a generation; a handle is the vector that CMA-ES wants back."""
        if self._cma is None:
            self._cma = self._start()
        return [self._one() for _ in range(n)]

    def tell(self, codes: Codes, handle: Any, loss: float | None, *, initial: bool) -> None:
        """Collect a generation."""
        assert loss is not None
        if initial:
            self._initial.append((loss, codes))
            return
        if self._cma is None:
            self._cma = self._start()
        x = self._numpy.array(self._setup.space.units(codes)) if handle is None else handle
        self._generation.append((x, loss))
        if len(self._generation) == self._cma.population_size:
            self._cma.tell(self._generation)
            self._generation = []
            if self._cma.should_stop():
                self._restarts += 1
                self._cma = self._start()

    def _one(self) -> Point:
        asked = self._cma.ask()
        x, handle = asked if isinstance(asked, tuple) else (asked, asked)
        return self._setup.space.from_units(x.tolist()), handle

    def _start(self) -> Any:
        np, axes = self._numpy, self._setup.space.axes
        d = len(axes)
        seed = (self._setup.stream + self._restarts) % 2**31
        population = max(4 + math.floor(3 * math.log(d)), self._setup.batch) * 2**self._restarts
        mean = np.full(d, 0.5)
        if self._restarts:
            mean = np.random.default_rng([self._setup.seed, self._restarts]).random(d)
        elif self._initial:
            mean = np.array(self._setup.space.units(min(self._initial, key=lambda point: point[0])[1]))
        # Levels on a log scale are not evenly spaced, which the margin needs: those are rounded.
        steps = np.array([0.0 if a.levels is None or a.log else 1 / (a.levels - 1) for a in axes])
        box = np.tile([0.0, 1.0], (d, 1))
        if steps.any():
            return self._cmaes.CMAwM(mean, self._sigma, box, steps, seed=seed, population_size=population)
        return self._cmaes.CMA(mean, self._sigma, box, seed=seed, population_size=population)


class Nevergrad:
    """Nevergrad's NGOpt, or another of its optimizers by name."""

    takes_failures = False

    def __init__(self, setup: Setup, *, optimizer: str = "NGOpt") -> None:
        import nevergrad as ng

        self._names = [axis.name for axis in setup.space.axes]
        space = ng.p.Dict(**{str(i): self._parameter(axis) for i, axis in enumerate(setup.space.axes)})
        space.random_state.seed(setup.stream)
        self._optimizer = ng.optimizers.registry[optimizer](
            space, budget=setup.evaluations, num_workers=setup.batch
        )
        self._unknown = ng.errors.TellNotAskedNotSupportedError

    @staticmethod
    def _parameter(axis: Axis) -> Any:
        import nevergrad as ng

        if axis.kind == "category":
            return ng.p.Choice(list(range(int(axis.high) + 1)))
        kind = ng.p.Log if axis.log else ng.p.Scalar
        parameter = kind(lower=axis.low, upper=axis.high)
        return parameter.set_integer_casting() if axis.kind == "integer" else parameter

    def ask(self, n: int, pending: Sequence[Codes]) -> list[Point]:
        """The next n candidates."""
        candidates = [self._optimizer.ask() for _ in range(n)]
        return [([c.value[str(i)] for i in range(len(self._names))], c) for c in candidates]

    def tell(self, codes: Codes, handle: Any, loss: float | None, *, initial: bool) -> None:
        """Tell it; optimizers that only learn from what they asked do without the others."""
        if handle is None:
            value = {str(i): code for i, code in enumerate(codes)}
            handle = self._optimizer.parametrization.spawn_child(new_value=value)
        try:
            self._optimizer.tell(handle, loss)
        except self._unknown:
            return


class BayesOpt:
    """bayesian-optimization with its default acquisition (UCB), in batches with a constant liar.

    It has no logarithmic scale: such parameters are given by their logarithm, as its users do.
    """

    takes_failures = False

    def __init__(self, setup: Setup, *, kappa: float = 2.576) -> None:
        from bayes_opt import BayesianOptimization, acquisition

        policy = acquisition.UpperConfidenceBound(kappa=kappa)
        if setup.batch > 1:
            policy = acquisition.ConstantLiar(policy)
        self._axes = setup.space.axes
        self._optimizer = BayesianOptimization(
            f=None,
            pbounds={axis.name: self._bounds(axis) for axis in self._axes},
            acquisition_function=policy,
            random_state=setup.stream,
            verbose=0,
            allow_duplicate_points=True,
        )

    @staticmethod
    def _bounds(axis: Axis) -> Any:
        if axis.kind == "category":
            return [str(option) for option in range(int(axis.high) + 1)]
        if axis.log:
            return (math.log(axis.low), math.log(axis.high))
        return (axis.low, axis.high, int) if axis.kind == "integer" else (axis.low, axis.high)

    def ask(self, n: int, pending: Sequence[Codes]) -> list[Point]:
        """The next n points."""
        points = [self._optimizer.suggest() for _ in range(n)]
        return [([self._code(axis, p[axis.name]) for axis in self._axes], None) for p in points]

    def tell(self, codes: Codes, handle: Any, loss: float | None, *, initial: bool) -> None:
        """Register it; this library maximizes."""
        assert loss is not None
        params = {
            axis.name: self._param(axis, code) for axis, code in zip(self._axes, codes, strict=True)
        }
        self._optimizer.register(params, -loss)

    @staticmethod
    def _code(axis: Axis, param: Any) -> Code:
        code = math.exp(float(param)) if axis.log else float(param)
        return code if axis.kind == "real" else int(min(max(round(code), axis.low), axis.high))

    @staticmethod
    def _param(axis: Axis, code: Code) -> Any:
        if axis.kind == "category":
            return str(code)
        return math.log(code) if axis.log else code


class Hebo:
    """HEBO with its default settings."""

    takes_failures = False

    def __init__(self, setup: Setup, **settings: Any) -> None:
        import numpy as np
        import torch
        from hebo.design_space.design_space import DesignSpace
        from hebo.optimizers.hebo import HEBO

        np.random.seed(setup.stream)
        torch.manual_seed(setup.stream)
        self._axes = setup.space.axes
        space = DesignSpace().parse([self._parameter(axis) for axis in self._axes])
        self._optimizer = HEBO(space, scramble_seed=setup.stream, **settings)

    @staticmethod
    def _parameter(axis: Axis) -> dict[str, Any]:
        if axis.kind == "category":
            return {"name": axis.name, "type": "cat", "categories": list(range(int(axis.high) + 1))}
        kind = {"real": ("num", "pow"), "integer": ("int", "pow_int")}[axis.kind][axis.log]
        return {"name": axis.name, "type": kind, "lb": axis.low, "ub": axis.high}

    def ask(self, n: int, pending: Sequence[Codes]) -> list[Point]:
        """The next n points."""
        rows = self._optimizer.suggest(n_suggestions=n)[[axis.name for axis in self._axes]]
        return [(row, None) for row in rows.to_numpy(dtype=object).tolist()]

    def tell(self, codes: Codes, handle: Any, loss: float | None, *, initial: bool) -> None:
        """Observe it."""
        import numpy as np
        import pandas as pd

        frame = pd.DataFrame([codes], columns=[axis.name for axis in self._axes], dtype=object)
        self._optimizer.observe(frame.infer_objects(), np.array([[loss]]))
