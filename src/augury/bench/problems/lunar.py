"""Lunar Lander: twelve weights of a hand-written controller (paper sto-bnts 5.3).

The papers search x in [0, 1]^12 with w = 2x; here the parameters are the weights w themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator

from augury.bench.box2d import box2d
from augury.bench.problem import Factory, Params, Problem, package
from augury.space import Float, Space

EPISODES = 20  # of one noisy evaluation
TERRAINS = range(50)  # the seeds of the noise-free value
ENGINES_OFF, LEFT, MAIN, RIGHT = range(4)

# The best point that the authors of sto-bnts report (B = 4), and its value here on the 50 terrains.
BEST_KNOWN = 280.1500
BEST = (
    0.5986, 0.88, 0.5014, 0.993, 1.6804, 1.8206, 0.436, 1.0222, 0.1162, 0.999, 0.177, 0.232,
)  # fmt: skip


def action(w: Sequence[float], state: Sequence[float]) -> int:
    """Which engine the controller with weights w fires in a state."""
    x, height, vx, vy, angle, spin, *legs = state
    target_angle = min(max(w[0] * x + w[1] * vx, -w[2]), w[2])
    turn = w[4] * (target_angle - angle) - w[5] * spin
    hover = w[6] * (w[3] * abs(x) - height) - w[7] * vy
    if any(legs):
        turn, hover = w[8], -w[9] * vy
    if hover > abs(turn) and hover > w[10]:
        return MAIN
    if turn < -w[11]:
        return RIGHT
    return LEFT if turn > w[11] else ENGINES_OFF


def rewards(w: Sequence[float], seeds: Iterable[int]) -> list[float]:
    """The total reward of one episode per seed, which decides the terrain and every push."""
    env = _gymnasium("lunar-lander").make("LunarLander-v3", disable_env_checker=True)
    totals = []
    for seed in seeds:
        state, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            state, reward, landed, timeout, _ = env.step(action(w, state.tolist()))
            total += float(reward)
            over = landed or timeout
        totals.append(total)
    env.close()
    return totals


def value(params: Params) -> float:
    """The mean reward on the fixed terrains."""
    return float(np.mean(rewards(_weights(params), TERRAINS)))


def observe(params: Params, rng: Generator) -> float:
    """The mean reward on terrains drawn anew."""
    seeds = rng.integers(2**31, size=EPISODES).tolist()
    return float(np.mean(rewards(_weights(params), seeds)))


def _weights(params: Params) -> list[float]:
    return [params[f"w{i}"] for i in range(12)]


def _gymnasium(problem: str) -> Any:
    """The package gymnasium, with the two that its lander needs."""
    box2d(problem)
    with redirect_stdout(None):  # pygame greets whoever imports it
        package("pygame", problem)
    return package("gymnasium", problem)


def _lander(name: str, noisy: bool) -> Factory:
    def build(seed: int) -> Problem:
        _gymnasium(name)
        return Problem(
            name,
            Space({f"w{i}": Float(0.0, 2.0) for i in range(12)}),
            value,
            reference="sto-bnts 5.3 (LunarLander-v3 of gymnasium, w = 2x); "
            "noise-free on 50 terrains, as in TuRBO (Eriksson et al. 2019)",
            budget=520,  # 20 initial points and 500 iterations
            direction="maximize",
            optimum=BEST_KNOWN,
            exact=False,
            optimal={f"w{i}": w for i, w in enumerate(BEST)},
            observe=observe if noisy else None,
            noise=f"mean of {EPISODES} episodes on random terrains" if noisy else "none",
            packages=("gymnasium", "Box2D"),
        )

    return build


PROBLEMS: Mapping[str, Factory] = MappingProxyType(
    {
        "lunar-lander": _lander("lunar-lander", noisy=True),
        "lunar-lander-fixed": _lander("lunar-lander-fixed", noisy=False),
    }
)
