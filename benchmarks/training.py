"""Training networks to convergence, beside Adam and SGD in the same compiled JAX.

Four ReLU networks with two hidden layers of 256 units fit Ackley's function at uniform points of 12
dimensions (standardized values), minimizing ‖y − f‖² + λ‖θ − θ_0‖² with λ = 1e-3. The rivals take
full-batch steps of all networks in one program; float32, in which they are fastest. Ours are trained as
in a suggestion, in as many threads as there are cores. The rivals' learning rates are the best of those
in `RATES`, judged by the loss after all steps, with 512 points after 5000 of them: the loss that is shown
is the mean over the networks, that of a rival the lowest of any rate. Seconds are medians; compilation is
not counted.

With 128 points the rivals have 1000 steps of Adam and 10 000 of SGD. With 512 points Adam goes on until
it reaches the loss of ours (the mean over the networks), or until it has used `--steps`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from augury.core.keys import fold, root_key
from augury.core.precision import computing
from augury.surrogates.networks import MLP, stack
from augury.surrogates.training import train
from common import ackley, markdown, measure_and_show, options, rounded

NETWORK = MLP(depth=2, width=256, activation="relu")
DIMENSION, NETWORKS, LAM = 12, 4, 1e-3
HALF_WIDTH = 8.192
RATES = {"adam": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1), "sgd": (1e-4, 3e-4, 1e-3, 2e-3, 4e-3)}
CHUNK = 500  # steps of Adam between two looks at the loss
ROUNDS = 5  # that are timed; of SGD, which takes a minute, one

Tree = Any


def problem(n: int) -> tuple[np.ndarray, np.ndarray, Tree]:
    """Points of the unit cube, standardized values, and initial parameters."""
    x = np.random.default_rng(n).uniform(size=(n, DIMENSION))
    y = ackley((2.0 * x - 1.0) * HALF_WIDTH)
    theta0 = stack([NETWORK.init(fold(root_key(0), i), DIMENSION) for i in range(NETWORKS)])
    return x, (y - y.mean()) / y.std(), theta0


def single(tree: Tree) -> Tree:
    """The same numbers in float32, as JAX arrays."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


def loss(theta: Tree, theta0: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    """‖y − f‖² + λ‖θ − θ_0‖²."""
    moved = jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), theta, theta0)
    return jnp.sum((y - single(NETWORK)(theta, x)) ** 2) + LAM * sum(jax.tree.leaves(moved))


@partial(jax.jit, static_argnames=("rule", "steps"))
def descend(
    state: Tree, theta0: Tree, x: jax.Array, y: jax.Array, rate: jax.Array, *, rule: str, steps: int
) -> Tree:
    """So many steps of every network; a state is (θ, first moment, second moment, step)."""

    def one(pair: tuple[Tree, Tree]) -> tuple[Tree, jax.Array]:
        own, start = pair
        slope = jax.grad(lambda theta: loss(theta, start, x, y))

        def sgd(_: int, s: Tree) -> Tree:
            return (jax.tree.map(lambda a, g: a - rate * g, s[0], slope(s[0])), *s[1:])

        def adam(_: int, s: Tree) -> Tree:
            theta, m, v, t = s
            t = t + 1.0
            g = slope(theta)
            m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
            v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
            down, up = 1.0 - 0.9**t, 1.0 - 0.999**t
            theta = jax.tree.map(
                lambda a, b, c: a - rate * (b / down) / (jnp.sqrt(c / up) + 1e-8), theta, m, v
            )
            return theta, m, v, t

        end = jax.lax.fori_loop(0, steps, sgd if rule == "sgd" else adam, own)
        return end, loss(end[0], start, x, y)

    return jax.lax.map(one, (state, theta0))


def fresh(theta0: Tree) -> Tree:
    """The state before the first step."""
    zero = jax.tree.map(jnp.zeros_like, theta0)
    return theta0, zero, zero, jnp.zeros(NETWORKS, jnp.float32)


def timed(call: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The median of so many calls, after one to compile."""
    result, seconds = call(), []
    for _ in range(rounds):
        started = time.perf_counter()
        result = jax.block_until_ready(call())  # type: ignore[no-untyped-call]
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds)), result


def mean_loss(losses: Any) -> float:
    """Over the networks; infinite for a rate that diverged."""
    value = float(np.mean(np.asarray(losses)))
    return value if np.isfinite(value) else float("inf")


def best_rate(rule: str, steps: int, start: Tree, x: jax.Array, y: jax.Array) -> float:
    """The learning rate with the lowest loss after so many steps."""
    return min(
        RATES[rule],
        key=lambda rate: mean_loss(descend(fresh(start), start, x, y, rate, rule=rule, steps=steps)[1]),
    )


def ours(x: np.ndarray, y: np.ndarray, theta0: Tree, rounds: int) -> dict[str, Any]:
    """The dual method."""
    mask, targets = np.ones(len(x), bool), np.tile(y, (NETWORKS, 1))
    seconds, result = timed(lambda: train(NETWORK, theta0, x, mask, targets, lam=LAM), rounds)
    return {
        "method": result.method,
        "seconds": rounded(seconds),
        "loss": rounded(mean_loss(result.loss)),
        "steps": [int(steps) for steps in result.steps],
        "converged": bool(result.converged.all()),
    }


def rival(
    rule: str, steps: int, arguments: tuple[Tree, jax.Array, jax.Array], rounds: int
) -> dict[str, Any]:
    """So many steps at the best rate."""
    start, x, y = arguments
    rate = best_rate(rule, steps, start, x, y)
    call = partial(descend, fresh(start), start, x, y, rate, rule=rule, steps=steps)
    seconds, (_, losses) = timed(call, rounds)
    return {"rate": rate, "steps": steps, "seconds": rounded(seconds), "loss": rounded(mean_loss(losses))}


def until(goal: float, most: int, arguments: tuple[Tree, jax.Array, jax.Array]) -> dict[str, Any]:
    """Adam, until its mean loss is `goal` or the steps are used up."""
    start, x, y = arguments
    rate = best_rate("adam", 10 * CHUNK, start, x, y)
    run = partial(descend, theta0=start, x=x, y=y, rate=rate, rule="adam", steps=CHUNK)
    jax.block_until_ready(run(fresh(start)))  # type: ignore[no-untyped-call]
    state, steps, value, began = fresh(start), 0, float("inf"), time.perf_counter()
    while steps < most and value > goal:
        state, losses = run(state)
        value, steps = mean_loss(losses), steps + CHUNK
    seconds = time.perf_counter() - began
    return {
        "rate": rate, "steps": steps, "seconds": rounded(seconds), "loss": rounded(value),
        "reached": value <= goal,
    }  # fmt: skip


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Both sizes."""
    results: dict[str, Any] = {"cores": os.cpu_count(), "rounds": ROUNDS}
    with computing():
        for n in (128, 512):
            x, y, theta0 = problem(n)
            given = single(theta0), single(x), single(y)
            mine = ours(x, y, theta0, ROUNDS)
            results[str(n)] = {"dual": mine}
            if n == 128:
                results["128"]["adam"] = rival("adam", 1000, given, ROUNDS)
                results["128"]["sgd"] = rival("sgd", 10_000, given, 1)
            else:
                results["512"]["adam"] = until(mine["loss"], arguments.steps, given)
    return results


def table(results: dict[str, Any]) -> str:
    """Seconds, losses, and ratios to ours."""
    rows = []
    for n in ("128", "512"):
        mine = results[n]["dual"]
        rows.append(
            [n, "Augury: " + mine["method"], f"{min(mine['steps'])} to {max(mine['steps'])}", "",
             f"{mine['seconds']:.2f}", f"{mine['loss']:.3f}", "1"]
        )  # fmt: skip
        for name in ("adam", "sgd"):
            if name not in results[n]:
                continue
            other = results[n][name]
            steps = f"{other['steps']}" + ("" if other.get("reached", True) else " (loss not reached)")
            rows.append(
                [n, {"adam": "Adam", "sgd": "SGD"}[name], steps, f"{other['rate']:g}",
                 f"{other['seconds']:.2f}", f"{other['loss']:.3f}",
                 f"{other['seconds'] / mine['seconds']:.0f}"]
            )  # fmt: skip
    head = ("points", "method", "steps", "rate", "seconds", "mean loss", "time / ours")
    return markdown(head, rows, left=2)


def main() -> None:
    """Measure, or show what was measured."""
    parser = options("Training to convergence, beside Adam and SGD.")
    parser.add_argument(
        "--steps", type=int, default=30_000, help="the most steps of Adam with 512 points"
    )
    measure_and_show("training", parser.parse_args(), measure, table)


if __name__ == "__main__":
    main()
