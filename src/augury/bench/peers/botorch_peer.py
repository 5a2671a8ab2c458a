"""BoTorch as its tutorials use it: SingleTaskGP with its default priors, and qLogEI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # in its process this file is loaded without Augury
    from augury.bench.peers.child import Axis, Code, Setup

    Codes = list[Code]
    Point = tuple[Codes, Any]

LISTED = 1000  # integers with more levels than this are searched as reals, and rounded


class BotorchEI:
    """Joint batches by qLogEI, `optimize_acqf` with 10 restarts of 512 raw samples.

    Inputs are scaled to [0, 1] and outputs standardized. A category is a column of numbers with a
    kernel of its own (MixedSingleTaskGP); spaces with levels are searched by
    `optimize_acqf_mixed_alternating`. Up to the second value, points are uniform.
    """

    takes_failures = False

    def __init__(self, setup: Setup, *, restarts: int = 10, raw_samples: int = 512) -> None:
        # Importing takes seconds, which no suggestion should pay for.
        import botorch.acquisition
        import botorch.fit
        import botorch.models
        import botorch.optim
        import torch

        torch.manual_seed(setup.stream)
        self._torch, self._botorch = torch, botorch
        self._setup, self._axes = setup, setup.space.axes
        self._restarts, self._raw_samples = restarts, raw_samples
        self._rows: list[list[float]] = []
        self._losses: list[float] = []
        self._categories = [i for i, axis in enumerate(self._axes) if axis.kind == "category"]
        self._listed = {
            i: [axis.unit(int(axis.low) + level) for level in range(axis.levels)]
            for i, axis in enumerate(self._axes)
            if axis.kind == "integer" and axis.levels is not None and axis.levels <= LISTED
        }

    def ask(self, n: int, pending: Sequence[Codes]) -> list[Point]:
        """The next n points."""
        if len(self._losses) < 2:
            draws = self._torch.rand(n, len(self._axes), dtype=self._torch.double).tolist()
            return [(self._setup.space.draw(u), None) for u in draws]
        rows = self._maximize(self._acquisition(pending), n)
        return [(self._codes(row), None) for row in rows.tolist()]

    def tell(self, codes: Codes, handle: Any, loss: float | None, *, initial: bool) -> None:
        """Keep it."""
        assert loss is not None
        self._rows.append(self._row(codes))
        self._losses.append(loss)

    def _acquisition(self, pending: Sequence[Codes]) -> Any:
        from gpytorch.mlls import ExactMarginalLogLikelihood

        models = self._botorch.models
        x = self._torch.tensor(self._rows, dtype=self._torch.double)
        y = -self._torch.tensor(self._losses, dtype=self._torch.double)[:, None]
        if self._categories:
            model = models.MixedSingleTaskGP(x, y, cat_dims=self._categories)
        else:
            model = models.SingleTaskGP(x, y)  # standardizes the outputs
        self._botorch.fit.fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        waiting = [self._row(codes) for codes in pending]
        running = self._torch.tensor(waiting, dtype=self._torch.double) if waiting else None
        improvement = self._botorch.acquisition.qLogExpectedImprovement
        return improvement(model, best_f=y.max(), X_pending=running)

    def _maximize(self, acquisition: Any, n: int) -> Any:
        top = [axis.high if axis.kind == "category" else 1.0 for axis in self._axes]
        box = self._torch.tensor([[0.0] * len(top), top], dtype=self._torch.double)
        effort = {"q": n, "num_restarts": self._restarts, "raw_samples": self._raw_samples}
        if not (self._categories or self._listed):
            return self._botorch.optim.optimize_acqf(acquisition, box, **effort)[0]
        options = {i: [float(o) for o in range(int(top[i]) + 1)] for i in self._categories}
        alternate = self._botorch.optim.optimize_acqf_mixed_alternating
        return alternate(acquisition, box, self._listed, options, **effort)[0]

    def _row(self, codes: Codes) -> list[float]:
        return [
            float(code) if axis.kind == "category" else axis.unit(code)
            for axis, code in zip(self._axes, codes, strict=True)
        ]

    def _codes(self, row: list[float]) -> Codes:
        def code(axis: Axis, column: float) -> Code:
            return round(column) if axis.kind == "category" else axis.nearest(column)

        return [code(axis, column) for axis, column in zip(self._axes, row, strict=True)]
