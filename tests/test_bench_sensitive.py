import jax
import numpy as np
import pytest

from augury.bench import datasets, networks
from augury.bench.problem import MissingError
from augury.bench.problems import sensitive
from augury.core.precision import computing


def test_upscale_repeats_pixels():
    image = sensitive.upscale([np.arange(49.0)])[0].reshape(28, 28)
    np.testing.assert_array_equal(datasets.pooled(image[None], 4)[0], np.arange(49.0).reshape(7, 7))
    assert np.all(image[:4, 4:8] == 1)
    assert sensitive.upscale(np.zeros((3, 49))).shape == (3, 784)


def probabilities(parameters, x):
    hidden = np.tanh(x @ parameters["hidden"] + parameters["hidden bias"])
    logits = hidden @ parameters["output"] + parameters["output bias"]
    return np.exp(logits) / np.exp(logits).sum()


def test_sensitivity_against_differences():
    rng = np.random.default_rng(0)
    parameters = networks.Mlp().initial(4, 3, rng, classes=2)
    x, total = rng.random(4), 0.0
    for array in parameters.values():
        for index in np.ndindex(array.shape):
            before = array[index]
            array[index] = before + 1e-6
            above = probabilities(parameters, x)
            array[index] = before - 1e-6
            below = probabilities(parameters, x)
            array[index] = before
            total += (((above - below) / 2e-6) ** 2).sum()
    with computing():
        norm = float(sensitive.sensitivity(networks.Mlp(), parameters, x))
    assert norm == pytest.approx(np.sqrt(total), rel=1e-7)


@pytest.fixture
def made(monkeypatch, tmp_path):
    """A classifier of made images: noise around ten patterns."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=400)
    patterns = rng.random((10, 7, 7)).repeat(4, axis=1).repeat(4, axis=2)
    x = (200 * patterns[y] + 50 * rng.random((400, 28, 28))).astype(np.uint8)
    monkeypatch.setattr(datasets, "mnist", lambda problem: {"x_train": x, "y_train": y})
    monkeypatch.setattr(sensitive, "_IMAGES", 400)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return x.reshape(400, 784) / 255, y


def test_classifier_learns_and_is_kept(made, monkeypatch):
    x, y = made
    parameters = sensitive.classifier()
    assert np.mean(sensitive.top_class(parameters, x) == y) > 0.9
    assert {array.dtype for array in parameters.values()} == {np.dtype(np.float64)}
    monkeypatch.setattr(sensitive, "train_classifier", None)
    again = sensitive.classifier()
    assert all(np.array_equal(again[name], parameters[name]) for name in parameters)


def test_the_problem(made):
    before = jax.config.jax_enable_x64
    problem = sensitive.PROBLEMS["sensitive-samples"](0)
    assert problem.space.dim == 49
    assert problem.direction == "maximize"
    points = problem.space.decode_all(problem.space.draw(5, np.random.default_rng(0))[0])
    values = [problem.value(point) for point in points]
    assert values == [problem.value(point) for point in points]
    assert min(values) > 0
    assert len(set(values)) == 5
    assert jax.config.jax_enable_x64 == before
    image = sensitive.upscale([[points[0][f"x{i}"] for i in range(49)]])[0]
    with computing():
        norm = sensitive.sensitivity(networks.Mlp(), sensitive.classifier(), image)
    assert float(norm) == values[0]


def test_detection_rate(made):
    parameters = sensitive.classifier()
    samples = np.random.default_rng(1).random((6, 49))
    rates = sensitive.detection_rate(samples, models=60)
    assert rates.shape == (6,)
    assert np.all(np.diff(rates) >= 0)
    assert 0 < rates[0] <= rates[-1] <= 1
    np.testing.assert_array_equal(rates, sensitive.detection_rate(samples, parameters, models=60))
    np.testing.assert_array_equal(rates[:3], sensitive.detection_rate(samples[:3], models=60))
    assert sensitive.detection_rate(samples, models=60, scale=0.0).tolist() == [0.0] * 6
    assert sensitive.detection_rate(samples, models=60, scale=10.0)[-1] > 0.95


def test_detection_rate_by_hand():
    """Two classes told apart by one pixel's weight: noise of half its size flips what the normal says."""
    parameters = {
        "hidden": np.zeros((784, 1)),
        "hidden bias": np.full(1, 50.0),  # tanh = 1, also with noise
        "output": np.array([[1.0, 0.0]]),
        "output bias": np.zeros(2),
    }
    # The difference of the logits is 1 + N(0, 4 s²): s² each from two weights and two biases.
    rate = sensitive.detection_rate(np.zeros((1, 49)), parameters, models=4000, scale=0.5)
    assert rate[0] == pytest.approx(0.1587, abs=0.025)


def test_missing_file_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUGURY_DATA", raising=False)
    with pytest.raises(MissingError, match=r"sensitive-samples needs the file mnist\.npz"):
        sensitive.sensitive_samples()
