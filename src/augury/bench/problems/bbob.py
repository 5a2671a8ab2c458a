"""The 24 noiseless BBOB functions of COCO, and COCO's runtime profile.

Hansen, Auger, Ros, Mersmann, Tušar and Brockhoff, COCO: A Platform for Comparing Continuous
Optimizers in a Black-Box Setting, 2021 (https://coco-platform.org).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from augury._errors import DataError
from augury.bench.problem import Factory, Params, Problem, package
from augury.space import Float, Space

FUNCTIONS = range(1, 25)
DIMENSIONS = (2, 3, 5, 10, 20, 40)
INSTANCES = 15
TARGETS = tuple(10 ** (2 - 0.2 * k) for k in range(51))  # COCO's 51, from 10² down to 10⁻⁸


def _bbob(function: int, dimension: int, seed: int) -> Problem:
    """Function 1..24 on [-5, 5]^d; the seed chooses among the instances 1..15.

    COCO gives the minimum and where it lies: instances are made by moving the minimum of a known
    function. The budget of 20 d is that of NeuralBO (section 7.1).
    """
    name = f"bbob-f{function}-d{dimension}"
    instance = 1 + seed % INSTANCES
    bare = package("cocoex", name, "coco-experiment").BareProblem("bbob", function, dimension, instance)
    names = [f"x{i}" for i in range(1, dimension + 1)]

    def value(params: Params) -> float:
        return float(bare(np.array([params[key] for key in names], dtype=float)))

    return Problem(
        name=name,
        space=Space({key: Float(-5, 5) for key in names}),
        value=value,
        reference=f"COCO, suite bbob, function {function}, instance {instance}",
        budget=20 * dimension,
        optimum=float(bare.best_value()),
        optimal=dict(zip(names, map(float, bare.best_parameter()), strict=True)),
        packages=("cocoex",),
    )


PROBLEMS: Mapping[str, Factory] = MappingProxyType(
    {f"bbob-f{f}-d{d}": partial(_bbob, f, d) for d in DIMENSIONS for f in FUNCTIONS}
)


def runtime_profile(
    regrets: Sequence[npt.ArrayLike],
    budgets: npt.ArrayLike,
    targets: npt.ArrayLike = TARGETS,
) -> npt.NDArray[np.float64]:
    """The fraction of (run, target) pairs that are reached within each budget.

    A run reaches a target within b evaluations when its smallest regret f(x) - f* among the first b
    is at most the target; a run that ended earlier keeps what it reached. With one run for every
    function and instance this is COCO's "fraction of function, target pairs" (COCO draws it against
    the budget divided by the dimension).

    deviation: COCO's post-processing continues an unsuccessful run by simulated restarts, drawn from
    the other instances; here each run counts as it is.

    Args:
        regrets: for each run, the regret of every evaluation in order; NaN where it failed.
        budgets: numbers of evaluations, at least 0.
        targets: regrets to reach.
    """
    count = np.asarray(budgets, dtype=np.int64)
    goals = np.asarray(targets, dtype=float)
    if len(regrets) == 0 or goals.size == 0:
        raise DataError("runtime_profile must have a run and a target; got none. Give at least one.")
    reached = np.zeros(count.shape)
    for run in regrets:
        best = np.fmin.accumulate(np.concatenate([[np.inf], np.asarray(run, dtype=float)]))
        at = best[np.clip(count, 0, len(best) - 1)]
        reached += np.mean(at[..., None] <= goals, axis=-1)
    return reached / len(regrets)
