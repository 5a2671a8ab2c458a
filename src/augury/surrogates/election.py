"""Of several models the one that predicts best, elected anew as the data grow."""

import functools
import hashlib
import itertools
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from augury._errors import UnsupportedError
from augury.core.data import Data
from augury.core.keys import KeyArray, root_key
from augury.surrogates.base import Capability, Fit
from augury.surrogates.gp import GaussianProcess
from augury.surrogates.hyperfit import Tuned
from augury.surrogates.warps import Log, YeoJohnson

GROWTH = 1.2  # of the number of observations, from one election to the next
ELECTORS = 128  # observations that decide, at most
POINTS = 1024  # observations that the elected model's posterior is made of, at most
KEPT = 64  # elections


class Elected(NamedTuple):
    """The number of a model, and its hyper-parameters."""

    number: int
    tuned: Tuned


def defaults() -> tuple[GaussianProcess, ...]:
    """Processes with and without a trend, of the values and of four transformations of them.

    Three without a trend stand a second time, with one lengthscale for all parameters: where these are
    many and the data few, lengthscales of their own cannot be told apart.
    """
    warps = (None, YeoJohnson(), Log(0.1), Log(0.01), Log(0.001))
    pairs = itertools.product(warps, (False, True))
    alike = (None, YeoJohnson(), Log(0.01))
    process = functools.partial(GaussianProcess, faint=True, points=POINTS, as_trended=True)
    return (
        *(process(warp=w, trend=t) for w, t in pairs),
        *(process(warp=w, ard=False) for w in alike),
    )


@dataclass(frozen=True)
class Election:
    """Of several Gaussian processes the one that predicts every value best from all others.

    What is compared is the density of each value, in its own units, given the other ones
    (leave-one-out), at the model's most probable hyper-parameters. The density of all values together
    would ask how well a model predicts them from the prior; a model that is too sure of itself, with
    more lengthscales than the data can tell apart, loses more here. An election is held when the data
    have grown by 20 %, with the data of that moment; in between, the elected model's hyper-parameters
    are learnt from 64 observations on at every second one, from 96 on at every third, and so on.

    Reference: Rasmussen & Williams (2006), "Gaussian processes for machine learning", section 5.4.2.

    Args:
        models: the processes.
    """

    models: tuple[GaussianProcess, ...] = defaults()

    capabilities: ClassVar[frozenset[Capability]] = GaussianProcess.capabilities

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))
        if not self.models or not all(isinstance(model, GaussianProcess) for model in self.models):
            raise UnsupportedError(
                f"models must be Gaussian processes, at least one; got {self.models!r}. "
                "Give a tuple of GaussianProcess."
            )

    def last_tuning(self, n: int) -> int:
        """The number of observations at which it was tuned last: n up to 63."""
        every = max(1, n // 32)
        return n // every * every

    def tune(self, data: Data, *, key: KeyArray) -> Elected:
        """The model elected last, with hyper-parameters for all of the data."""
        at = last_election(data.n)
        number, tuned = elect(self, Known(data.take(slice(at))))
        if at < data.n or data.n > ELECTORS:
            tuned = self.models[number].tune(data, key=key)
        return Elected(number, tuned)

    def fit(self, data: Data, *, key: KeyArray, tuned: Elected | None = None) -> Fit:
        """The posterior of the elected model."""
        elected = self.tune(data, key=key) if tuned is None else tuned
        model = self.elected(elected)
        fit = model.fit(data, key=key, tuned=elected.tuned)
        trend = "with" if model.trend else "without"
        scales = "a lengthscale for each parameter" if model.ard else "one lengthscale"
        about = f"{model.kernel} with {scales}, {trend} a trend, of {model.warp or 'the values'}"
        why = f"of {len(self.models)} processes the best at predicting each value from the others"
        return replace(fit, info={**fit.info, "elected": f"{about}: {why}"})

    def elected(self, tuned: Elected) -> GaussianProcess:
        """The process that was elected."""
        return self.models[tuned.number]

    def fits(self, parameters: int) -> str | None:
        """None if all can model so many parameters, else the reason why not."""
        return next(filter(None, (model.fits(parameters) for model in self.models)), None)


class Known:
    """Data that are the same as others with the same bytes."""

    def __init__(self, data: Data) -> None:
        arrays = (data.x, data.y, data.mask, data.groups)
        self.data, self.digest = data, hashlib.sha256(b"".join(a.tobytes() for a in arrays)).digest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.digest == other.digest


@functools.lru_cache(maxsize=KEPT)
def elect(election: Election, known: Known) -> Elected:
    """The model that predicts best; of equal ones the first."""
    models = (replace(m, tuning_points=min(m.tuning_points, ELECTORS)) for m in election.models)
    tuned = [model.tune(known.data, key=root_key(0)) for model in models]
    best = int(np.argmax([one.left_out for one in tuned]))
    return Elected(best, tuned[best])


def last_election(n: int) -> int:
    """The number of observations at which one was held last: all up to 10, then 12, 14, 16, 19, …"""
    at = 0
    while (following := max(at + 1, int(GROWTH * at))) <= n:
        at = following
    return at
