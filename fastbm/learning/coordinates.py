r"""What an optimiser sees in place of scaled couplings D_ij = W_ij sigma_i sigma_j of the pairs i < j.

`Rotation`: with units that are close to independent, a change of D raises a local rule's objective by tr(D C D) up to a
factor, C being the correlation matrix. With C = U diag(lambda) U^T and D = U Y U^T that is sum_ab (lambda_a + lambda_b)
/ 2 Y_ab^2, so that X_ab = Y_ab sqrt(lambda_a + lambda_b) has nearly no curvature but the unit matrix. The diagonal of D
is left out, so that X has n numbers too many, in whose directions the objective is flat.

`Split`: D = p - q with p, q >= 0, where an l1 penalty is linear: couplings that end at both bounds are exactly 0.
"""

from __future__ import annotations

import numpy as np

RIDGE = 0.02  # added to lambda_a + lambda_b: units that are copies of each other make them 0


class Plain:
    """The pairs themselves."""

    def __init__(self, n_pairs: int) -> None:
        self.size = n_pairs

    def into(self, pairs: np.ndarray) -> np.ndarray:
        """Coordinates that stand for `pairs`."""
        return pairs

    def back(self, vector: np.ndarray) -> np.ndarray:
        """The pairs that coordinates stand for."""
        return vector

    def slope(self, pairs: np.ndarray) -> np.ndarray:
        """The gradient by the coordinates, penalty included, from that by the pairs."""
        return pairs

    def penalty(self, vector: np.ndarray) -> float:
        """What the coordinates themselves cost."""
        return 0.0

    @property
    def lower(self) -> np.ndarray | None:
        """Lower bounds of the coordinates."""
        return None


class Rotation(Plain):
    """A vector of n_units^2 numbers X for the pairs of all units."""

    def __init__(self, correlations: np.ndarray) -> None:
        values, self._basis = np.linalg.eigh(correlations)
        super().__init__(values.size**2)
        self._roots = np.sqrt(np.maximum(values[:, None] + values[None, :], 0.0) + RIDGE)
        self._upper = np.triu_indices(len(values), 1)

    def _rotated(self, pairs: np.ndarray) -> np.ndarray:
        whole = np.zeros_like(self._basis)
        whole[self._upper] = pairs
        rotated: np.ndarray = self._basis.T @ (whole + whole.T) @ self._basis
        return rotated

    def into(self, pairs: np.ndarray) -> np.ndarray:
        return (self._rotated(pairs) * self._roots).ravel()

    def back(self, vector: np.ndarray) -> np.ndarray:
        half = 0.5 * vector.reshape(self._roots.shape) / self._roots
        whole = self._basis @ (half + half.T) @ self._basis.T
        return np.asarray(whole[self._upper])

    def slope(self, pairs: np.ndarray) -> np.ndarray:
        return (0.5 * self._rotated(pairs) / self._roots).ravel()


class Split(Plain):
    """p, then q; `price` is what a unit of each pair's |D| costs."""

    def __init__(self, price: np.ndarray) -> None:
        super().__init__(2 * price.size)
        self._price = price

    def into(self, pairs: np.ndarray) -> np.ndarray:
        return np.concatenate([np.maximum(pairs, 0.0), np.maximum(-pairs, 0.0)])

    def back(self, vector: np.ndarray) -> np.ndarray:
        n = self._price.size
        return vector[:n] - vector[n:]

    def slope(self, pairs: np.ndarray) -> np.ndarray:
        return np.concatenate([pairs + self._price, self._price - pairs])

    def penalty(self, vector: np.ndarray) -> float:
        n = self._price.size
        return float(self._price @ (vector[:n] + vector[n:]))

    @property
    def lower(self) -> np.ndarray | None:
        return np.zeros(self.size)
