"""DPP-TS against its distribution, enumerated."""

import math

import numpy as np
import pytest

from augury.core.keys import fold, generator
from augury.maximizers import Best
from augury.policies import DPPThompson, Thompson
from known_line import (
    GRID,
    KEY,
    choose,
    fitted,
    joint,
)


@pytest.fixture(scope="module")
def posterior():
    return fitted()


K3 = np.array([[1.0, 0.9, 0.1], [0.9, 1.2, 0.0], [0.1, 0.0, 0.5]])
P3 = np.array([0.6, 0.3, 0.1])
NOISE3 = 0.25


class Three:
    """Three points, where draws have their maximum with probabilities P3 and covariance K3."""

    noise_std = math.sqrt(NOISE3)

    def __init__(self):
        self.drawn = 0

    def sample(self, *, key, scale=1.0):
        self.drawn += 1

    def joint(self, xs):
        where = xs[:, 0].astype(int)
        return np.zeros(len(where)), K3[np.ix_(where, where)]


def three_points(count, pending, policy, seed):
    """The points that DPP-TS picks, how often each was replaced, and the number of draws."""

    def maximize(score, *, key, without=(), anew=True, judged=True):
        i = int(generator(key).choice(3, p=P3))
        return Best(np.array([float(i)]), i, 0.0, 1.0)

    posterior = Three()
    picks = policy.choose(
        posterior,
        np.array(pending, dtype=float).reshape(-1, 1),
        None,
        t=1,
        maximize=maximize,
        candidates=None,
        keys=[fold(KEY, seed, number) for number in range(count)],
    )
    swaps = [info["swaps"] for info in picks.info]
    return [point.index for point in picks.points], swaps, posterior.drawn


def volume(members, weight):
    K = K3[np.ix_(members, members)]
    return np.linalg.det(np.eye(len(K)) + weight / NOISE3 * K)


@pytest.mark.parametrize(("pending", "weight"), [((), 1.0), ((), 0.0), ((1,), 2.0)])
def test_dpp_ts_samples_its_distribution(pending, weight):
    """P(x1, x2) ∝ p(x1) p(x2) det(I + λσ⁻²K), here with a chain that is long enough."""
    target = np.array(
        [[P3[a] * P3[b] * volume([*pending, a, b], weight) for b in range(3)] for a in range(3)]
    )
    target /= target.sum()
    runs = 300
    counts = np.zeros((3, 3))
    for seed in range(runs):
        (a, b), _, _ = three_points(2, pending, DPPThompson(8, weight), seed)
        counts[a, b] += 1
    error = np.sqrt(target * (1.0 - target) / runs) + 1.0 / runs
    assert np.all(np.abs(counts / runs - target) < 4.0 * error)


@pytest.mark.parametrize(("pending", "weight"), [((1,), 2.0), ((0, 2), 0.5)])
def test_a_step_of_dpp_ts_accepts_by_the_volumes_with_the_pending_points(pending, weight):
    """P(accepted) = Σ p(x) p(y) min(1, det(pending, y) / det(pending, x)) for a batch of one point."""
    V = np.array([volume([*pending, a], weight) for a in range(3)])
    p = float(P3 @ np.minimum(1.0, V[None, :] / V[:, None]) @ P3)
    runs, policy = 200, DPPThompson(1, weight)
    accepted = np.mean([three_points(1, pending, policy, seed)[1] for seed in range(runs)])
    assert abs(accepted - p) < 4.0 * math.sqrt(p * (1.0 - p) / runs) + 1.0 / runs


@pytest.mark.parametrize("count", [2, 5])
def test_dpp_ts_makes_two_steps_for_every_point_of_the_batch(count):
    assert three_points(count, (), DPPThompson(), 0)[2] == count + 2 * count
    assert three_points(count, (1,), DPPThompson(), 0)[2] == count + 2 * count
    assert three_points(count, (), DPPThompson(swaps=3), 0)[2] == count + 3


def test_the_volume_of_dpp_ts_has_the_noise_variance():
    members = [Best(np.array([float(i)]), i, 0.0, 1.0) for i in (0, 2)]
    log_det = DPPThompson(weight=2.0)._log_det(Three(), np.array([[1.0]]), members)
    assert math.exp(log_det) == pytest.approx(volume([1, 0, 2], 2.0))


def test_a_dpp_ts_batch_tells_more_than_one_of_thompson_sampling(posterior):
    def information(policy):
        gains = []
        for seed in range(10):
            indices, _ = choose(policy, posterior, count=3, key=fold(KEY, seed))
            _, K = joint(GRID[indices])
            gains.append(np.linalg.slogdet(np.eye(3) + K / 0.05)[1])
        return np.mean(gains)

    assert information(DPPThompson(swaps=12)) > information(Thompson()) + 0.1
