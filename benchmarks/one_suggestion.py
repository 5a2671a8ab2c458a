"""Times single suggestions of Augury, BoTorch or Optuna in a process of its own.

`python benchmarks/one_suggestion.py NAME` reads seeds from standard input, one per line. For each it
makes data of that seed, hands them over untimed, and answers with one line of JSON: the seconds from
"here are the data" to "this is the next point", with all models fitted anew.

* augury: `Optimizer.ask()` of the default algorithm, with all that it does: hyper-parameters, fit,
  acquisition, and the estimate of the accuracy η. The first ask elects a model ("electing"), which
  stays until the data have grown by 15 %; "within a run" is the mean of the next two, one of them
  local, each after a value was told. What counts is the mean over a run from one election to the next.
* augury-first: its first ask alone.
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

import numpy as np

from common import DIMENSION, HALF_WIDTH, NAMES, Array, ackley, observations, parameters

Parts = dict[str, float]
Suggest = Callable[[], Parts]  # what is timed; it returns seconds of its parts, or what counts as "mean"


def augury_first(x: Array, y: Array, seed: int) -> Suggest:
    from augury import Float, Optimizer, Space

    space = Space({name: Float(-HALF_WIDTH, HALF_WIDTH) for name in NAMES})
    optimizer = Optimizer(space, seed=seed)
    for row, value in zip(x, y, strict=True):
        optimizer.tell(parameters(row), float(value))

    def suggest() -> Parts:
        started = time.perf_counter()
        trial = optimizer.ask()
        seconds = time.perf_counter() - started
        optimizer.tell(trial, float(ackley(np.array(list(trial.params.values())))))
        return {"mean": seconds}

    return suggest


def augury(x: Array, y: Array, seed: int) -> Suggest:
    from augury.surrogates.election import GROWTH

    ask = augury_first(x, y, seed)

    def suggest() -> Parts:
        electing, within = ask()["mean"], (ask()["mean"] + ask()["mean"]) / 2.0
        suggestions = max(1.0, (GROWTH - 1.0) * len(x))
        mean = (electing + (suggestions - 1.0) * within) / suggestions
        return {"mean": mean, "electing": electing, "within a run": within}

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


COLD = LIBRARIES | {"augury-first": augury_first}  # what can be timed in a new process


def main() -> None:
    """Answer every seed."""
    parser = argparse.ArgumentParser(description="Time single suggestions.")
    parser.add_argument("library", choices=list(COLD))
    parser.add_argument("--n", type=int, default=100, help="observations (default 100)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        seed = int(line)
        suggest = COLD[arguments.library](*observations(arguments.n, seed), seed)
        started = time.perf_counter()
        parts = suggest()
        seconds = parts.pop("mean", time.perf_counter() - started)
        version = sys.modules[arguments.library.split("-")[0]].__version__
        print(json.dumps({"seconds": seconds, "parts": parts, "version": version}), flush=True)


if __name__ == "__main__":
    main()
