"""A random forest as a surrogate, as SMAC has it: its trees disagree where it knows little.

    μ(x) = mean of the leaves' means,   σ²(x) = mean of their variances + variance of their means

scikit-learn grows the trees; then they are arrays, which compiled code walks down.

Reference: Hutter, Xu, Hoos & Leyton-Brown (2014), "Algorithm runtime prediction: methods & evaluation",
section 4.3.2.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from augury._checks import check_real, need_count
from augury._errors import UnsupportedError
from augury._types import Array
from augury.core.data import Data, bucket, pad
from augury.core.keys import KeyArray, generator
from augury.core.precision import public
from augury.surrogates.base import Capability, Fit, Path, Posterior, Status

SMALLEST_DEVIATION = 1e-6  # of the values' own: a forest may be certain, a score divides by σ


@dataclass(frozen=True)
class RandomForest:
    """Bagged regression trees; needs scikit-learn (`pip install "augury[sklearn]"`).

    It has no gradients: a maximizer without them is needed. Pending points join the data at the
    predicted mean, and the forest is grown anew.

    Args:
        trees: how many.
        leaf: the fewest observations in a leaf.
        features: the fraction of columns tried at a split, in (0, 1].
    """

    trees: int = 100
    leaf: int = 3
    features: float = 5 / 6

    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.MEAN, Capability.VAR, Capability.PATH}
    )

    def __post_init__(self) -> None:
        need_count("trees", self.trees)
        need_count("leaf", self.leaf)
        check_real("features", self.features)
        if not 0.0 < self.features <= 1.0:
            raise UnsupportedError(
                f"features must be a fraction in (0, 1]; got {self.features!r}. Use 5/6."
            )
        _forest_class()

    def tune(self, data: Data, *, key: KeyArray) -> None:
        """Nothing: a forest has no hyper-parameters that are learnt."""

    def fit(self, data: Data, *, key: KeyArray, tuned: None = None) -> Fit:
        """The forest grown on all of `data`."""
        n = data.n
        seed = int(generator(key).integers(2**31))
        posterior = grow(self, data.x[:n], data.y[:n], seed)
        return Fit(posterior, Status.OK, {"trees": self.trees, "depth": int(posterior.depth)})


class Trees(eqx.Module):
    """Trees as arrays; a leaf's children are itself, so that walking on changes nothing."""

    column: Int[Array, "trees nodes"]
    threshold: Float[Array, "trees nodes"]
    children: Int[Array, "trees nodes 2"]
    mean: Float[Array, "trees nodes"]
    variance: Float[Array, "trees nodes"]

    def leaves(self, x: Float[Array, " D"], depth: Array) -> Int[Array, " trees"]:
        """The leaf in which `x` lies, in every tree."""
        rows = jnp.arange(len(self.column))
        x = x.astype(jnp.float32)  # as scikit-learn has compared

        def down(_: Array, node: Array) -> Array:
            right = x[self.column[rows, node]] > self.threshold[rows, node]
            return self.children[rows, node, right.astype(int)]

        return jax.lax.fori_loop(0, depth, down, jnp.zeros(len(self.column), dtype=int))


class ForestPosterior(Posterior):
    """A grown forest."""

    trees: Trees
    depth: Int[Array, ""]
    x: Float[Array, "capacity D"]
    y: Float[Array, " capacity"]
    mask: Bool[Array, " capacity"]
    assumed: Bool[Array, " capacity"]  # whose value is the mean without such rows
    floor: Float[Array, ""]  # of σ²
    seed: Int[Array, ""]
    model: RandomForest = eqx.field(static=True)

    @property
    def observations(self) -> int:
        """How many rows are no padding."""
        return int(np.asarray(self.mask).sum())

    @public
    def mean(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The mean over the trees."""
        return self._moments(x)[0]

    @public
    def var(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The law of total variance over the trees."""
        return self._moments(x)[1]

    def _moments(self, x: Array) -> tuple[Array, Array]:
        if x.ndim == 2:
            return jax.vmap(self._moments)(x)
        leaves = self.trees.leaves(x, self.depth)[:, None]
        means = jnp.take_along_axis(self.trees.mean, leaves, axis=1)
        variances = jnp.take_along_axis(self.trees.variance, leaves, axis=1)
        return means.mean(), jnp.maximum(variances.mean() + means.var(), self.floor)

    def sample(self, *, key: KeyArray, scale: float = 1.0) -> "TreePath":
        """One of the trees."""
        return TreePath(self, np.asarray(generator(key).integers(self.model.trees)), np.asarray(scale))

    def condition(self, xs: np.ndarray, ys: np.ndarray | None = None) -> "ForestPosterior":
        """The forest grown anew with more observations; without `ys`, at the mean of those known."""
        xs, values = self.new_observations(xs, ys)
        if len(xs) == 0:
            return self
        n, unknown = int(np.sum(self.mask)), np.isnan(values)
        if unknown.any():
            values = np.where(unknown, self._observed().mean(xs), values)
        x, y = np.concatenate([self.x[:n], xs]), np.concatenate([self.y[:n], values])
        grown = grow(self.model, x, y, int(self.seed))
        assumed = pad(np.concatenate([self.assumed[:n], unknown]), len(grown.x))
        return eqx.tree_at(lambda p: p.assumed, grown, assumed)

    def _observed(self) -> "ForestPosterior":
        """The forest without assumed values."""
        known = self.mask & ~self.assumed
        if np.array_equal(known, self.mask):
            return self
        return grow(self.model, self.x[known], self.y[known], int(self.seed))

    def incumbent(self) -> float:
        """The largest mean at the observed points; 0 without any."""
        mask = np.asarray(self.mask)
        return float(np.max(self.mean(self.x)[mask])) if mask.any() else 0.0

    @property
    def noise_std(self) -> float:
        """0: a forest does not tell noise from ignorance."""
        return 0.0


class TreePath(Path):
    """μ(x) + scale·(tree(x) − μ(x))."""

    posterior: ForestPosterior
    tree: Int[Array, ""]
    scale: Float[Array, ""]

    @public
    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n"]:
        """The value at one point or at several."""
        if x.ndim == 2:
            return jax.vmap(self.__call__)(x)
        p = self.posterior
        leaf = p.trees.leaves(x, p.depth)[self.tree]
        value, mean = p.trees.mean[self.tree, leaf], p.mean(x)
        return mean + self.scale * (value - mean)


def grow(
    model: RandomForest, x: Float[np.ndarray, "n D"], y: Float[np.ndarray, " n"], seed: int
) -> ForestPosterior:
    """The forest of these observations, padded so that more of them compile nothing anew."""
    capacity = bucket(len(x))
    grown = []
    if len(x):
        forest = _forest_class()(
            model.trees,
            min_samples_leaf=model.leaf,
            max_features=float(model.features),  # an int would be a number of columns
            random_state=seed,
        )
        grown = [tree.tree_ for tree in forest.fit(x, y).estimators_]
    nodes = 2 * capacity  # a tree of n leaves has 2n − 1 nodes
    trees = Trees(
        np.zeros((model.trees, nodes), dtype=int),
        np.zeros((model.trees, nodes)),
        np.zeros((model.trees, nodes, 2), dtype=int),
        np.zeros((model.trees, nodes)),
        np.ones((model.trees, nodes)),
    )
    for i, tree in enumerate(grown):
        count, own = tree.node_count, np.arange(tree.node_count)
        leaf = tree.children_left < 0
        trees.column[i, :count] = np.where(leaf, 0, tree.feature)
        trees.threshold[i, :count] = tree.threshold
        trees.children[i, :count, 0] = np.where(leaf, own, tree.children_left)
        trees.children[i, :count, 1] = np.where(leaf, own, tree.children_right)
        trees.mean[i, :count] = tree.value[:, 0, 0]
        trees.variance[i, :count] = tree.impurity
    depth = max((int(tree.max_depth) for tree in grown), default=0)
    spread = float(y.std()) if len(y) else 0.0
    return ForestPosterior(
        trees=trees,
        depth=np.asarray(depth),
        x=pad(x, capacity),
        y=pad(y, capacity),
        mask=np.arange(capacity) < len(x),
        assumed=np.zeros(capacity, dtype=bool),
        floor=np.asarray((SMALLEST_DEVIATION * (spread or 1.0)) ** 2),
        seed=np.asarray(seed),
        model=model,
    )


def _forest_class() -> Any:
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        raise UnsupportedError(
            "a random forest needs scikit-learn; it is not installed. "
            'Install it with pip install "augury[sklearn]".'
        ) from None
    return RandomForestRegressor
