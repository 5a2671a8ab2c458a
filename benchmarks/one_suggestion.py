"""Times single suggestions of Augury, BoTorch or Optuna in a process of its own.

`python benchmarks/one_suggestion.py NAME` reads seeds from standard input, one per line. For each it
makes data of that seed, hands them over untimed, and answers with one line of JSON: the seconds from
"here are the data" to "this is the next point", with all models fitted anew.

* augury: `Optimizer.ask()` of gp-ei, the default: hyper-parameters, fit, acquisition, and the estimate
  of the accuracy η.
* botorch: SingleTaskGP with its default priors, inputs normalized and outputs standardized,
  `fit_gpytorch_mll`, LogExpectedImprovement, `optimize_acqf` with 10 restarts of 512 raw samples.
* optuna: `Study.ask()` and `suggest_float` for all parameters, with GPSampler and its default settings.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable

from common import DIMENSION, HALF_WIDTH, NAMES, Array, observations, parameters

Parts = dict[str, float]
Suggest = Callable[[], Parts]  # what is timed; it returns the seconds of its parts, where known


def augury(x: Array, y: Array, seed: int) -> Suggest:
    from augury import Float, Optimizer, Space

    space = Space({name: Float(-HALF_WIDTH, HALF_WIDTH) for name in NAMES})
    optimizer = Optimizer(space, "gp-ei", seed=seed)
    for row, value in zip(x, y, strict=True):
        optimizer.tell(parameters(row), float(value))

    def suggest() -> Parts:
        seconds = optimizer.ask().info["seconds"]
        return {part: float(seconds[part]) for part in ("fit", "choose", "eta")}

    return suggest


def botorch(x: Array, y: Array, seed: int) -> Suggest:
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    box = torch.tensor([[-HALF_WIDTH], [HALF_WIDTH]], dtype=torch.double).repeat(1, DIMENSION)
    inputs, targets = torch.tensor(x), -torch.tensor(y)[:, None]

    def suggest() -> Parts:
        started = time.perf_counter()
        model = SingleTaskGP(
            inputs,
            targets,
            input_transform=Normalize(DIMENSION, bounds=box),
            outcome_transform=Standardize(1),
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        fitted = time.perf_counter()
        acquisition = LogExpectedImprovement(model, best_f=targets.max())
        optimize_acqf(acquisition, box, q=1, num_restarts=10, raw_samples=512)
        return {"fit": fitted - started, "choose": time.perf_counter() - fitted}

    return suggest


def optuna(x: Array, y: Array, seed: int) -> Suggest:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=seed))
    interval = optuna.distributions.FloatDistribution(-HALF_WIDTH, HALF_WIDTH)
    box: dict[str, optuna.distributions.BaseDistribution] = dict.fromkeys(NAMES, interval)
    for row, value in zip(x, y, strict=True):
        trial = optuna.trial.create_trial(params=parameters(row), distributions=box, value=float(value))
        study.add_trial(trial)

    def suggest() -> Parts:
        trial = study.ask()
        for name in NAMES:
            trial.suggest_float(name, -HALF_WIDTH, HALF_WIDTH)
        return {}

    return suggest


LIBRARIES: dict[str, Callable[[Array, Array, int], Suggest]] = {
    "augury": augury,
    "botorch": botorch,
    "optuna": optuna,
}


def main() -> None:
    """Answer every seed."""
    parser = argparse.ArgumentParser(description="Time single suggestions.")
    parser.add_argument("library", choices=list(LIBRARIES))
    parser.add_argument("--n", type=int, default=100, help="observations (default 100)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        seed = int(line)
        suggest = LIBRARIES[arguments.library](*observations(arguments.n, seed), seed)
        started = time.perf_counter()
        parts = suggest()
        seconds = time.perf_counter() - started
        version = sys.modules[arguments.library].__version__
        print(json.dumps({"seconds": seconds, "parts": parts, "version": version}), flush=True)


if __name__ == "__main__":
    main()
