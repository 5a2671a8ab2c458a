import warnings

import numpy as np
import pytest

from augury._errors import DataError
from augury.bench import datasets, networks
from augury.bench.problem import MissingError
from augury.bench.problems import automl
from augury.space import Choice, Float, Int

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def blobs():
    """Ten classes of 12 × 12 images: a bright square whose place tells the class."""
    rng = np.random.default_rng(1)
    y = rng.integers(10, size=240)
    x = 0.2 * rng.random((240, 12, 12), dtype=np.float32)
    for image, label in zip(x, y, strict=True):
        row, column = divmod(int(label), 4)
        image[4 * row : 4 * row + 3, 3 * column : 3 * column + 3] += 0.8
    return datasets.split(x, y, 180, 60)


@pytest.fixture
def made(monkeypatch, blobs):
    """Factories see tiny made data."""
    images = np.zeros((4000, 28, 28), np.uint8)
    images[:, 2:26, 2:26] = RNG.integers(256, size=(4000, 24, 24))
    mnist = {"x_train": images, "y_train": RNG.integers(10, size=4000)}
    monkeypatch.setattr(datasets, "mnist", lambda problem: mnist)
    monkeypatch.setattr(
        datasets, "pima", lambda problem: (RNG.random((768, 8)), RNG.integers(2, size=768))
    )
    monkeypatch.setattr(datasets, "boston", lambda problem: (RNG.random((506, 13)), RNG.random(506)))


SPACES = {
    "random-forest-pima": {
        "max_depth": Int(1, 10),
        "min_samples_split": Int(2, 10),
        "min_samples_leaf": Int(1, 10),
        "max_features": Int(1, 8),
        "criterion": Choice(["entropy", "gini"]),
        "bootstrap": Choice([True, False]),
    },
    "xgboost-mnist": {
        "gamma": Float(0, 10),
        "learning_rate": Float(1e-6, 1, log=True),
        "max_depth": Int(1, 15),
        "booster": Choice(["dart", "gbtree"]),
        "grow_policy": Choice(["depthwise", "lossguide"]),
        "objective": Choice(["multi:softprob", "multi:softmax"]),
        "tree_method": Choice(["exact", "hist"]),
        "alpha": Float(0, 10),
        "lambda": Float(0, 10),
    },
    "cnn-mnist": {
        "learning_rate": Float(1e-4, 0.1, log=True),
        "weight_decay": Float(1e-6, 1e-2, log=True),
        "batch_size": Int(64, 512, log=True),
        "pool_size": Int(3, 5),
        "channels": Int(4, 16),
        "kernel_size": Int(3, 5),
        "hidden": Int(4, 16),
        "activation": Choice(["relu", "tanh"]),
        "optimizer": Choice(["adam", "rmsprop"]),
    },
    "gradient-boosting-cancer": {
        "loss": Choice(["log_loss", "exponential"]),
        "learning_rate": Float(1e-3, 1),
        "n_estimators": Int(20, 200),
        "subsample": Float(1e-3, 1),
        "criterion": Choice(["friedman_mse", "squared_error"]),
        "min_samples_split": Int(2, 10),
        "min_samples_leaf": Int(1, 10),
        "min_weight_fraction_leaf": Float(0, 0.5),
        "max_depth": Int(1, 10),
        "max_features": Choice(["sqrt", "log2"]),
        "max_leaf_nodes": Int(2, 10),
    },
    "boston-nn": {
        "hidden": Int(1, 100),
        "learning_rate": Float(0.001, 0.1),
        "weight_decay": Float(0.1, 0.5),
        "momentum": Float(0.1, 0.5),
    },
    "boston-nn-code": {
        "hidden": Float(1, 10),
        "learning_rate": Float(0.001, 0.1),
        "weight_decay": Float(0.1, 0.9),
        "momentum": Float(0, 0.5),
    },
}
NEEDS = {
    "random-forest-pima": "sklearn",
    "xgboost-mnist": "xgboost",
    "gradient-boosting-cancer": "sklearn",
}


@pytest.mark.parametrize("name", automl.PROBLEMS)
def test_spaces_are_those_of_the_papers(name, made):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    problem = automl.PROBLEMS[name](0)
    assert problem.name == name
    assert dict(problem.space.params) == SPACES[name]
    assert problem.direction == ("maximize" if name == "gradient-boosting-cancer" else "minimize")


@pytest.mark.parametrize("name", ["random-forest-pima", "boston-nn", "boston-nn-code"])
def test_a_value_is_always_the_same(name, made):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    problem = automl.PROBLEMS[name](0)
    for point in problem.space.decode_all(problem.space.draw(3, np.random.default_rng(2))[0]):
        value = problem.value(point)
        assert value == problem.value(point)
        assert np.isfinite(value)
        assert value >= 0


def test_only_the_code_of_boston_is_noisy(made):
    stated, code = automl.boston_nn(), automl.boston_nn_code()
    assert stated.observe is None
    point = {"hidden": 3.0, "learning_rate": 0.05, "weight_decay": 0.2, "momentum": 0.2}
    seen = [code(point, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert seen[0] == seen[1] != seen[2]
    many = [code(point, np.random.default_rng(seed)) for seed in range(200)]
    error = np.std(many) * np.sqrt(1 / 200 + 1 / automl.BOSTON_SEEDS)
    assert abs(np.mean(many) - code.value(point)) < 4 * error


def test_forest_learns_and_heeds_its_parameters():
    pytest.importorskip("sklearn")
    x = np.random.default_rng(3).random((200, 8))
    data = datasets.portion(x, (x[:, 0] > x[:, 1]).astype(int), 0.7)
    assert [len(part) for part in data] == [140, 140, 60, 60]
    point = {"max_depth": 8, "min_samples_split": 2, "min_samples_leaf": 1, "max_features": 8}
    good = automl.random_forest_error({**point, "criterion": "gini", "bootstrap": True}, data)
    point |= {"max_depth": 1, "max_features": 1}
    bad = automl.random_forest_error({**point, "criterion": "gini", "bootstrap": True}, data)
    assert good < 0.2 < bad


def test_xgboost_learns_with_either_form_of_prediction(blobs):
    pytest.importorskip("xgboost")
    data = blobs._replace(x=blobs.x.reshape(180, -1), valid_x=blobs.valid_x.reshape(60, -1))
    point = {"gamma": 0.0, "learning_rate": 0.5, "max_depth": 3, "booster": "gbtree", "alpha": 0.0,
             "lambda": 1.0, "grow_policy": "depthwise", "tree_method": "hist"}  # fmt: skip
    errors = {
        objective: automl.xgboost_error({**point, "objective": objective}, data)
        for objective in ("multi:softprob", "multi:softmax")
    }
    assert errors["multi:softprob"] == errors["multi:softmax"] < 0.1
    slow = {**point, "objective": "multi:softprob", "learning_rate": 1e-6, "gamma": 10.0}
    assert automl.xgboost_error(slow, data) > 0.5


CNN_POINT = {"learning_rate": 0.01, "weight_decay": 1e-6, "batch_size": 64, "pool_size": 3, "channels": 8,
             "kernel_size": 3, "hidden": 16, "activation": "relu", "optimizer": "adam"}  # fmt: skip


def test_cnn_learns_and_is_the_same_every_time(blobs, monkeypatch):
    monkeypatch.setattr(automl, "CNN_EPOCHS", 20)
    value = automl.cnn_error(CNN_POINT, blobs)
    assert value == automl.cnn_error(CNN_POINT, blobs) < 0.2
    other = {
        "pool_size": 4,
        "kernel_size": 4,
        "activation": "tanh",
        "optimizer": "rmsprop",
        "batch_size": 65,
    }
    assert automl.cnn_error(CNN_POINT | other, blobs) < 0.6
    assert automl.cnn_error(CNN_POINT | {"learning_rate": 1e-4}, blobs) > 0.5


def test_cnn_loss_decreases(blobs):
    network, rng = networks.Cnn(), np.random.default_rng(0)
    schedule = networks.Schedule(networks.adam(0.01), batch=64, epochs=8)
    _, losses = networks.train(network, network.initial(12, 8, 16, rng), blobs.x, blobs.y, schedule, rng)
    assert losses[0] == pytest.approx(np.log(10), rel=0.1)
    assert losses[-1] < 0.5 * losses[0]


def test_padded_units_stay_absent(blobs):
    network = networks.Cnn(pool=4)
    schedule = networks.Schedule(networks.adam(0.01, 1e-3), batch=64, epochs=2)
    logits, trained = [], {}
    for padded in (None, (6, 7)):
        rng = np.random.default_rng(0)
        initial = network.initial(12, 4, 5, rng, padded)
        trained, _ = networks.train(network, initial, blobs.x, blobs.y, schedule, rng)
        logits.append(networks.predict(network, trained, blobs.valid_x))
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-4)
    assert np.all(trained["convolution"][:, 4:] == 0)
    assert np.all(trained["output"][5:] == 0)
    assert {a.dtype for a in trained.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(("kernel", "pool"), [(3, 3), (4, 5), (5, 4)])
def test_convolution_and_pooling_by_hand(kernel, pool):
    rng = np.random.default_rng(0)
    image, weights = rng.random((1, 10, 10)), rng.random((kernel, kernel))
    before = (kernel - 1) // 2
    wide = np.pad(image[0], (before, kernel - 1 - before))
    expected = np.array(
        [[(wide[i : i + kernel, j : j + kernel] * weights).sum() for j in range(10)] for i in range(10)]
    )
    product = np.asarray(networks._patches(image, kernel)) @ weights.reshape(-1, 1)
    np.testing.assert_allclose(product[0, :, :, 0], expected, rtol=1e-5)
    cells = 10 // pool
    largest = [
        [expected[i * pool : (i + 1) * pool, j * pool : (j + 1) * pool].max() for j in range(cells)]
        for i in range(cells)
    ]
    np.testing.assert_allclose(networks._max_pool(product, pool)[0, :, :, 0], largest, rtol=1e-5)


def test_optimizers_first_steps():
    parameters = {"w": np.array([1.0, -2.0])}
    gradient = {"w": np.array([0.5, -0.1])}
    zeros = {"w": np.zeros(2)}
    for rule, step in ((networks.adam(0.1), 0.1), (networks.rmsprop(0.1), 1.0)):
        moved, _ = networks._update(parameters, gradient, (zeros, zeros), 1.0, rule)
        # Adam starts with its rate; RMSprop's average has seen 1 % of the square.
        np.testing.assert_allclose(moved["w"], parameters["w"] - step * np.sign(gradient["w"]), atol=1e-5)


def test_cancer_says_which_parameter_is_dead():
    ensemble = pytest.importorskip("sklearn.ensemble")
    problem = automl.gradient_boosting_cancer()
    point = {"loss": "log_loss", "learning_rate": 0.3, "n_estimators": 30, "subsample": 0.8,
             "min_samples_split": 5, "min_samples_leaf": 3, "min_weight_fraction_leaf": 0.05,
             "max_depth": 4, "max_features": "sqrt", "max_leaf_nodes": 6}  # fmt: skip
    alive = automl.has_criterion(ensemble.GradientBoostingClassifier)
    assert ("ignores criterion" in problem.reference) != alive
    values = [problem.value({**point, "criterion": name}) for name in ("friedman_mse", "squared_error")]
    assert all(0.8 < value <= 1 for value in values)
    if not alive:
        assert values[0] == values[1]
    assert (
        problem.value({**point, "criterion": "friedman_mse", "n_estimators": 20, "subsample": 0.001})
        < 0.8
    )


def test_criterion_is_known_by_the_signature():
    class Old:
        def __init__(self, *, criterion="friedman_mse"):
            pass

    class New:
        def __init__(self, *, criterion="deprecated"):
            pass

    class Newest:
        def __init__(self):
            pass

    assert [automl.has_criterion(kind) for kind in (Old, New, Newest)] == [True, False, False]


@pytest.mark.parametrize("relu", [False, True])
def test_boston_gradient_against_differences(relu):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    weights = automl._boston_weights(3, 4, rng)

    def loss():
        return np.mean((automl.boston_output(weights, x, relu)[1] - y) ** 2)

    for w, g in zip(weights, automl.boston_gradient(weights, x, y, relu), strict=True):
        for index in np.ndindex(w.shape):
            kept = float(w[index])
            w[index] = kept + 1e-6
            above = loss()
            w[index] = kept - 1e-6
            below = loss()
            w[index] = kept
            assert g[index] == pytest.approx((above - below) / 2e-6, abs=1e-6)


def test_boston_learns_a_line():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 5))
    data = datasets.portion(x, 20 + x @ [1.0, 2, 0, -1, 3], 0.9)
    for relu in (False, True):
        settings = automl.Boston(hidden=30, rate=0.01, decay=0.0, momentum=0.3, relu=relu, epochs=60)
        assert automl.boston_error(settings, data, seed=0) < 0.1 * np.sqrt(np.mean(data.valid_y**2))


def test_boston_stays_finite_over_its_box(made):
    for problem in (automl.boston_nn(), automl.boston_nn_code()):
        for corner in np.ndindex(2, 2, 2, 2):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert np.isfinite(problem.value(problem.space.decode(corner)))


def test_missing_files_and_packages_are_sentences(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUGURY_DATA", raising=False)
    with pytest.raises(MissingError, match=r"cnn-mnist needs the file mnist.npz.*Keras.*AUGURY_DATA"):
        automl.cnn_mnist()
    with pytest.raises(MissingError, match=r"boston-nn needs the file boston_housing.csv.*mlbench"):
        automl.boston_nn()
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    with pytest.raises(MissingError, match=r"needs the package xgboost.*pip install xgboost-cpu"):
        automl.xgboost_mnist()
    monkeypatch.setitem(__import__("sys").modules, "sklearn.ensemble", None)
    with pytest.raises(MissingError, match=r"random-forest-pima needs the package sklearn"):
        automl.random_forest_pima()


def test_files_are_read_from_the_named_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("AUGURY_DATA", str(tmp_path))
    path = tmp_path / "pima_diabetes.csv"
    path.write_text("a,b,c,d,e,f,g,h,Outcome\n1,2,3,4,5,6,7,8,0\n1,2,3,4,5,6,7,8.5,1\n")
    x, y = datasets.pima("random-forest-pima")
    assert x[:, -1].tolist() == [8, 8.5]
    assert y.tolist() == [0, 1]
    for wrong in ("a,b,Outcome\n1,2,0\n3,4.5,1\n", "a\nx\n", "a\n"):
        path.write_text(wrong)
        with pytest.raises(DataError, match=r"pima_diabetes.csv must hold .*rows of 9 numbers; got"):
            datasets.pima("random-forest-pima")
    np.savez(tmp_path / "mnist.npz", x_train=np.zeros(3))
    with pytest.raises(DataError, match=r"mnist.npz must hold the arrays x_train, .*; got .*y_train"):
        datasets.mnist("cnn-mnist")
    flat = {f"{name}_{part}": np.zeros(3) for name in "xy" for part in ("train", "test")}
    np.savez(tmp_path / "mnist.npz", **flat)
    with pytest.raises(DataError, match=r"x_train \(n, 28, 28\) and y_train \(n,\); got \(3,\)"):
        datasets.mnist("cnn-mnist")
    (tmp_path / "mnist.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"NumPy's format; got"):
        datasets.mnist("cnn-mnist")


def test_pooled_is_the_mean_of_squares():
    assert datasets.pooled(np.arange(16).reshape(1, 4, 4)).tolist() == [[[2.5, 4.5], [10.5, 12.5]]]
