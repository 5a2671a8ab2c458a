"""A descent over few, expensive hyper-parameters, which can be left and taken up again."""

from typing import Generic, Protocol, TypeVar

import numpy as np
from jaxtyping import Float

VALUE_TOLERANCE = 1e-5  # a step that gains less, relative to the density's logarithm, is the last
GRADIENT_TOLERANCE = 0.02  # of the log density, per prior deviation
SUFFICIENT_DECREASE = 1e-4
FIRST_MOVE, LONGEST_MOVE, SHORTEST_MOVE = 1.0, 3.0, 1e-8  # in prior deviations


class Loss(Protocol):
    """The negative logarithm of a density over a box, in units of its prior's deviations."""

    lower: Float[np.ndarray, " p"]
    upper: Float[np.ndarray, " p"]

    def loss_and_gradient(self, z: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        """The value, infinite where there is none, and the gradient."""


L = TypeVar("L", bound=Loss)


class Search(Generic[L]):
    """A descent of the loss by BFGS in the box, which can be left and taken up again.

    Coordinates on a bound that the gradient pushes against stay there; steps are shortened until they
    decrease the loss sufficiently. A descent of SciPy cannot be continued: after the first steps that
    tell which kind of start is better, it would have to learn the curvature anew.

    Reference: Nocedal & Wright (2006), "Numerical optimization", algorithm 6.1 and section 16.7.
    """

    def __init__(self, density: L, start: Float[np.ndarray, " p"]) -> None:
        self.density, self.z = density, start
        self.loss, self.gradient = density.loss_and_gradient(start)
        self.evaluations = 1
        self.inverse_hessian: np.ndarray | None = None
        self.done, self.converged = not np.isfinite(self.loss), False

    def run(self, max_evaluations: int) -> "Search[L]":
        """Go on until it converges, or that many evaluations have been made in all."""
        lower, upper = self.density.lower, self.density.upper
        while not self.done:
            against = ((self.z <= lower) & (self.gradient > 0)) | (
                (self.z >= upper) & (self.gradient < 0)
            )
            slope = np.where(against, 0.0, self.gradient)
            self.done = self.converged = bool(np.abs(slope).max() < GRADIENT_TOLERANCE)
            if self.done:
                break
            direction, length = np.where(against, 0.0, self._direction(slope)), 1.0
            while True:
                if self.evaluations >= max_evaluations:
                    return self
                z = np.minimum(np.maximum(self.z + length * direction, lower), upper)
                loss, gradient = self.density.loss_and_gradient(z)
                self.evaluations += 1
                expected = float(self.gradient @ (z - self.z))
                if loss <= self.loss + SUFFICIENT_DECREASE * expected:
                    break
                # the minimizer of the parabola through the two values and the slope
                parabola = -0.5 * expected / (loss - self.loss - expected) if np.isfinite(loss) else 0.0
                length *= min(max(parabola, 0.1), 0.5)
                if length * np.abs(direction).max() < SHORTEST_MOVE:
                    self.done = True
                    return self
            self.done = self.converged = self.loss - loss <= VALUE_TOLERANCE * max(abs(loss), 1.0)
            self._learn(z - self.z, gradient - self.gradient)
            self.z, self.loss, self.gradient = z, loss, gradient
        return self

    def _direction(self, slope: np.ndarray) -> np.ndarray:
        if self.inverse_hessian is None:
            return -slope * (FIRST_MOVE / max(float(np.linalg.norm(slope)), FIRST_MOVE))
        direction: np.ndarray = -self.inverse_hessian @ slope
        return direction * min(1.0, LONGEST_MOVE / max(float(np.abs(direction).max()), 1e-300))

    def _learn(self, step: np.ndarray, change: np.ndarray) -> None:
        """The BFGS update, where the curvature along the step is positive."""
        curvature = float(step @ change)
        if curvature <= 1e-10 * np.sqrt(float(step @ step) * float(change @ change)):
            return
        H = self.inverse_hessian
        if H is None:
            H = np.eye(len(step)) * (curvature / float(change @ change))
        Hy = H @ change
        half = (0.5 / curvature) * (1.0 + float(change @ Hy) / curvature) * step - Hy / curvature
        both = step[:, None] * half
        self.inverse_hessian = H + both + both.T
