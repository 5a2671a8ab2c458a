"""Scoring many rows without compiling for every number of rows."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Float

from augury._types import Array
from augury.core.data import pad
from augury.core.precision import computing, jit
from augury.core.score import Score

BLOCKS = (32, 512, 4096)  # rows per compiled call
CALL = 32  # rows that could be scored in the time of a call
LARGEST_BLOCK = 1 << 22  # numbers in a block, where rows are wide


@dataclass(frozen=True)
class Found:
    """The best point of a search, and how many evaluations of the score it took."""

    x: Float[np.ndarray, " D"]
    index: int | None
    value: float
    evaluations: int


def blocks_for(dim: int) -> list[int]:
    """The sizes of blocks of rows with so many columns."""
    return [block for block in BLOCKS if block * dim <= LARGEST_BLOCK] or [BLOCKS[0]]


@jit
def _values(score: Score, rows: Float[Array, "n D"]) -> Float[Array, " n"]:
    if score.rows_at_once is None:
        return jax.vmap(score)(rows)
    return jax.lax.map(score, rows, batch_size=score.rows_at_once)


def values(score: Score, rows: Float[np.ndarray, "n D"]) -> Float[np.ndarray, " n"]:
    """The score of every row, computed in blocks of fixed size; NaN becomes −inf."""
    out = np.empty(len(rows))
    blocks, start = blocks_for(rows.shape[1]), 0
    if score.rows_at_once is not None:  # expensive: fewer rows of padding
        blocks = [block for block in blocks if block <= BLOCKS[1]]
    with computing():
        while start < len(rows):
            left = len(rows) - start
            size = min(blocks, key=lambda block: -(-left // block) * (block + CALL))
            block = rows[start : start + size]
            out[start : start + size] = np.asarray(_values(score, pad(block, size)))[: len(block)]
            start += size
    return np.where(np.isnan(out), -np.inf, out)


def allowed(indices: np.ndarray | None, count: int, exclude: Collection[int]) -> np.ndarray:
    """Which of `count` points may be chosen."""
    if indices is None or not exclude:
        return np.ones(count, dtype=bool)
    if indices.dtype == object:  # indices beyond 64 bits
        return np.fromiter((i not in exclude for i in indices), dtype=bool, count=count)
    return ~np.isin(indices, np.fromiter(exclude, dtype=np.int64, count=len(exclude)))


def best_of(
    rows: np.ndarray, scores: np.ndarray, indices: np.ndarray | None, exclude: Collection[int]
) -> Found | None:
    """The best allowed row; None if none is allowed."""
    may = allowed(indices, len(rows), exclude)
    if not may.any():
        return None
    winner = int(np.argmax(np.where(may, scores, -np.inf)))
    if not may[winner]:  # every allowed row scores −inf
        winner = int(np.argmax(may))
    index = None if indices is None else int(indices[winner])
    return Found(rows[winner], index, float(scores[winner]), len(rows))


def better(candidates: Iterable[Found | None]) -> Found | None:
    """The one of largest value, with the evaluations of all."""
    found = [c for c in candidates if c is not None]
    if not found:
        return None
    best = max(found, key=lambda c: c.value)
    return replace(best, evaluations=sum(c.evaluations for c in found))
