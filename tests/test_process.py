"""What surrogates of finite networks share: the study's seed fixes θ_0."""

import jax
import numpy as np
import pytest

from augury import Algorithm, Float, Optimizer, Space
from augury.surrogates import (
    MLP,
    EmpiricalProcess,
    Ensemble,
    NeuralLinear,
    NeuralTangent,
    NTKProcess,
    TangentProcess,
    neural_linear,
    neural_tangent,
)

BOX = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
NETWORK = NTKProcess(depth=1, weight_std=1.4, bias_std=0.5, noise=0.02, output=0.8)


def told(surrogate, n, seed=0):
    """A study with n observations that were made elsewhere."""
    opt = Optimizer(BOX, Algorithm(surrogate, "thompson", "random-grid"), seed=seed, initial=1)
    for _ in range(n):
        tell_another(opt)
    return opt


def tell_another(opt):
    x, y = np.random.default_rng(len(opt.trials)).random(2).tolist()
    opt.tell({"x": x, "y": y}, (x - 0.3) ** 2 + (y - 0.6) ** 2)


def same(one, other):
    """Whether two trees of parameters are equal, bit for bit."""
    return all(map(np.array_equal, *map(jax.tree.leaves, (one, other))))


@pytest.mark.parametrize(
    ("surrogate", "where"),
    [
        (NeuralTangent(NETWORK, width=8), "params"),
        (TangentProcess(NETWORK, width=8, redraw=False), "params"),
        (Ensemble(NETWORK, width=8, members=2), "starts"),
        (EmpiricalProcess(MLP(depth=1, width=8)), "params"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_initial_parameters_stay_when_values_are_told(surrogate, where):
    opt, other = told(surrogate, 3), told(surrogate, 3, seed=1)
    first = getattr(opt.model.fitted().posterior, where)
    tell_another(opt)
    assert same(getattr(opt.model.fitted().posterior, where), first)
    assert not same(getattr(other.model.fitted().posterior, where), first)


def test_the_head_of_a_network_is_trained_from_the_same_parameters(monkeypatch):
    begun = []

    def train(network, starts, *args, **settings):
        begun.append(starts)
        return trained(network, starts, *args, **settings)

    trained = neural_linear.train
    monkeypatch.setattr(neural_linear, "train", train)
    opt = told(NeuralLinear(NETWORK, width=8), 3)
    opt.model.fitted()
    tell_another(opt)
    opt.model.fitted()
    assert same(*begun)


def test_between_two_tunings_a_study_appends_a_row(monkeypatch):
    made = []

    def regress(*args, **settings):
        made.append(args)
        return anew(*args, **settings)

    anew = neural_tangent.regress
    monkeypatch.setattr(neural_tangent, "regress", regress)
    opt = told(NeuralTangent(NETWORK, width=8), 128)  # from here on settings are learnt at every second
    opt.model.fitted()
    tell_another(opt)
    posterior = opt.model.fitted().posterior
    assert len(made) == 1
    assert posterior.observations == 129
