"""Dense mean-field equations in whole numbers of 16 bits: a draft of the solution for a fraction of the time.

Sweeps and products with a few thousand units are bound by the memory's speed. The draft's couplings are those of the
machine in units of `scale`, rounded; fields are float32. The equations themselves are then solved from the draft's
means, of which only the last steps are left to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..couplings import Couplings
from ..kernels.rounded import STEP, add_rounded, coarsen_rows, round_rows
from ..threads import fan_out
from .mean_field_equations import MeanFieldEquations

LEAST_UNITS = 512  # from which on a draft is worth its making
LARGEST = 32767
COARSE = 1e-3  # residual above which steps make do with eight bits
FINE = 2.0**-9  # of the root mean square of most rows, that a unit of the rounded couplings may be at most
RANGE = 1e30  # of biases and temperatures in those units
ROWS = 1000  # that a thread takes at a time


@dataclass(frozen=True)
class Rounded:
    """Couplings in units of `scale`: what sweeps of dense equations ask for."""

    array: np.ndarray
    coarse: np.ndarray
    scale: float
    kind = "dense"

    @classmethod
    def of(cls, couplings: Couplings, bias: np.ndarray, beta: float, threads: int) -> Rounded | None:
        """Round dense couplings; None where they are few, or too different in size."""
        n = couplings.n_units
        if couplings.kind != "dense" or n < LEAST_UNITS:
            return None
        weights = couplings.matrix()
        rows = [slice(first, min(first + ROWS, n)) for first in range(0, n, ROWS)]
        sizes = fan_out(
            lambda part: (np.abs(weights[part]).max(), *np.linalg.norm(weights[part], axis=1)), rows, threads
        )
        scale = max(float(size[0]) for size in sizes) / LARGEST
        typical = float(np.median(np.concatenate([size[1:] for size in sizes]))) / math.sqrt(n)
        pull = float(np.abs(bias).max())
        if not 0.0 < scale <= FINE * typical or pull > RANGE * scale or not 1.0 < RANGE * beta * scale < RANGE**2:
            return None
        array, coarse = np.empty((n, n), np.int16), np.empty((n, n), np.int8)

        def fill(part: slice) -> None:
            round_rows(array[part], weights[part], scale)
            coarsen_rows(coarse[part], array[part])

        fan_out(fill, rows, threads)
        return cls(array, coarse, scale)

    @property
    def n_units(self) -> int:
        return len(self.array)

    def matrix(self) -> np.ndarray:
        return self.array

    def field(self, values: np.ndarray, threads: int = 1, *, coarse: bool = False) -> np.ndarray:
        """The rounded couplings times every row of `values` (m, n_units), float32; by their upper eight bits if
        `coarse`.
        """
        right = values.astype(np.float32) * np.float32(STEP if coarse else 1)
        array = self.coarse if coarse else self.array

        def some(first: int) -> np.ndarray:
            found = np.empty_like(right)
            for product, numbers in zip(found, right[:, first : first + ROWS], strict=True):
                add_rounded(product, array[first : first + ROWS], numbers)
            return found

        return np.add.reduce(fan_out(some, range(0, self.n_units, ROWS), threads))


class DraftEquations(MeanFieldEquations):
    """The equations of rounded couplings, at the temperature and with the biases that go with them."""

    def __init__(self, rounded: Rounded, bias: np.ndarray, beta: float, start: np.ndarray) -> None:
        self.rounded, self._far = rounded, False
        super().__init__(rounded, bias / rounded.scale, beta * rounded.scale, start)  # type: ignore[arg-type]

    def refresh(self) -> None:
        self.fields = (self.rounded.field(self.values, self.threads) + self.bias).astype(np.float32)

    def arguments(self) -> np.ndarray:
        return self.beta * self.fields.astype(np.float64)

    def curvature(self, means: np.ndarray, root: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        self._far = float(np.abs(np.tanh(self.arguments()[0]) - means).max()) > COARSE
        return super().curvature(means, root)

    def pulled(self, y: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.rounded.field(y[None], self.threads, coarse=self._far)[0].astype(np.float64)
        return found
