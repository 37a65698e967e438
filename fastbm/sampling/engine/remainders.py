"""What rounding to fixed point has left of dense couplings, and of the energies of chains.

With remainders energies of fields are those of the user's couplings to half of one of `STEPS` of a unit of the fields
for each coupling and each bias. Any energy that is told from fields may be held against its sum (`check_energy`).
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from ..._base import arrays
from ...kernels.bit_vectors import LANES, ROWS
from ...kernels.sampling.field_energies import (
    STEPS,
    TOGETHER,
    add_remainders,
    energies_of_fields,
    room_for_words,
    sum_fields,
    words_of_units,
    write_bits,
)
from ...kernels.sampling.rounding import fill_remainders, worst_remainder
from ...machine.couplings import Couplings
from ...machine.units import Units
from .fixed_point import FixedPoint

_known: WeakKeyDictionary[Couplings, tuple[tuple[int, float], float]] = WeakKeyDictionary()  # what was found of some
ENERGY_ERROR = 1e-9  # of sum |W| + sum |b|: the most that an energy told from fields may be off
FEWER = 9.0  # times less than half a step for every pair is what remainders of either sign come to in the worst state


def fewest_bytes(n_terms: int, most: float) -> int:
    """Return how many bytes of what rounding leaves keep the sum of so many terms within `most` units; 0 if none do."""
    return next((n for n in range(1, len(STEPS)) if 0.5 / STEPS[n] * n_terms <= most), 0)


def settled_bytes(
    n_bytes: int, couplings: Couplings, scale: tuple[int, float], scaled: tuple[np.ndarray, float], rises: np.ndarray,
    most: float,
) -> int:  # fmt: skip
    """Return `n_bytes`, or 1 where that keeps the sum over the pairs of any state within `most` units.

    It is looked at where it may be so, once for the same couplings. `scaled` and `rises` are as `Remainders` takes
    them, what the couplings are when scaled by `scale`.
    """
    n_units, steps = len(rises), STEPS[1]
    if n_bytes != 2 or n_units**2 / 4 > FEWER * steps * most:
        return n_bytes
    known, worst = _known.get(couplings, (None, 0.0))
    if known != scale:
        worst = worst_remainder(*scaled, rises, steps)
        _known[couplings] = scale, worst
    of_start = 0.5 * n_units
    return 1 if worst + of_start <= steps * most else n_bytes


class Remainders:
    """Remainders of couplings, and fields with all units down, (1 or n_chains, width) int64, with remainders of these.

    There are no bytes of them where couplings are multiples of the unit of the fields, or where this is as fine as
    float64.
    """

    def __init__(
        self,
        point: FixedPoint,
        scaled: tuple[np.ndarray, float],
        field: np.ndarray,
        rises: np.ndarray,
        start: np.ndarray,
        n_bytes: int,
    ) -> None:
        n_units = len(rises)
        n = -(-n_units // ROWS) * ROWS
        self._rest = arrays.zeros((n_bytes, n, n), np.int8)
        self._start = start.astype(np.int64)
        if not n_bytes:
            return
        of_start = point.rest(field, start[:, :n_units], STEPS[n_bytes])
        if not fill_remainders(*scaled, rises, STEPS[n_bytes], self._rest) and not of_start.any():
            self._rest = self._rest[:0]
            return
        self._start *= STEPS[n_bytes]
        self._start[:, :n_units] += 2 * of_start

    def of_block(self, chains: slice) -> Refined:
        """Return what a block of chains takes of them."""
        start = self._start if len(self._start) == 1 else self._start[chains]
        return Refined(self._rest, start, chains.stop - chains.start)


class Refined:
    """What the energies of a block of chains take beside their fields.

    Attributes
    ----------
    arrays : tuple
        `rest`, `start` and room for the bits of some samples and their sums, as kernels take them.
    """

    def __init__(self, rest: np.ndarray, start: np.ndarray, n_chains: int) -> None:
        n = max(TOGETHER // n_chains, 1) * n_chains  # lanes
        bits = arrays.zeros((-(-n // LANES), rest.shape[1] // 4, LANES), np.uint32)
        self.arrays = (rest, start, bits, np.zeros(LANES, np.int32), np.zeros(LANES, np.int64))

    def energies(self, up: np.ndarray, fields: np.ndarray, chains: slice) -> np.ndarray:
        """Return energies of some chains above that of all units down, in the units of the fields.

        `up` and `fields` are those of these chains.
        """
        n_chains = len(fields)
        energies: np.ndarray = np.empty((1, n_chains))
        rest, start, bits, sums, wholes = self.arrays
        words, octets = room_for_words(up, n_chains)
        words_of_units(np.ascontiguousarray(up), words, octets)
        start = start if len(start) == 1 else start[chains]
        sum_fields(words, fields, start, STEPS[len(rest)], energies[0])
        write_bits(octets, 0, n_chains if len(rest) else 0, bits)
        add_remainders(rest, bits, sums, wholes, energies)
        return energies.ravel()


def coarse_energies(up: np.ndarray, fields: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return energies of chains above that of all units down, in the units of the fields, from these alone."""
    energies = np.empty(len(fields))
    energies_of_fields(up, fields, start.astype(np.int64), room_for_words(up, len(fields)), energies)
    return energies


def size_of(couplings: Couplings, bias: np.ndarray) -> float:
    """Return sum |W| + sum |b|, of the smallest of the biases (1 or n_chains, n_units)."""
    return 0.5 * float(couplings.absolute_sums().sum()) + float(np.abs(bias).sum(axis=1).min())


def energy_all_down(field: np.ndarray, bias: np.ndarray, units: Units) -> np.ndarray:
    """Return energies with all units down, (1 or n_chains,); `field` is what `up_bias` makes of `bias`."""
    lo, total = float(units.lo), 0.0
    if lo:  # a = span (b + lo W 1) is at hand
        total = float(((np.atleast_2d(field)[0] / units.span - bias[0]) / lo).sum())
    found: np.ndarray = -0.5 * lo * lo * total - lo * bias.sum(axis=1)
    return found + 0.0  # which has no zeros with a sign


def check_energy(told: float, up: np.ndarray, couplings: Couplings, bias: np.ndarray, units: Units) -> None:
    """Hold the energy that was told of a chain against its sum in float64; `up` and `bias` are (n_units,).

    Raises
    ------
    RuntimeError
        If it is off by more than it may be.
    """
    values = units.values(up[None], np.float64)
    full = -0.5 * float((couplings.field(values) * values).sum()) - float(values[0] @ bias)
    if abs(told - full) > ENERGY_ERROR * size_of(couplings, bias[None]):
        raise RuntimeError(
            f"the energy of a chain, {told!r}, is not that of its state, {full!r}: the memory of this machine or "
            "its compiled kernels are damaged. What was committed before is sound; resume the run elsewhere."
        )
