import numpy as np
import pytest
from scipy import sparse

from augury.bench import datasets, kept, networks
from augury.bench.problem import MissingError
from augury.bench.problems import pools
from augury.space import Pool

LABELS = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [1, 2, 2], [0, 0, 0]])


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "augury" / "bench"


def f1(a, b):
    """Precision and recall of the sets of ancestors, as defined."""
    paths = [{tuple(labels[: level + 1]) for level in range(len(labels))} for labels in (a, b)]
    common = len(paths[0] & paths[1])
    precision, recall = common / len(paths[0]), common / len(paths[1])
    return 2 * precision * recall / (precision + recall) if common else 0.0


def test_hierarchical_f1_by_hand():
    assert pools.hierarchical_f1(LABELS, LABELS[0]) == pytest.approx([1, 2 / 3, 1 / 3, 0, 0, 1])
    # The detailed class 2 has two parents: it is not one class.
    assert pools.hierarchical_f1(LABELS, LABELS[2]).tolist()[4] == 0
    rng = np.random.default_rng(0)
    many = rng.integers(3, size=(200, 3))
    expected = [f1(labels, many[7]) for labels in many]
    np.testing.assert_allclose(pools.hierarchical_f1(many, many[7]), expected)


@pytest.fixture
def corpus(tmp_path):
    counts = sparse.random(6, 5, 0.5, format="csr", random_state=0)
    counts.data = np.ceil(9 * counts.data).astype(np.uint8)
    levels = {f"y{i + 1}": LABELS[:, i].astype(np.uint8) for i in range(3)}
    parts = {"data": counts.data, "indices": counts.indices.astype(np.uint16), "indptr": counts.indptr}
    for name in ("amazon_reviews_5484_bow500.npz", "newsgroups20_18846_bow500.npz"):
        np.savez(tmp_path / name, shape=np.array(counts.shape), **parts, **levels)
    return counts.toarray()


@pytest.mark.parametrize("name", ["amazon-retrieval", "newsgroups-retrieval"])
def test_retrieval(name, corpus, monkeypatch, tmp_path):
    monkeypatch.setenv("AUGURY_DATA", str(tmp_path))
    problem = pools.PROBLEMS[name](3)
    assert isinstance(problem.space, Pool)
    assert "sparse" in repr(problem.space)
    assert problem.direction == "maximize"
    assert problem.exact
    np.testing.assert_allclose(problem.space.rows(0, 6), corpus / np.maximum(corpus.max(axis=0), 1))
    values = [problem.value({"index": i}) for i in range(6)]
    assert problem.optimum == max(values) == problem.value(problem.optimal) == 1
    assert values == [pools.PROBLEMS[name](3).value({"index": i}) for i in range(6)]
    others = {tuple(pools.PROBLEMS[name](s).value({"index": i}) for i in range(6)) for s in range(20)}
    assert len(others) > 2
    assert ("5,484-document subset" in problem.reference) == (name == "amazon-retrieval")


@pytest.fixture
def stripes():
    """Class 0 is dark above, class 1 dark below."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=160)
    images = rng.integers(60, size=(160, 12, 12)).astype(np.uint8)
    images[labels == 0, 6:] += 150
    images[labels == 1, :6] += 150
    return images, labels


SCORER = pools.Scorer(4, 8, networks.Schedule(networks.adam(0.01), batch=32, epochs=8), seed=0)


def test_class_probabilities(stripes):
    images, labels = stripes[0] / np.float32(255), stripes[1]
    p = pools.class_probabilities(images[:120], labels[:120], images[120:], SCORER)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert p[labels[120:] == 0, 0].min() > p[labels[120:] == 1, 0].max()
    assert np.array_equal(p, pools.class_probabilities(images[:120], labels[:120], images[120:], SCORER))


def test_mnist_digit_0_is_trained_once(stripes, monkeypatch, cache):
    images, labels = stripes
    mnist = {"x_train": images[:120], "y_train": labels[:120], "x_test": images[120:]}
    monkeypatch.setattr(datasets, "mnist", lambda problem: mnist)
    monkeypatch.setattr(pools, "_SCORER", SCORER)
    problem = pools.mnist_digit_0()
    values = [problem.value({"index": i}) for i in range(40)]
    assert problem.optimum == max(values)
    assert labels[120 + problem.optimal["index"]] == 0
    assert problem.space.dim == 144
    assert [file.suffix for file in cache.iterdir()] == [".npz"]
    monkeypatch.setattr(pools, "class_probabilities", None)
    assert [pools.mnist_digit_0().value({"index": i}) for i in range(40)] == values
    monkeypatch.setattr(pools, "_SCORER", SCORER._replace(seed=1))
    with pytest.raises(TypeError):  # other settings are other scores
        pools.mnist_digit_0()


def test_kept_survives_a_broken_file_and_a_folder_that_cannot_be_made(monkeypatch, cache, tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"a": np.arange(3)}

    for _ in range(2):
        assert kept.kept("x", compute)["a"].tolist() == [0, 1, 2]
    assert len(calls) == 1
    (cache / "x.npz").write_bytes(b"PK\x03\x04 cut short")
    kept.kept("x", compute)
    kept.kept("x", compute)
    assert len(calls) == 2
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kept.kept("x", compute)["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", pools.PROBLEMS)
def test_missing_files_are_sentences(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUGURY_DATA", raising=False)
    with pytest.raises(
        MissingError, match=rf"{name} needs the file .*\.npz; .* Get it from .*AUGURY_DATA"
    ):
        pools.PROBLEMS[name](0)
