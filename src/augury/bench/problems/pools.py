"""Pools of images and of documents, of which the best is sought; every candidate's value is known."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from augury.bench import datasets
from augury.bench.kept import kept
from augury.bench.networks import Cnn, Schedule, adam, predict, train
from augury.bench.problem import Factory, Problem, data_file
from augury.space import Pool

FloatArray = npt.NDArray[np.float64]


def pool_problem(name: str, features: Any, values: FloatArray, reference: str, budget: int) -> Problem:
    """The search for the candidate of largest value."""
    pool = Pool(features)
    best = int(np.argmax(values))
    return Problem(
        name=name,
        space=pool,
        value=lambda params: float(values[pool.check(params)["index"]]),
        direction="maximize",
        optimum=float(values[best]),
        optimal={"index": best},
        reference=reference,
        budget=budget,
    )


# Images


class Scorer(NamedTuple):
    """The widths of a CNN, and how it is trained."""

    channels: int
    hidden: int
    schedule: Schedule
    seed: int


_SCORER = Scorer(channels=16, hidden=64, schedule=Schedule(adam(2e-3), batch=128, epochs=2), seed=0)


def class_probabilities(
    images: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    pool: npt.NDArray[Any],
    scorer: Scorer,
) -> FloatArray:
    """The probabilities (N, 10) that a CNN, trained on images (n, h, w), gives to a pool (N, h, w).

    One convolution (3 × 3), max pooling (3 × 3), one dense layer, ReLU; Adam.
    """
    network, rng = Cnn(kernel=3, pool=3), np.random.default_rng(scorer.seed)
    initial = network.initial(images.shape[1], scorer.channels, scorer.hidden, rng)
    parameters, _ = train(network, initial, images, labels, scorer.schedule, rng)
    logits = predict(network, parameters, pool)
    logits -= logits.max(axis=1, keepdims=True)
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def mnist_digit_0(seed: int = 0) -> Problem:
    """MNIST's 10,000 test images, scored by the probability of class 0 of a CNN trained on the 60,000.

    The paper does not state the scoring CNN; ours has 16 channels and 64 dense units and is trained for
    two epochs, which takes a minute. The scores are kept in the user's cache folder.
    """
    mnist = datasets.mnist("mnist-digit-0")

    def compute() -> dict[str, FloatArray]:
        images, pool = (mnist[name] / np.float32(255) for name in ("x_train", "x_test"))
        return {"values": class_probabilities(images, mnist["y_train"], pool, _SCORER)[:, 0]}

    digest = hashlib.sha256(repr(_SCORER).encode())
    for name in ("x_train", "y_train", "x_test"):
        digest.update(mnist[name].tobytes())
    return pool_problem(
        "mnist-digit-0",
        mnist["x_test"],
        kept(f"mnist-digit-0-{digest.hexdigest()[:16]}", compute)["values"],
        reference="sto-bnts F.4; the scoring CNN is ours",
        budget=100,
    )


# Documents


def hierarchical_f1(labels: npt.NDArray[Any], target: npt.NDArray[Any]) -> FloatArray:
    """The hierarchical F1 (n,) of labels (n, levels), from general to detailed, and a target (levels,).

    Precision and recall count the classes on the path to a label that lie on the path to the other. A
    class is known by its path: equal names below different parents are different classes. As all paths
    are equally long, both are the number of leading levels that agree, divided by the number of levels.
    """
    agree = np.logical_and.accumulate(labels == target, axis=1)
    return agree.sum(axis=1) / labels.shape[1]


def documents(path: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """The word counts (n, 500), a sparse matrix, and the labels (n, 3) of a file of documents."""
    levels = ("y1", "y2", "y3")
    file = datasets.arrays(path, ("data", "indices", "indptr", "shape", *levels))
    try:
        parts = file["data"], file["indices"].astype(np.int32), file["indptr"]
        counts = sparse.csr_matrix(parts, shape=tuple(file["shape"]))
        labels = np.stack([file[name].astype(np.int64) for name in levels], axis=1)
    except (ValueError, TypeError) as error:
        raise datasets.wrong_file(path, "a sparse matrix and three labels per row", str(error)) from error
    if len(labels) != counts.shape[0]:
        got = f"{counts.shape[0]} rows and {len(labels)} labels"
        raise datasets.wrong_file(path, "a sparse matrix and three labels per row", got)
    return counts, labels


def retrieval(
    name: str, counts: Any, labels: npt.NDArray[np.int64], reference: str, seed: int
) -> Problem:
    """The search for a document that matches a target document, drawn by the seed from the pool."""
    target = int(np.random.default_rng(seed).integers(len(labels)))
    values = hierarchical_f1(labels, labels[target])
    return pool_problem(name, counts, values, reference, budget=200)


def amazon_retrieval(seed: int = 0) -> Problem:
    """A product review that matches a target review, in three levels of categories."""
    path = data_file(
        "amazon_reviews_5484_bow500.npz",
        "amazon-retrieval",
        "kaggle.com/datasets/kashnitsky/hierarchical-text-classification "
        "(5,484 reviews of train_40k.csv, as counts of 500 words)",
    )
    reference = "neural-bo 7.2.2, on a 5,484-document subset of its 37,738"
    return retrieval("amazon-retrieval", *documents(path), reference=reference, seed=seed)


def newsgroups_retrieval(seed: int = 0) -> Problem:
    """A newsgroup posting that matches a target posting: the full-size stand-in for the reviews."""
    path = data_file(
        "newsgroups20_18846_bow500.npz",
        "newsgroups-retrieval",
        "20news-bydate (qwone.com/~jason/20Newsgroups, as counts of 500 words)",
    )
    reference = "as neural-bo 7.2.2, on the 18,846 postings of 20 newsgroups"
    return retrieval("newsgroups-retrieval", *documents(path), reference=reference, seed=seed)


PROBLEMS: Mapping[str, Factory] = {
    "mnist-digit-0": mnist_digit_0,
    "amazon-retrieval": amazon_retrieval,
    "newsgroups-retrieval": newsgroups_retrieval,
}
