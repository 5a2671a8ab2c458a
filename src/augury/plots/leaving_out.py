"""What a model says of each observation when it knows all the others."""

import numpy as np

from augury.core.keys import Purpose, fold, root_key
from augury.core.precision import computing
from augury.plots.source import Modelled
from augury.surrogates.gp_posterior import GPPosterior
from augury.surrogates.warps import Unwarped


def leave_one_out(modelled: Modelled) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each observation given all others, to be maximized.

    Hyper-parameters stay those of all observations; a model other than a Gaussian process is fitted
    without each.
    """
    optimizer, believer = modelled.optimizer, modelled.believer
    if isinstance(believer, GPPosterior | Unwarped):
        return believer.leave_one_out()
    model, surrogate = optimizer.model, optimizer.algorithm.surrogate
    assert surrogate is not None
    data = model.history.data()
    key = fold(root_key(optimizer.seed), Purpose.PICTURE)
    mean, std = np.empty(data.n), np.empty(data.n)
    with computing(optimizer.device):
        for i in range(data.n):
            others = data.take(np.delete(np.arange(data.n), i))
            without = model.believer(surrogate.fit(others, key=key, tuned=model.settings))
            assert without is not None
            at, var = without.predict(data.x[i])
            mean[i], std[i] = at, np.hypot(np.sqrt(var), without.noise_std)
    return mean, std
