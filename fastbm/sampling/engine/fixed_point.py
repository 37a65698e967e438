"""Couplings and fields as integers: sums of integers do not drift and do not depend on the order of the updates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...machine.couplings import Couplings, row_blocks

LOG_ODDS_ERROR = (
    1e-4  # what fixed point may change a conditional log-odds by, in the worst state, before int64 is taken
)
SMALLEST_SCALE, LARGEST_SCALE = 1e-30, float(np.finfo(np.float32).max)
FINEST = 1136  # the exponent at which the smallest of all couplings uses int64 to the full


class FixedPoint(NamedTuple):
    """Integers of `dtype` in units of 2^-`exponent`; `error` is the largest error of a log-odds."""

    dtype: np.dtype[Any]
    exponent: int
    error: float

    def integers(self, values: np.ndarray) -> np.ndarray:
        """Return values as the nearest integers."""
        found: np.ndarray = np.rint(np.ldexp(values, self.exponent)).astype(self.dtype)
        return found

    def fill_scales(self, beta: np.ndarray, blocks: Sequence[slice], scales: Sequence[np.ndarray]) -> None:
        """Write what turns log-odds into these integers for all chains to the lanes of their blocks.

        `beta` is (n_chains,), scales are float32.

        At beta = 0 it is the largest number, so that the random number alone decides, and never so small that the signs
        of limits are lost, which decide for a field of 0.
        """
        mantissas, exponents = np.frexp(beta)
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            all_scales = np.ldexp(1.0 / mantissas, self.exponent - exponents)
        np.minimum(np.maximum(all_scales, SMALLEST_SCALE, out=all_scales), LARGEST_SCALE, out=all_scales)
        for block, scale in zip(blocks, scales, strict=True):
            scale[: block.stop - block.start] = all_scales[block]

    def detail(self, kernel: str) -> dict[str, Any]:
        """Return what a run says of its kernel and these integers."""
        return {
            "kernel": kernel,
            "fields": f"{self.dtype.name} in units of 2^{-self.exponent}",
            "largest log-odds error": self.error,
        }


def choose(form: Couplings, field: np.ndarray, highest_beta: float) -> FixedPoint:
    """Return the finest integers that no field of `form` can overflow: int32 where these are fine enough."""
    largest = float((form.absolute_sums() + np.abs(field).max(axis=0)).max())
    room = form.n_units + 2.0  # rounding adds less than this
    for kind, highest in ((np.int32, 2.0**31 - 256), (np.int64, 2.0**62)):
        dtype = np.dtype(kind)
        exponent = _exponent(highest - room, largest)
        error = math.ldexp(highest_beta, -exponent) * _worst(form, field, exponent)
        if error <= LOG_ODDS_ERROR:
            break
    return FixedPoint(dtype, exponent, error)


def _exponent(highest: float, largest: float) -> int:
    """Return the largest exponent e <= FINEST for which 2^e times `largest` does not get above `highest`."""
    if not largest:
        return FINEST
    above, below = math.frexp(highest), math.frexp(largest)
    return min(math.frexp(above[0] / below[0])[1] - 1 + above[1] - below[1], FINEST)


def _worst(form: Couplings, field: np.ndarray, exponent: int) -> float:
    """Return the largest error of a field in any state, in units of 2^-exponent: roundings of one sign add up."""
    start = np.abs(_rounding(field, exponent)).max(axis=0)
    if form.kind == "sparse":
        indptr, _, values = form.csr()
        change = _rounding(values, exponent)
        rows = np.repeat(np.arange(form.n_units), np.diff(indptr))
        raised, lowered = (np.bincount(rows, np.maximum(c, 0.0), form.n_units) for c in (change, -change))
        return float((np.maximum(raised, lowered) + start).max())
    matrix, worst = form.matrix(), 0.0
    for block in row_blocks(form.n_units, form.n_units):
        change = _rounding(matrix[block], exponent)
        raised, lowered = (np.maximum(c, 0.0).sum(axis=1) for c in (change, -change))
        worst = max(worst, float((np.maximum(raised, lowered) + start[block]).max()))
    return worst


def _rounding(values: np.ndarray, exponent: int) -> np.ndarray:
    scaled = np.ldexp(values, exponent)
    change: np.ndarray = np.rint(scaled) - scaled
    return change
