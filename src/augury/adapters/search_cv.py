"""scikit-learn: hyper-parameter search with cross-validation."""

import itertools
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from augury._errors import SpaceError, SpaceExhausted, UnsupportedError
from augury.algorithm import Algorithm
from augury.optimizer import Optimizer
from augury.space import Choice, Float, Int, Space
from augury.space.params import Param

try:
    from joblib import effective_n_jobs
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.utils import check_random_state
    from sklearn.utils._param_validation import Interval
except ImportError as error:
    raise UnsupportedError(
        'AugurySearchCV needs scikit-learn; got none. Install it with pip install "augury[sklearn]".'
    ) from error

TAIL = 1e-3  # of a distribution without bounds, at either end, that is left out
ALL_FAILED = re.compile(r"All the \d+ fits failed")  # what scikit-learn says of a batch
Decode = Callable[[Any], Any]


class AugurySearchCV(BaseSearchCV):
    """Search over hyper-parameters by one of Augury's algorithms, with cross-validation.

    The arguments are those of scikit-learn's RandomizedSearchCV, and two more; those that are not listed
    here are as there. Candidates are asked for in batches, so that `n_jobs` processes have work; each
    batch learns from those before it. A splitter that shuffles should have a fixed random_state, or
    candidates are judged on different splits.

    A candidate whose fits fail counts as the worst so far. Where all of a batch fail, scikit-learn keeps
    no results of it, and its candidates are missing from `cv_results_`.

    Args:
        estimator: what is fitted.
        param_distributions: for each parameter a SciPy distribution, a list of options, or a
            :class:`Float`, :class:`Int` or :class:`Choice`; or a :class:`Space`.
        n_iter: how many candidates are tried.
        algorithm: a name (`augury.algorithms()` lists them) or an :class:`Algorithm`.
        batch: how many candidates are asked for together; None for as many as keep `n_jobs` busy.
        refit: as there; of several scores it names the one that is maximized, also where nothing is to be
            fitted again: the search needs one, which RandomizedSearchCV with refit=False does not.
        random_state: decides the candidates.

    Attributes:
        optimizer_: the optimizer after the search; what it believed of a candidate is in its trial.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSearchCV._parameter_constraints,
        "param_distributions": [dict, Space],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "algorithm": [str, Algorithm],
        "batch": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 10,
        algorithm: str | Algorithm = "auto",
        batch: int | None = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
    ) -> None:
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.algorithm = algorithm
        self.batch = batch
        self.random_state = random_state
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    def _run_search(self, evaluate_candidates: Callable[..., Any], *, callback_ctx: Any = None) -> None:
        if isinstance(self.scoring, list | tuple | set | Mapping):  # before anything is fitted
            self._score_name(f"mean_test_{name}" for name in self.scoring)
        space, decode = _space(self.param_distributions)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        optimizer = Optimizer(space, self.algorithm, "maximize", seed, budget=self.n_iter)
        self.optimizer_, failure, scored = optimizer, None, 0
        while len(optimizer.trials) < self.n_iter:
            wanted = min(self._batch_size(), self.n_iter - len(optimizer.trials))
            try:
                trials = optimizer.ask(int(min(wanted, max(1, optimizer.left))))
            except SpaceExhausted:
                break
            candidates = [{name: decode[name](v) for name, v in t.params.items()} for t in trials]
            try:
                results = evaluate_candidates(candidates)
            except ValueError as error:
                if not ALL_FAILED.search(str(error)):
                    raise
                failure = error
                for trial in trials:
                    optimizer.tell(trial, failed=True, reason="all of its fits failed")
                continue
            scored += len(trials)
            scores = np.asarray(results[self._score_name(results)], dtype=float)[-len(trials) :]
            for trial, score in zip(trials, scores, strict=True):
                optimizer.tell(trial, float(score))
        if failure is not None and not scored:
            raise failure

    def _batch_size(self) -> int:
        if self.batch is not None:
            return int(self.batch)
        splits = int(getattr(self, "n_splits_", 0) or getattr(self._checked_cv_orig, "n_splits", 1))
        return max(1, math.ceil(effective_n_jobs(self.n_jobs) / max(1, splits)))

    def _score_name(self, results: Iterable[str]) -> str:
        """Of the score that is maximized: the one to refit by, if there are several."""
        known = sorted(n.removeprefix("mean_test_") for n in results if n.startswith("mean_test_"))
        if len(known) == 1:
            return f"mean_test_{known[0]}"
        if isinstance(self.refit, str):
            return f"mean_test_{self.refit}"
        raise UnsupportedError(
            f"with several scores, refit must name the one to maximize, of {', '.join(known)}; "
            f"got refit={self.refit!r}. Write refit={known[0]!r}."
        )


def _space(given: Any) -> tuple[Space, Mapping[str, Decode]]:
    """The space of some distributions, and how its values become those of the parameters."""
    if isinstance(given, Space):
        return given, dict.fromkeys(given.params, _same)
    if not given:
        raise SpaceError("param_distributions must have at least one parameter; got none. Add one.")
    pairs = {name: _param(name, one) for name, one in given.items()}
    return Space({n: param for n, (param, _) in pairs.items()}), {n: d for n, (_, d) in pairs.items()}


def _same(value: Any) -> Any:
    return value


def _param(name: str, given: Any) -> tuple[Param, Decode]:
    if isinstance(given, Param):
        return given, _same
    if hasattr(given, "ppf"):
        return _distribution(given)
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) and len(given):
        options = list(given)
        return Choice(range(len(options)), ordered=_is_ordered(options)), options.__getitem__
    raise SpaceError(
        f"the parameter {name!r} must have a SciPy distribution, a list of options, a Float, an Int or a "
        f"Choice; got {given!r}. Write [option, ...] for a single option too."
    )


def _is_ordered(options: list[Any]) -> bool:
    """Whether options are numbers that only rise, or only fall."""
    if not all(isinstance(o, numbers.Real) and not isinstance(o, bool) for o in options):
        return False
    rises = [a < b for a, b in itertools.pairwise(options)]
    return len(options) > 2 and (all(rises) or all(a > b for a, b in itertools.pairwise(options)))


def _distribution(given: Any) -> tuple[Param, Decode]:
    """A number by its quantile, so that equal steps have equal probability; integers as they are."""
    low, high = given.support()
    kind = getattr(getattr(given, "dist", None), "name", "")
    if kind == "randint" and np.isfinite([low, high]).all():
        return Int(int(low), int(high)), _same
    discrete = not hasattr(getattr(given, "dist", given), "pdf")  # one of one's own is not frozen
    ends = 0.0 if np.isfinite(low) else TAIL, 1.0 if np.isfinite(high) else 1.0 - TAIL
    number: Callable[[Any], Any] = (lambda x: int(max(x, low))) if discrete else float
    return Float(*ends), lambda u: number(given.ppf(u))
