"""The mean-field equations m = tanh(beta (W m + b)) in several lanes, on couplings of every kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ..._base.threads import fan_out
from ...kernels.inference.mean_field import sweep_mean_field_dense, sweep_mean_field_sparse
from ...machine.couplings import Couplings, Layered
from ...machine.couplings.protocol import row_blocks
from .response import ResponseMatrix, sech

SINGLE_LIMIT = 8192  # units up to which couplings are copied in float32: products are bound by the memory's speed
PRODUCT_ROWS = 1000  # of a product that a thread does at a time


def entropy(arguments: np.ndarray) -> np.ndarray:
    """Return the entropy of independent spins of means tanh(arguments), summed over the last axis."""
    x = np.abs(arguments)
    total: np.ndarray = (x + np.log1p(np.exp(-2 * x)) - x * np.tanh(x)).sum(axis=-1)
    return total


class MeanFieldEquations:
    """The mean-field equations, with the means of several starts in lanes, and their fields W m + b.

    Parameters
    ----------
    couplings : Couplings
        Of spins.
    bias : (n_lanes, n_units) or (1, n_units) array
    beta : float
    start : (n_lanes, n_units) array

    Attributes
    ----------
    threads : int
        Of products; they do not change results.
    quick : function or None
        W y, to the precision that steps need, faster than from the couplings.
    """

    threads = 1
    quick: Callable[[np.ndarray], np.ndarray] | None = None

    def __init__(self, couplings: Couplings, bias: np.ndarray, beta: float, start: np.ndarray) -> None:
        self.couplings, self.beta, self.bias = couplings, beta, np.broadcast_to(bias, start.shape)
        if couplings.kind == "sparse":  # lanes run fastest there
            self._means = np.array(start.T, np.float64, order="C")
            self._pull = np.ascontiguousarray(self.bias.T)
        else:
            self._means = np.array(start, np.float64, order="C")
        self.refresh()

    @property
    def values(self) -> np.ndarray:
        """The means, (n_lanes, n_units)."""
        return self._means.T if self.couplings.kind == "sparse" else self._means

    def valid(self, values: np.ndarray) -> np.ndarray:
        """Return which lanes hold valid means."""
        found: np.ndarray = (np.abs(values) <= 1.0).all(axis=1)
        return found

    def refresh(self) -> None:
        """Compute the fields again from the means."""
        self.fields = np.ascontiguousarray(self.couplings.field(self.values) + self.bias)

    def sweep(self, damping: float, least: np.ndarray) -> np.ndarray:
        """Do one sweep; return the largest change of every lane."""
        change: np.ndarray
        if isinstance(self.couplings, Layered):
            return self._sweep_layers(damping)
        if self.couplings.kind == "sparse":
            change = sweep_mean_field_sparse(self._means, self.couplings.csr(), self._pull, self.beta, damping)
        else:
            change = self._sweep_dense(damping, least)
        return change

    def _sweep_dense(self, damping: float, least: np.ndarray) -> np.ndarray:
        """Sweep some units at a time, so that a stop is never far."""
        change = np.zeros(len(self._means))
        for units in row_blocks(self.couplings.n_units, self._means.size):
            part = self._sweep_units(damping, least, np.arange(units.start, units.stop))
            np.maximum(change, part, out=change)
        return change

    def _sweep_units(self, damping: float, least: np.ndarray, units: np.ndarray) -> np.ndarray:
        weights = self.couplings.matrix()
        change: np.ndarray = sweep_mean_field_dense(self._means, self.fields, weights, self.beta, damping, least, units)
        return change

    def _sweep_layers(self, damping: float) -> np.ndarray:
        """Sweep layer by layer, which is unit by unit, as units of one layer do not interact."""
        layers = self.couplings.layers  # type: ignore[attr-defined]
        change = np.zeros(len(self._means))
        for k, rows in enumerate(layers):
            old = self._means[:, rows]
            step = (1.0 - damping) * (np.tanh(self._arguments_of_layer(k)) - old)
            np.maximum(change, np.abs(step).max(axis=1, initial=0.0), out=change)
            self._means[:, rows] = old + step
        return change

    def _neighbours(self, k: int, values: np.ndarray, power: int = 1) -> np.ndarray:
        """Return the fields that the layers beside layer k put on it, by couplings or their squares."""
        layers, blocks = self.couplings.layers, self._blocks(power)  # type: ignore[attr-defined]
        total = np.zeros((len(values), layers[k].stop - layers[k].start))
        if k > 0:
            total += values[:, layers[k - 1]] @ blocks[k - 1]
        if k < len(blocks):
            total += values[:, layers[k + 1]] @ blocks[k].T
        return total

    def _blocks(self, power: int) -> tuple[np.ndarray, ...]:
        return self.couplings.arrays

    def _arguments_of_layer(self, k: int) -> np.ndarray:
        rows = self.couplings.layers[k]  # type: ignore[attr-defined]
        return self.beta * (self._neighbours(k, self._means) + self.bias[:, rows])

    def arguments(self) -> np.ndarray:
        """Return beta (W m + b), the arguments of tanh in the equations, (n_lanes, n_units), from the kept fields."""
        return self.beta * self.fields

    def place(self, arguments: np.ndarray) -> None:
        """Set the means to tanh(arguments)."""
        self.values[:] = np.tanh(arguments)
        self.refresh()

    def energies(self) -> np.ndarray:
        """Return <E> of every lane, without offset."""
        energy: np.ndarray = -(0.5 * (self.fields + self.bias) * self.values).sum(axis=1)
        return energy

    def log_z(self, arguments: np.ndarray) -> np.ndarray:
        """Return the estimate of log Z of every lane, without offset; `arguments` are atanh of the means."""
        bounds: np.ndarray = entropy(arguments) - self.beta * self.energies()
        return bounds

    def rank(self, log_z: np.ndarray) -> np.ndarray:
        """Return the number by which the best lane is chosen: the bound on log Z, of which the highest is the best."""
        return log_z

    def gradient(self, arguments: np.ndarray) -> np.ndarray:
        """Return d log Z / d m."""
        return self.beta * self.fields - arguments

    @cached_property
    def _single(self) -> np.ndarray | None:
        """Return dense couplings in float32, where they are few enough; else None."""
        few = self.couplings.kind == "dense" and self.couplings.n_units <= SINGLE_LIMIT
        return self.couplings.matrix().astype(np.float32) if few else None

    def pulled(self, y: np.ndarray) -> np.ndarray:
        """Return W y, to the precision that Newton steps need."""
        found: np.ndarray
        if self.quick is not None:
            found = self.quick(y)
        elif self._single is None:
            found = self.couplings.field(y[None])[0]
        else:
            single, right = self._single, y.astype(np.float32)
            rows = range(0, len(right), PRODUCT_ROWS)
            parts = fan_out(lambda first: single[first : first + PRODUCT_ROWS] @ right, rows, self.threads)
            found = np.concatenate(parts).astype(np.float64)
        return found

    def curvature(self, means: np.ndarray, root: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the product with `response`'s matrix at the first lane, which is not made; root = (1 - m^2)^1/2."""
        return lambda y: y - self.beta * root * self.pulled(root * y)

    def response(self, arguments: np.ndarray) -> tuple[ResponseMatrix, np.ndarray]:
        """Return the matrix whose inverse gives covariances at the first lane, and 1 / cosh of its arguments."""
        root, beta = sech(arguments), self.beta
        return ResponseMatrix(self.couplings, np.ones(len(root)), lambda w, i, j: w * (-beta * root[i]) * root[j]), root

    def finest(self) -> float:
        """Return the residual that rounding leaves, below which no sweep gets."""
        pull = self.couplings.absolute_sums() + np.abs(self.bias).max(axis=0, initial=0.0)
        return float(16 * np.finfo(float).eps * (1.0 + self.beta * pull.max(initial=0.0)))
