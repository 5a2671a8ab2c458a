"""sto-bnts-linear: draws of the linear model against closed forms and against gradient descent."""

import jax
import numpy as np
import pytest

from augury import Algorithm, Float, Optimizer, Space, UnsupportedError
from augury.core.data import Data
from augury.core.keys import fold, generator, root_key
from augury.core.precision import computing
from augury.surrogates import Capability, NTKProcess, TangentProcess
from augury.surrogates.tangent import ntk
from augury.surrogates.tangent_draw import standard_normal
from samples import distance

KEY = root_key(3)
X = np.array([[0.15], [0.3], [0.35], [0.8]])
Y = np.array([0.5, -0.4, -0.6, 0.7])
NEW = np.linspace(0.0, 1.0, 9)[:, None]
NOISE = 0.01
PROCESS = NTKProcess(depth=1, weight_std=1.5, bias_std=0.5, noise=NOISE, output=0.7, standardize=False)


def sample(model, count, scale=1.0):
    posterior = model.fit(Data.of(X, Y), key=KEY).posterior
    return np.array([posterior.sample(key=fold(KEY, i), scale=scale)(NEW) for i in range(count)])


def moments(kernel):
    A = kernel(X, X) + NOISE * np.eye(len(X))
    k = kernel(NEW, X)
    return k @ np.linalg.solve(A, Y), kernel(NEW, NEW) - k @ np.linalg.solve(A, k.T)


def at_fixed_features(model):
    """The kernel of the network whose features are fixed by the key."""
    network = PROCESS.realize(model.tune(Data.of(X, Y), key=KEY), 1.0, width=model.width).network
    params = network.init(fold(KEY, 2), 1)
    return network, params, lambda a, b: PROCESS.output * np.asarray(ntk(network, params, a, b))


def test_draws_with_fixed_features_match_the_empirical_kernels_posterior():
    model = TangentProcess(PROCESS, width=1024, redraw=False)
    mean, covariance = moments(at_fixed_features(model)[2])
    assert max(distance(sample(model, 512), mean, covariance)) < 5.0
    wide = sample(model, 512, scale=2.0)
    assert max(distance(wide, mean, 4.0 * covariance)) < 5.0
    assert max(distance(wide, mean, covariance)) > 10.0  # and the two can be told apart


def test_draws_with_features_of_their_own_match_the_limit():
    model = TangentProcess(PROCESS, width=1024)
    kernel = PROCESS.fit(Data.of(X, Y), key=KEY).posterior.kernel

    def gram(a, b):
        with computing():
            return np.asarray(kernel.gram(a, b))

    assert max(distance(sample(model, 512), *moments(gram))) < 5.0
    narrow = moments(lambda a, b: 0.6 * gram(a, b))
    assert max(distance(sample(model, 512), *narrow)) > 5.0


def test_gradient_descent_to_convergence_agrees():
    beta = 1.5
    model = TangentProcess(PROCESS, width=8, redraw=False)
    network, params, _ = at_fixed_features(model)
    posterior = model.fit(Data.of(X, Y), key=KEY).posterior
    path = posterior.sample(key=KEY, scale=beta)

    def features(x):
        with computing():
            rows = jax.vmap(jax.grad(network), (None, 0))(params, x)
        flat = [np.asarray(leaf).reshape(len(x), -1) for leaf in jax.tree.leaves(rows)]
        return np.sqrt(PROCESS.output) * np.concatenate(flat, axis=1)

    G = features(X)
    start = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(
        standard_normal(params, generator(KEY)))])  # fmt: skip
    epsilon = generator(fold(KEY, 1)).standard_normal(len(posterior.x))[: len(X)]
    lam = float(posterior.nugget)
    target = Y - beta * np.sqrt(lam) * epsilon  # the sign of ε is a matter of taste
    theta = start.copy()
    rate = 1.0 / (beta**2 * (np.linalg.eigvalsh(G @ G.T).max() + lam))
    for _ in range(20_000):
        residual = target - beta * G @ theta
        theta += rate * (beta * G.T @ residual - beta**2 * lam * (theta - start))
    np.testing.assert_allclose(path(NEW), beta * features(NEW) @ theta, atol=1e-6)


def test_what_it_can_do_and_what_it_refuses():
    assert TangentProcess().capabilities == {Capability.PATH, Capability.GRADIENT}
    assert TangentProcess(redraw=False).capabilities == set(Capability)
    for bad in ({"width": 0}, {"redraw": 1}):
        with pytest.raises(UnsupportedError, match="must be"):
            TangentProcess(**bad)


def test_a_study_goes_on_after_it_is_restored():
    space = Space(x=Float(0.0, 1.0), y=Float(0.0, 1.0))
    algorithm = Algorithm(TangentProcess(NTKProcess(depth=1), width=32), "thompson")
    opt = Optimizer(space, algorithm, seed=1, initial=4)
    for _ in range(7):
        trial = opt.ask()
        opt.tell(trial, (trial.params["x"] - 0.3) ** 2 + (trial.params["y"] - 0.6) ** 2)
    again = Optimizer.from_json(opt.to_json(), algorithm=algorithm)
    assert opt.ask().params == again.ask().params
    assert opt.recommend().params == again.recommend().params
