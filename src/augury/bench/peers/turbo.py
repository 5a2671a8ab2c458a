"""TuRBO-1, written from its published description, with BoTorch's Gaussian process.

Reference: Eriksson, Pearce, Gardner, Turner & Poloczek (2019), "Scalable Global Optimization via Local
Bayesian Optimization", section 2 and its supplement; constants as in BoTorch's tutorial on TuRBO.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # in its process this file is loaded without Augury
    from augury.bench.peers.child import Code, Setup

    Codes = list[Code]
    Point = tuple[Codes, Any]


@dataclass
class TrustRegion:
    """The length of a box around the best point, which grows on successes and shrinks on failures."""

    failure_tolerance: int
    success_tolerance: int = 10
    length: float = 0.8
    shortest: float = 0.5**7
    longest: float = 1.6
    best: float = math.inf
    successes: int = 0
    failures: int = 0

    def update(self, losses: Sequence[float]) -> None:
        """Count a batch: a success improves on the best loss by more than a thousandth of it."""
        lowest = min(losses)
        if lowest < self.best - 1e-3 * abs(self.best):
            self.successes, self.failures = self.successes + 1, 0
        else:
            self.successes, self.failures = 0, self.failures + 1
        if self.successes == self.success_tolerance:
            self.length, self.successes = min(2.0 * self.length, self.longest), 0
        elif self.failures == self.failure_tolerance:
            self.length, self.failures = self.length / 2.0, 0
        self.best = min(self.best, lowest)

    @property
    def collapsed(self) -> bool:
        """Whether it is time for a new one somewhere else."""
        return self.length < self.shortest


class Turbo:
    """One trust region, Thompson sampling in it, and a new design when it has collapsed.

    A new trust region begins with as many points as the initial design had (2 per column if there was
    none) and forgets the evaluations of the one before. Levels and one-hot options are searched as
    numbers and rounded: the method is one for continuous spaces.
    """

    takes_failures = False

    def __init__(
        self, setup: Setup, *, success_tolerance: int = 10, candidates: int | None = None
    ) -> None:
        # Importing takes seconds, which no suggestion should pay for.
        import botorch.exceptions
        import botorch.fit
        import botorch.models
        import gpytorch
        import torch

        torch.manual_seed(setup.stream)
        self._device = "cuda" if setup.device == "gpu" else "cpu"
        self._torch, self._botorch, self._gpytorch = torch, botorch, gpytorch
        self._setup = setup
        self._d, self._batch = setup.space.width, setup.batch
        self._success_tolerance = success_tolerance
        self._candidates = candidates or min(5000, max(2000, 200 * self._d))
        self._initial = 0
        self.restarts = 0
        self._begin()

    def _begin(self) -> None:
        patience = math.ceil(max(4.0 / self._batch, self._d / self._batch))
        self.region = TrustRegion(patience, self._success_tolerance)
        self._rows: list[list[float]] = []
        self._losses: list[float] = []
        self._given = 0  # points of the initial design in this region: all in the first, none later
        self._counted = 0  # evaluations that the region knows: the design, then whole batches
        self._design: Any = None

    @property
    def restarting(self) -> bool:
        """Whether the trust region's first design is not complete."""
        lacking = max(2, self._initial or 2 * self._d) - self._given
        return len(self._losses) < self._given + math.ceil(lacking / self._batch) * self._batch

    def ask(self, n: int, pending: Sequence[Codes]) -> list[Point]:
        """The next n points."""
        space = self._setup.space
        if self.restarting:
            return [(space.draw(u), None) for u in self._sobol(n)]
        return [(space.from_units(row), None) for row in self._thompson(n).tolist()]

    def tell(self, codes: Codes, handle: Any, loss: float | None, *, initial: bool) -> None:
        """Keep it; a whole batch moves the trust region."""
        assert loss is not None
        self._initial += initial
        self._given += initial
        designing = initial or self.restarting
        self._rows.append(self._setup.space.units(codes))
        self._losses.append(loss)
        if designing:
            self._counted = len(self._losses)
            self.region.best = min(self.region.best, loss)
        elif len(self._losses) - self._counted == self._batch:
            self.region.update(self._losses[self._counted :])
            self._counted = len(self._losses)
            if self.region.collapsed:
                self.restarts += 1
                self._begin()

    def _sobol(self, n: int) -> list[list[float]]:
        if self._design is None:
            axes = len(self._setup.space.axes)
            self._design = self._torch.quasirandom.SobolEngine(axes, scramble=True, seed=self._seed())
        return self._design.draw(n, dtype=self._torch.double).tolist()

    def _seed(self) -> int:
        return int(self._torch.randint(2**31 - 1, (1,)).item())

    def _thompson(self, n: int) -> Any:
        """The best candidates of n draws from the posterior, each at a place of its own."""
        torch = self._torch
        x = torch.tensor(self._rows, dtype=torch.double, device=self._device)
        y = -torch.tensor(self._losses, dtype=torch.double, device=self._device)
        y = (y - y.mean()) / y.std().clamp_min(1e-9)
        model = self._model(x, y[:, None])
        center, lengthscales = x[y.argmax()].cpu(), self._lengthscales(model).cpu()
        candidates = self._perturbed(center, lengthscales).to(x)
        exact = self._gpytorch.settings.max_cholesky_size(math.inf)
        with torch.no_grad(), exact:
            draws = model.posterior(candidates).rsample(torch.Size([n])).squeeze(-1)  # (n, candidates)
        chosen: list[int] = []
        for draw in draws:
            draw[chosen] = -math.inf
            chosen.append(int(draw.argmax()))
        return candidates[chosen]

    def _model(self, x: Any, y: Any) -> Any:
        """A Matérn-5/2 process with a lengthscale per column and little noise, as in the supplement."""
        gpytorch = self._gpytorch
        within = gpytorch.constraints.Interval
        matern = gpytorch.kernels.MaternKernel(
            nu=2.5, ard_num_dims=self._d, lengthscale_constraint=within(0.005, 4.0)
        )
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=within(1e-8, 1e-3))
        kernel = gpytorch.kernels.ScaleKernel(matern)
        model = self._botorch.models.SingleTaskGP(
            x, y, covar_module=kernel, likelihood=likelihood, outcome_transform=None
        )
        likelihood_of_data = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        try:
            self._botorch.fit.fit_gpytorch_mll(likelihood_of_data)
        except self._botorch.exceptions.ModelFittingError:
            self._climb(likelihood_of_data)
        return model

    def _climb(self, likelihood_of_data: Any) -> None:
        """Fit with 50 steps of Adam, the authors' own way, where BoTorch's line search gives up."""
        model = likelihood_of_data.model
        likelihood_of_data.train()
        optimizer = self._torch.optim.Adam(likelihood_of_data.parameters(), lr=0.1)
        for _ in range(50):
            optimizer.zero_grad()
            loss = -likelihood_of_data(model(*model.train_inputs), model.train_targets)
            loss.backward()
            optimizer.step()
        likelihood_of_data.eval()

    def _lengthscales(self, model: Any) -> Any:
        return model.covar_module.base_kernel.lengthscale.detach().squeeze(0)

    def _perturbed(self, center: Any, lengthscales: Any) -> Any:
        """Sobol points of the trust region, each with only some columns moved from the center."""
        torch, d, count = self._torch, self._d, self._candidates
        weights = lengthscales / lengthscales.log().mean().exp()  # their product is 1: so is the volume's
        low = (center - 0.5 * self.region.length * weights).clamp(0.0, 1.0)
        high = (center + 0.5 * self.region.length * weights).clamp(0.0, 1.0)
        engine = torch.quasirandom.SobolEngine(d, scramble=True, seed=self._seed())
        points = low + (high - low) * engine.draw(count, dtype=torch.double)
        moved = torch.rand(count, d) < min(20.0 / d, 1.0)
        still = ~moved.any(dim=1)
        moved[still, torch.randint(d, (int(still.sum()),))] = True
        return torch.where(moved, points, center)
