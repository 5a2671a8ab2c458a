"""Pools of images and of texts, from the pool to the suggestion."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from augury import (
    Algorithm,
    DataError,
    Float,
    Optimizer,
    Pool,
    Space,
    SpaceError,
    SpaceExhausted,
    UnsupportedError,
)
from augury.algorithm import resolve
from augury.core.keys import fold, root_key
from augury.maximizers import RandomGrid, scoring
from augury.policies.thompson import PathScore
from augury.surrogates import CNN, Election, EmpiricalProcess, NTKProcess, SampleThenOptimize
from augury.surrogates.cnn import cnn_for
from augury.surrogates.sample_then_optimize import NetworkPath

KEY = root_key(0)
IMAGES = np.random.default_rng(0).integers(0, 256, (40, 8, 7), dtype=np.uint8)
BRIGHT = IMAGES[:, :3].mean((1, 2))  # of the upper rows


def chosen(pool, algorithm):
    return Optimizer(pool, algorithm, seed=0).algorithm.surrogate


def test_a_pool_knows_the_shape_of_one_candidate():
    assert Pool(IMAGES).shape == (8, 7)
    assert Pool(np.zeros((3, 5, 4, 2))).shape == (5, 4, 2)
    assert Pool(np.zeros((3, 5))).shape == (5,)
    assert Pool(scipy.sparse.csr_array(np.eye(4))).shape == (4,)


@pytest.mark.parametrize("name", ["sto-bnts", "auto"])
def test_images_get_a_cnn_of_their_shape(name):
    network = chosen(Pool(IMAGES), name).process.network
    assert isinstance(network, CNN)
    assert network.image == (8, 7, 1)
    assert network.channels == (64,)
    assert chosen(Pool(np.ones((3, 9, 9, 3))), name).process.network.image == (9, 9, 3)


def test_everything_else_gets_an_mlp():
    for space in (Pool(np.eye(6)), Space(x=Float(0.0, 1.0))):
        assert chosen(space, "sto-bnts").process == NTKProcess()
        assert chosen(space, "auto") == Election()
    words = Pool(scipy.sparse.csr_array(np.eye(6)))
    assert chosen(words, "auto") == chosen(words, "sto-bnts")
    assert chosen(words, "auto").process == NTKProcess()
    assert chosen(Pool(np.ones((3, 2, 9))), "sto-bnts").process == NTKProcess()  # too small to pool


def test_what_the_user_chose_stays():
    for process in (NTKProcess(depth=1), EmpiricalProcess(CNN((8, 7, 1), channels=(4,)))):
        algorithm = Algorithm(SampleThenOptimize(process), "thompson")
        kept = chosen(Pool(IMAGES), algorithm).process
        assert type(kept) is type(process)
        assert getattr(kept, "network", None) is getattr(process, "network", None)
    mine = replace(resolve("auto"), maximizer=RandomGrid())
    assert chosen(Pool(IMAGES), mine) == Election()


def test_large_images_are_pooled_more_often():
    assert cnn_for((28, 28)) == CNN((28, 28, 1))
    assert cnn_for((64, 64, 3)).channels == (64, 64)
    assert cnn_for((224, 224, 3)).channels == (64, 64, 64)
    assert cnn_for((300, 3)).channels == (64,)
    assert cnn_for((2, 300)) is None
    assert cnn_for((300,)) is None


def test_a_study_of_images_and_its_restored_state():
    pool = Pool(IMAGES)
    opt = Optimizer(pool, direction="maximize", seed=0, initial=6)
    for _ in range(6):
        trial = opt.ask()
        opt.tell(trial, BRIGHT[trial.params["index"]])
    restored = Optimizer.from_json(opt.to_json(), space=pool)
    ours, theirs = ([one.ask(), one.ask()] for one in (opt, restored))
    for a, b in zip(ours, theirs, strict=True):
        assert a.params == b.params
        assert a.info["mean"] == b.info["mean"]
        assert a.info["score"] == b.info["score"]
    assert ours[0].params != ours[1].params
    assert ours[0].info["training"]["converged"]
    assert ours[0].info["fit"]["network"] == "CNN"
    assert "SampleThenOptimize" in ours[0].info["chosen"]
    assert opt.recommend() in opt.trials
    with pytest.raises(DataError, match="needs the pool"):
        Optimizer.from_json(opt.to_json(), space=Pool(IMAGES.transpose(0, 2, 1)))


def test_networks_are_scored_a_few_images_at_a_time_with_the_same_values():
    network = CNN((8, 7, 1), channels=(32,), width=8)
    assert network.rows_at_once == 512
    assert CNN((28, 28, 1), channels=(256,), width=256, stride=2).rows_at_once == 64  # 11 million weights
    a, b, c = (network.init(fold(KEY, i), 56) for i in range(3))
    path = NetworkPath(network, a, (b, network.zero_last(c)), np.asarray(3.0), np.asarray(2.0))
    score, rows = PathScore(path), Pool(np.tile(IMAGES, (14, 1, 1))).rows(0, 560)
    assert score.rows_at_once == network.rows_at_once
    together = scoring.values(score, rows)
    assert len(together) == 560
    np.testing.assert_allclose(together[:40], path(rows[:40]), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(together[40:80], together[:40], rtol=1e-4, atol=1e-4)


def test_wide_sparse_counts_work():
    counts = scipy.sparse.random(60, 500, 0.02, format="csr", random_state=0)
    model = Algorithm(SampleThenOptimize(NTKProcess(depth=1), width=16), "thompson")
    opt = Optimizer(Pool(counts), model, seed=0, initial=4)
    for _ in range(4):
        trial = opt.ask()
        opt.tell(trial, float(counts[[trial.params["index"]]].sum()))
    assert np.isfinite(opt.ask().info["score"])


def test_blocks_of_wide_rows_are_small():
    assert scoring.blocks_for(10)[-1] == 4096
    assert scoring.blocks_for(5000)[-1] == 512
    assert scoring.blocks_for(10**6) == [32]


def test_a_pool_of_one_image_is_asked_once():
    opt = Optimizer(Pool(IMAGES[:1]), "sto-bnts", seed=0)
    opt.tell(opt.ask(), 1.0)
    with pytest.raises(SpaceExhausted, match="all 1 have been asked"):
        opt.ask()
    again = Optimizer(Pool(IMAGES[:1]), "sto-bnts", seed=0, initial=1, duplicates="allow")
    again.tell(again.ask(), 1.0)
    assert again.ask().params == {"index": 0}


def test_bad_images_and_networks_are_refused_with_a_sentence():
    with pytest.raises(SpaceError, match="must form an array"):
        Pool([np.zeros((8, 8)), np.zeros((8, 9))])
    other = Algorithm(SampleThenOptimize(EmpiricalProcess(CNN((28, 28, 1)))), "thompson")
    with pytest.raises(DataError, match=r"shape \(28, 28, 1\)"):
        Optimizer(Pool(IMAGES), other)
    for make in (
        lambda: SampleThenOptimize(width=0),
        lambda: CNN((8, 8, 1), depth=0),
        lambda: NTKProcess(noise=-1.0),
        lambda: NTKProcess(depth=0),
    ):
        with pytest.raises(UnsupportedError, match="must be"):
            make()


def test_a_network_for_images_of_another_shape_is_refused():
    algorithm = Algorithm(SampleThenOptimize(EmpiricalProcess(CNN((4, 14, 1)))), "thompson")
    with pytest.raises(
        DataError, match=r"the shape \(4, 14, 1\) of the network; got images of shape \(8, 7\)"
    ):
        Optimizer(Pool(IMAGES), algorithm)
    with pytest.raises(SpaceError, match="must all have one shape"):
        Pool(np.array([np.zeros((3, 3)), np.zeros((4, 3))], dtype=object))
