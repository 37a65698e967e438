"""Couplings and fields as integers: sums of integers do not drift and do not depend on the order of the updates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..._base import arrays
from ...kernels.sampling.rounding import LANES, round_edges, round_rows
from ...machine.couplings import Couplings
from ...machine.units import Units
from ...machine.up_form import up_bias
from .lanes import Lanes

LOG_ODDS_ERROR = (
    1e-4  # what fixed point may change a conditional log-odds by, in the worst state, before int64 is taken
)
SMALLEST_SCALE, LARGEST_SCALE = 1e-30, float(np.finfo(np.float32).max)
SMALLEST_BETA, FARTHEST = 5e-324, 1000
SMALL = 64  # units of machines whose integers are kept, and chains whose scales are: they take as long as many sweeps
APART = 2048  # bytes of a row from which on rows are kept from falling on one another in the cache
FINEST = 1136  # the exponent at which the smallest of all couplings uses int64 to the full

Edges = tuple[np.ndarray, np.ndarray, np.ndarray]  # indptr, indices, and what a neighbour adds that is up


class FixedPoint(NamedTuple):
    """Integers of `dtype` in units of 2^-`exponent`; `error` is the largest error of a log-odds."""

    dtype: np.dtype[Any]
    exponent: int
    error: float

    def rounded(self, field: np.ndarray, worst: np.ndarray) -> tuple[np.ndarray, FixedPoint]:
        """Return fields as the nearest integers, and these integers with their error.

        `field` is (n_units,) or (n_chains, n_units), `worst` what rounded couplings change a field by at most.
        """
        scaled = np.ldexp(field, self.exponent)
        whole = np.rint(scaled)
        start = np.atleast_2d(np.abs(whole - scaled)).max(axis=0)
        error = self.error * float((worst + start).max())
        return whole.astype(self.dtype), FixedPoint(self.dtype, self.exponent, error)

    def rest(self, values: np.ndarray, integers: np.ndarray, steps: float) -> np.ndarray:
        """Return what rounding left of values, in `steps` of a unit of `integers`, int32."""
        left = np.ldexp(values, self.exponent) - integers
        found: np.ndarray = np.rint(left * steps).astype(np.int32)
        return found

    def scales(self, beta: np.ndarray) -> np.ndarray:
        """Return what turns log-odds into these integers at each of `beta`; nobody changes them.

        At beta = 0 it is the largest number, so that the random number alone decides, and never so small that the signs
        of limits are lost, which decide for a field of 0.
        """
        beta = np.asarray(beta, np.float64)
        return _kept_scales(self.exponent, beta.tobytes()) if beta.size <= SMALL else _scales(self.exponent, beta)

    def fill_scales(self, beta: np.ndarray, lanes: Lanes, scales: Sequence[np.ndarray]) -> None:
        """Write what turns log-odds into these integers for all chains to the lanes of their blocks.

        `beta` is (n_chains,), scales are float32.
        """
        all_scales = self.scales(beta)
        for k, scale in enumerate(scales):
            lanes.write(k, scale, all_scales[lanes.blocks[k]])

    def detail(self, kernel: str) -> dict[str, Any]:
        """Return what a run says of its kernel and these integers."""
        return {
            "kernel": kernel,
            "fields": f"int{8 * self.dtype.itemsize} in units of 2^{-self.exponent}",
            "largest log-odds error": self.error,
        }


@dataclass(frozen=True)
class SparseIntegers:
    """The finest integers that no field can overflow, int32 where these are fine enough; nobody changes them.

    Attributes
    ----------
    point : FixedPoint
    edges : Edges
    start : (n_units,) or (n_chains, n_units) array
        The fields with all units down, in the shape of the biases.
    """

    point: FixedPoint
    edges: Edges
    start: np.ndarray

    @cached_property
    def in_fours(self) -> Edges:
        """The edges with neighbours in multiples of four: unit 0, which adds nothing, fills them up."""
        indptr, indices, rises = self.edges
        degree = indptr[1:] - indptr[:-1]
        ends = np.zeros(len(indptr), np.int64)
        np.add.accumulate((degree + 3) & -4, out=ends[1:])
        places = np.arange(len(indices)) + (ends - indptr)[:-1].repeat(degree)
        four_indices, four_rises = np.zeros(ends[-1], indices.dtype), np.zeros(ends[-1], rises.dtype)
        four_indices[places], four_rises[places] = indices, rises
        return ends, four_indices, four_rises


class DenseIntegers(NamedTuple):
    """What `SparseIntegers` are for a matrix; rows have whole vectors, filled up by zeros."""

    point: FixedPoint
    rises: np.ndarray  # (n_units, width)
    start: np.ndarray  # (1 or n_chains, width)


def _scales(exponent: int, beta: np.ndarray) -> np.ndarray:
    mantissas, exponents = np.frexp(np.maximum(beta, SMALLEST_BETA))
    beyond = np.minimum(np.maximum(exponent - exponents, -FARTHEST), FARTHEST)  # any scale that is kept
    found: np.ndarray = np.ldexp(1.0 / mantissas, beyond)
    np.minimum(np.maximum(found, SMALLEST_SCALE, out=found), LARGEST_SCALE, out=found)
    return found


@lru_cache(maxsize=8)
def _kept_scales(exponent: int, beta: bytes) -> np.ndarray:
    found = _scales(exponent, np.frombuffer(beta))
    found.flags.writeable = False
    return found


def sparse_integers(
    couplings: Couplings, bias: np.ndarray, units: Units, highest_beta: float, *, spare: int = 0
) -> SparseIntegers:
    """Return couplings in terms of units that are up; int64 leave `spare` bits for sums of fields."""
    if couplings.n_units > SMALL:
        return _sparse_integers(couplings, bias, units, highest_beta, spare)
    return _kept(couplings, bias.tobytes(), bias.shape, units, highest_beta, spare)  # type: ignore[arg-type]


@lru_cache(maxsize=8)
def _kept(couplings: Couplings, bias: bytes, shape: tuple[int, ...], *settings: Any) -> SparseIntegers:
    return _sparse_integers(couplings, np.frombuffer(bias).reshape(shape), *settings)


def _sparse_integers(
    couplings: Couplings, bias: np.ndarray, units: Units, highest_beta: float, spare: int
) -> SparseIntegers:
    factor, field = float(units.span**2), up_bias(couplings, bias, units)
    indptr, indices, values = couplings.csr()
    worst = np.empty(couplings.n_units)
    for point in _candidates(factor * couplings.absolute_sums(), np.atleast_2d(field), highest_beta, spare):
        integers = np.empty(len(values), point.dtype)
        round_edges(indptr, *scaled_to(values, factor, point.exponent), integers, worst)
        start, found = point.rounded(field, worst)
        if found.error <= LOG_ODDS_ERROR:
            break
    return SparseIntegers(found, (indptr, indices, integers), start)


def _row_width(n_units: int, dtype: Any) -> int:
    """Return the columns of dense rows, in multiples of 64.

    Of rows a multiple of 1 kB apart the same columns fall on few places of the first cache, and drive one another out.
    """
    width = -(-n_units // 64) * 64
    size = width * np.dtype(dtype).itemsize
    return width + 64 if size % 1024 == 0 and size >= APART else width


def dense_integers(
    couplings: Couplings, field: np.ndarray, units: Units, highest_beta: float, *, spare: int = 0
) -> DenseIntegers:
    """Return what `sparse_integers` does of a matrix, `field` as `up_bias` has it, (1 or n_chains, n_units)."""
    matrix, factor = couplings.matrix(), float(units.span**2)
    worst = np.empty(len(matrix))
    for point in _candidates(factor * couplings.absolute_sums(), field, highest_beta, spare):
        width = _row_width(len(matrix), point.dtype)
        integers = arrays.zeros((len(matrix), width), point.dtype)
        round_rows(*scaled_to(matrix, factor, point.exponent), integers, worst, np.empty((2, LANES)))
        start, found = point.rounded(field, worst)
        if found.error <= LOG_ODDS_ERROR:
            break
    fields = arrays.zeros((len(field), width), found.dtype)
    fields[:, : len(matrix)] = start
    return DenseIntegers(found, integers, fields)


def scaled_to(values: np.ndarray, factor: float, exponent: int) -> tuple[np.ndarray, float]:
    """Return an array and a float whose product is values times factor times 2^exponent."""
    if abs(exponent) < 1000:
        return values, math.ldexp(factor, exponent)
    return np.ldexp(values, exponent // 2), math.ldexp(factor, exponent - exponent // 2)


def _candidates(sums: np.ndarray, field: np.ndarray, highest_beta: float, spare: int) -> Iterator[FixedPoint]:
    """Yield the finest integers of each kind; `error` is that of a field which is off by one unit."""
    largest = float((sums + np.abs(field).max(axis=0)).max())
    room = len(sums) + 2.0  # rounding adds less than this
    for kind, highest, free in ((np.int32, 2.0**31 - 256, 0), (np.int64, 2.0**62, spare)):
        exponent = _exponent(highest - room, largest) - free
        yield FixedPoint(np.dtype(kind), exponent, math.ldexp(highest_beta, -exponent))


def _exponent(highest: float, largest: float) -> int:
    """Return the largest exponent e <= FINEST for which 2^e times `largest` does not get above `highest`."""
    if not largest:
        return FINEST
    above, below = math.frexp(highest), math.frexp(largest)
    return min(math.frexp(above[0] / below[0])[1] - 1 + above[1] - below[1], FINEST)
