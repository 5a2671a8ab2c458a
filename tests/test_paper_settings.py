"""The papers' settings, as experiments name them, become the right parts."""

from pathlib import Path

import pytest

from augury import Algorithm, Float, Optimizer, Space, UnsupportedError
from augury.bench.driver import NotAvailableError
from augury.bench.experiment import Method
from augury.bench.experiment_files import find_experiments, read_experiment
from augury.bench.methods import algorithm, available
from augury.bench.paper_settings import METHODS, parts
from augury.maximizers import Gradient, RandomGrid
from augury.policies import EI, UCB, Thompson
from augury.surrogates import Ensemble, NeuralLinear, NeuralTangent, SampleThenOptimize, TangentProcess

FILES = find_experiments(Path(__file__).parent.parent / "experiments")


def methods(name):
    return {method.name: method for method in read_experiment(FILES[name]).methods}


def test_sto_bnts_has_the_defaults_of_bayesian_ntk():
    made = algorithm(methods("sto-bnts-lunar-lander")["sto-bnts (paper)"])
    process = made.surrogate.process
    assert isinstance(made.surrogate, SampleThenOptimize)
    assert (process.depth, process.weight_std, process.bias_std) == (2, 1.5, 0.05)
    assert (process.noise, process.output, process.relative) == (0.01, 1.0, False)
    assert not process.centred
    assert not process.standardize
    assert made.surrogate.correction
    assert not made.surrogate.zero_output_bias
    assert made.policy.beta == 1.0
    linear = algorithm(methods("sto-bnts-lunar-lander")["sto-bnts-linear (paper)"])
    assert isinstance(linear.surrogate, TangentProcess)
    assert linear.surrogate.process == process


def test_neural_bo_has_the_papers_network():
    made = algorithm(methods("neural-bo-synthetic-10")["neural-bo (paper) settings.nu=10.0"])
    surrogate = made.surrogate
    assert isinstance(surrogate, NeuralTangent)
    assert (surrogate.features, surrogate.covariance, surrogate.width) == ("initial", "exact", 500)
    process = surrogate.process
    assert (process.weight_std, process.bias, process.noise, process.output) == ("1/m", False, 0.01, 1.0)
    assert made.policy == Thompson(10.0)
    assert made.maximizer == RandomGrid(size=10_000)


@pytest.mark.parametrize(("offset", "least", "most"), [(80.0, 0.0, 0.1), (-80.0, 0.8, 1.0)])
def test_neural_bo_by_the_letter_is_drawn_to_the_centre_or_to_the_bounds(offset, least, most):
    """Without biases a network is linear along rays from the centre, where it is 0."""
    settings = read_experiment(FILES["neural-bo-bbob"], quick=True).methods[0].spec["settings"]
    space = Space(x=Float(-5.0, 5.0), y=Float(-5.0, 5.0))
    opt = Optimizer(space, Algorithm(**parts("neural-bo", settings)), seed=0, initial=5)
    for _ in range(10):
        trial = opt.ask()
        opt.tell(trial, offset + (trial.params["x"] - 2.5) ** 2 + (trial.params["y"] + 3.0) ** 2)
    far = [max(abs(value) for value in trial.params.values()) / 5.0 for trial in opt.trials[6:]]
    assert least <= min(far) <= max(far) <= most


def test_be_greedys_methods():
    found = methods("be-greedy-noisy")
    simple = algorithm(found["simple settings.gamma=2.0"])
    assert not simple.surrogate.correction
    assert simple.surrogate.zero_output_bias
    assert (simple.surrogate.process.weight_std, simple.surrogate.process.bias_std) == (2.0, 2.0)
    assert simple.surrogate.process.noise == 0.0
    assert simple.surrogate.process.relative
    assert simple.maximizer == Gradient(10, 500, 0.01)
    ucb = algorithm(found["neural-ucb settings.beta=0.01 settings.regularization=0.0001"])
    assert ucb.policy == UCB(0.01)
    assert ucb.surrogate.process.noise == 1e-4
    assert ucb.surrogate.features == "current"
    linear = algorithm(found["neural-linear-ts settings.prior_variance=10.0 settings.noise=0.1"])
    assert isinstance(linear.surrogate, NeuralLinear)
    assert (linear.surrogate.prior_variance, linear.surrogate.noise) == (10.0, 0.1)
    ensemble = algorithm(found["ensemble-ei"])
    assert isinstance(ensemble.surrogate, Ensemble)
    assert (ensemble.surrogate.members, ensemble.surrogate.warm_start) == (10, True)
    assert isinstance(ensemble.policy, EI)
    ablations = methods("be-greedy-ablations")
    assert not algorithm(ablations["simple (no perturbation)"]).surrogate.perturb_targets
    assert not algorithm(ablations["simple (no distance)"]).surrogate.penalty
    assert algorithm(ablations["simple (warm start)"]).surrogate.warm_start


def test_greedy_explores_and_dngo_learns():
    found = methods("neural-bo-synthetic-10")
    assert algorithm(found["neural-greedy (paper)"]).exploration == 5
    dngo = algorithm(found["dngo (paper)"])
    assert (dngo.surrogate.process.depth, dngo.surrogate.process.activation) == (3, "tanh")
    assert dngo.surrogate.prior_variance is None


def test_the_layers_of_a_convolutional_network():
    network = algorithm(methods("sto-bnts-images")["sto-bnts (paper)"]).surrogate.process.network
    assert (network.channels, network.depth, network.width, network.centred) == ((64,), 1, 64, False)
    assert (network.pool, network.stride) == (3, 2)
    deeper = parts("neural-ts", {"network": "cnn", "image": [8, 8, 1], "depth": 4, "pooling": "mean"})
    network = deeper["surrogate"].process.network
    assert (network.depth, network.pooling) == (3, "average")


def test_where_a_training_begins_means_nothing_to_methods_with_a_fixed_penalty():
    for name in ("neural-ucb", "neural-ts"):
        assert parts(name, {"restart": False}) == parts(name, {"restart": True})
    for name in ("neural-bo", "sto-bnts"):
        with pytest.raises(NotAvailableError, match="trained on and on is not offered"):
            parts(name, {"restart": False})


@pytest.mark.parametrize("name", METHODS)
def test_settings_that_nobody_knows_are_refused(name):
    with pytest.raises(UnsupportedError, match="known ones; got colour"):
        parts(name, {"colour": "red"})


def test_what_is_not_offered_says_so():
    with pytest.raises(NotAvailableError, match="before convergence is not offered"):
        parts("sto-bnts", {"training": "sgd"})
    network = {"network": "cnn", "image": [8, 8, 1]}
    with pytest.raises(NotAvailableError, match="no dense layer is not offered"):
        parts("sto-bnts", {**network, "depth": 1})
    for settings in (network, {}):
        with pytest.raises(NotAvailableError, match="inputs as they are is not offered"):
            parts("neural-ts", {**settings, "inputs": "as they are"})
    with pytest.raises(UnsupportedError, match="pooling must be"):
        parts("neural-ts", {**network, "pooling": "min"})
    with pytest.raises(UnsupportedError, match="settings only with one of"):
        algorithm(Method("m", {"algorithm": "gp-ei", "settings": {"noise": 1.0}}, "m"))
    other = algorithm(Method("m", {"algorithm": "gp-ei", "maximizer": "random-grid"}, "m"))
    assert other.maximizer == RandomGrid()


@pytest.mark.parametrize("name", [n for n in FILES if not n.startswith(("ts-rsr", "random-grid"))])
def test_every_quick_variant_has_a_method_of_its_paper(name):
    experiment = read_experiment(FILES[name], quick=True)
    reasons = {method.group: available(method) for method in experiment.methods}
    unknown = [why for why in reasons.values() if why and "not offered" not in why and "peers" not in why]
    assert not unknown
    if not name.endswith("-code"):
        neural = [g for g, why in reasons.items() if why is None and not g.startswith(("gp-", "random"))]
        assert neural
