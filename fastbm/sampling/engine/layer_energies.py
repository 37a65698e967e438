"""What energies of layered machines take beside the fields of a sweep; see `fastbm.kernels.sampling.layer_energies`.

A field that n couplings and a bias add up to in float32, four at a time, is off by at most 2^-24 (n / 4 P + 7 A), where
A is the sum of their sizes and P that of those of one sign. The unit of the integers that say the rest is such that
this is less than 2^15 of them; then integers of 16 bits do, if their roundings move no energy by too much
(`largest_sum`). Else those of 32 bits do, where P is A and the sum of the fields of `GRAIN` units may be off by less
than 2^31: roundings are less than 1e-9 (sum |W| + sum |b|) up to about a thousand units. Energies of larger machines
are summed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..._base import arrays
from ...kernels.bits import ROWS
from ...kernels.sampling.layer_energies import FIXED, GRAIN, NARROW, PULLED, SUMMED, WIDE
from ...kernels.vectors import COLUMNS, has_look_up
from .lanes import Lanes

TABLES_FROM = 8  # energies of a lane, from which on tables of sums are worth making
SMALLEST = 2.0**-60  # size of fields, the largest being near 1, below which roundings of float32 do not grow smaller
PART = 0.9  # of half a turn of integers, the most that fields may be off by: it leaves the rest to their own roundings
ROUNDING = 1.001 * 2.0**-24  # of float32, and what roundings of roundings add
FINEST = 2.0**-36  # unit of narrow sums, in which fields near 1 are less than 2^16 times what float32 counts by one
NARROW_FROM = 1 << 9  # couplings of a layer, fewer of which take little time with 32 bits, which are more precise
MOST_NARROW = 1 << 14  # units of a layer, whose narrow sums together are less than 2^31
BLOCK = 64  # columns whose roundings are looked at together
SOME_BITS = 8  # of a unit, where a power of two is too large
STEPS = 8  # parts of a layer, after which it is looked at how large sums may be


def _unit(least: float, n_bits: int = 0) -> float:
    """Return a power of two that is larger, of which couplings with few digits are multiples, or a number of some bits.

    The latter is near, and the same however `least` was rounded, if that is not next to it.
    """
    part, exponent = math.frexp(least)
    return math.ldexp(math.ceil(math.ldexp(part, n_bits)), exponent - n_bits)


def largest_sum(rest: np.ndarray) -> float:
    """Return what x rest y is at most, for any x and y of 0 and 1.

    With s = 2 x - 1, t = 2 y - 1 it is a quarter of 1 rest 1 + s rest 1 + 1 rest t + s rest t, the last at most the
    lengths of s and t times the largest singular value, the fourth power of which is at most the sum of all of them.
    """
    total = 0.0
    for first in range(0, rest.shape[1], BLOCK):
        some = rest[:, first : first + BLOCK]
        square = some.T @ some
        of_signs = math.sqrt(math.sqrt(float((square * square).sum())) * some.size)
        sums = abs(float(some.sum())) + float(np.abs(some.sum(axis=0)).sum() + np.abs(some.sum(axis=1)).sum())
        total += 0.25 * (sums + of_signs)
    return 1.001 * total


def _off(own: np.ndarray, blocks: Sequence[np.ndarray]) -> float:
    """Return what float32 sums of `own` (m,) and the rows (n, m) that are picked are off by at most, of any column.

    Every four rows are rounded thrice, and added to a sum that is at most that of all before of one sign. Numbers are
    rounded to float32 before, and once more when they are counted in units.
    """
    size, total, off = own, 0.0 * own, 0.0
    for block in blocks:
        step = 4 * -(-len(block) // (4 * STEPS))
        firsts = np.arange(0, len(block), step)
        sizes = size + np.add.reduceat(np.abs(block), firsts).cumsum(axis=0)
        totals = total + np.add.reduceat(block, firsts).cumsum(axis=0)
        off += (step // 4 + 1) * 0.5 * (sizes + np.abs(totals) + own).sum(axis=0)
        size, total = sizes[-1], totals[-1]
    return ROUNDING * float((off + 7.0 * size).max(initial=0.0))


class Sums:
    """Integers whose sums are taken for a layer.

    Attributes
    ----------
    kind : int
        What becomes of the sums.
    unit : float
        Of the integers.
    begin : (1 or n_chains, n_rows) int32 array
        What sums are where all units are down.
    parts : list of (layer, integers) pairs
        Layers whose units add (n, n_rows) int32, n_rows a multiple of `COLUMNS`.
    """

    def __init__(self, kind: int, unit: float, begin: np.ndarray, parts: Sequence[tuple[int, np.ndarray]]) -> None:
        n_rows = -(-begin.shape[1] // COLUMNS) * COLUMNS
        self.kind, self.unit, self.begin = int(kind), unit, np.zeros((len(begin), n_rows), np.int32)
        self.begin[:, : begin.shape[1]] = begin
        self.parts = []
        for layer, integers in parts:
            padded = np.zeros((-(-len(integers) // ROWS) * ROWS, n_rows), np.int32)
            padded[: len(integers), : integers.shape[1]] = integers
            self.parts.append((layer, padded))


def _fill_tables(tables: np.ndarray, integers: np.ndarray) -> None:
    """Write the sixteen sums of every four rows as `fastbm.kernels.bits.fill_tables` orders them. Mutates `tables`."""
    n, m = integers.shape
    fours, ordered = integers.reshape(n // 4, 4, m), tables.reshape(m // COLUMNS, n // 4, COLUMNS, 16)
    for first in range(0, m, BLOCK):  # so many that they stay in the cache
        some = fours[:, :, first : first + BLOCK]
        sums = np.zeros((16, n // 4, some.shape[2]), np.int32)
        for k in range(4):
            np.add(sums[: 1 << k], some[:, k], out=sums[1 << k : 2 << k])
        block = slice(first // COLUMNS, first // COLUMNS + some.shape[2] // COLUMNS)
        ordered[block] = sums.reshape(16, n // 4, some.shape[2] // COLUMNS, COLUMNS).transpose(2, 1, 3, 0)


def _paired(integers: np.ndarray) -> np.ndarray:
    """Return integers modulo 2^32, two columns of 16 bits in one, the second in front."""
    found = integers[:, ::2].copy()
    found[:, : integers.shape[1] // 2] += integers[:, 1::2] << 16
    return found.astype(np.int32)


class LayerEnergies:
    """Integers and units for fields of `dtype`.

    Attributes
    ----------
    error : float
        The most that an energy may be off, in units of the fields.
    """

    def __init__(
        self, blocks: Sequence[np.ndarray], field: np.ndarray, plan: np.ndarray, dtype: np.dtype[Any], most: float
    ) -> None:
        """Choose units by which energies are off by at most `most`, if there are any."""
        self._starts, _, ranks, self._marks = plan
        self._field, self._single, self.error = field, dtype == np.float32, 0.0
        self._share = most / max(sum(block.size for block in blocks), 1)
        self._n_left, n_units = TABLES_FROM, field.shape[1]
        self._sums: list[Sums] = []
        sizes = 0.0
        for layer in range(len(self._starts) - 1):
            early = [k for k in (layer - 1, layer + 1) if 0 <= k < len(self._starts) - 1 and ranks[k] < ranks[layer]]
            near = [(k, blocks[k] if k < layer else blocks[layer].T) for k in early]
            near = [(k, block) for k, block in near if block.size]  # all of a layer may be clamped
            own = field[:, self._starts[layer] : self._starts[layer + 1]]
            size = np.abs(own).max(axis=0) + sum(np.abs(block).sum(axis=0) for _, block in near)
            sizes += float(size.sum())
            self._sums.append(self._settled(layer, own, near, size))
        self.error += 2.0**-53 * n_units * sizes

    def _settled(self, layer: int, own: np.ndarray, near: list[tuple[int, np.ndarray]], size: np.ndarray) -> Sums:
        """Choose how energies of a layer are found, given its fields where all units are down and their sizes."""
        n = own.shape[1]
        n_fours = sum(-(-len(block) // 4) + 1 for _, block in near)
        if not self._single:
            self.error += 2.0**-53 * (4 + GRAIN + n_fours) * float(size.sum()) * bool(near)
        if not near and self._single and len(own) == 1:
            return self._fixed(layer, own, float(size.sum()))
        if not near or not self._single:
            return Sums(SUMMED if near else PULLED, 1.0, np.zeros((1, 0)), [])
        off = _off(np.abs(own).max(axis=0), [block for _, block in near])
        n_pairs = sum(block.size for _, block in near)
        least = max(off / (2.0**15 - 2.0 - 0.5 * n_pairs / n), float(size.sum()) * 2.0**-46, FINEST)
        share = self._share * n_pairs
        for unit in (_unit(least), _unit(least, SOME_BITS)):
            # where roundings are not alike they come to more than a hundredth of one for each coupling
            if n > MOST_NARROW or n_pairs < NARROW_FROM or 0.01 * unit * n_pairs > share:
                continue
            parts = [(k, np.rint(block / unit)) for k, block in near]
            error = 0.5 * unit * n
            error += sum(largest_sum(block - unit * part) for (_, block), (_, part) in zip(near, parts, strict=True))
            if error <= share:
                self.error += error
                whole = [(k, _paired(part.astype(np.int64))) for k, part in parts]
                return Sums(NARROW, unit, _paired(np.rint(own / unit).astype(np.int64)), whole)
        grains = np.add.reduceat(size, np.arange(0, n, GRAIN)).max(initial=SMALLEST)
        unit = _unit(ROUNDING * (4 + GRAIN + n_fours) * float(grains) / (PART * 2.0**31))
        self.error += 0.5 * unit * n * (sum(len(block) for _, block in near) + 1)
        wide = [(k, np.rint(block / unit).astype(np.int64).astype(np.int32)) for k, block in near]
        return Sums(WIDE, unit, np.rint(own / unit).astype(np.int64).astype(np.int32), wide)

    def _fixed(self, layer: int, own: np.ndarray, size: float) -> Sums:
        """Return integers of 46 bits that say the fields of a layer that is drawn first, as two sums of units."""
        unit = _unit(max(size, SMALLEST) * 2.0**-45)
        self.error += 0.5 * unit * own.shape[1]
        whole = np.rint(own[0] / unit).astype(np.int64)
        high = (whole + (1 << 15)) >> 16
        return Sums(FIXED, unit, np.zeros((1, 2)), [(layer, np.array([high, whole - (high << 16)]).T)])

    @cached_property
    def _forms(self) -> np.ndarray:
        """Where integers, tables and first sums of each layer are, as `fill_energies_of_fields` takes it."""
        forms, at, begins = np.full((len(self._sums), 9), -1), 0, 0
        for row, sums in zip(forms, self._sums, strict=True):
            row[:3] = sums.kind, sums.begin.shape[1], begins
            begins += sums.begin.shape[1]
            for side, (layer, integers) in enumerate(sums.parts):
                row[3 + 3 * side : 6 + 3 * side] = layer, at, 4 * at  # tables have sixteen sums of four integers
                at += integers.size
        return forms

    @cached_property
    def _integers(self) -> np.ndarray:
        parts = [integers.ravel() for sums in self._sums for _, integers in sums.parts]
        return np.concatenate([np.zeros(0, np.int32), *parts])

    @cached_property
    def _tables(self) -> np.ndarray:
        tables, at = arrays.empty((4 * self._integers.size,), np.int32), 0
        for _, integers in (part for sums in self._sums for part in sums.parts):
            size = 4 * integers.size
            _fill_tables(tables[at : at + size], integers)
            at += size
        return tables

    def of_block(self, k: int, lanes: Lanes, fields: np.ndarray, n_uses: int, one_by_one: bool) -> tuple[Any, ...]:
        """Return what `fill_energies_of_fields` takes of block `k`, for so many energies, and its room.

        Integers are summed chain by chain if these are to be taken `one_by_one`; that changes no bit.
        """
        width, wide = lanes.widths[k], has_look_up() and lanes.widths[k] % 16 == 0
        self._n_left = max(self._n_left - n_uses, 0)
        tables = self._tables if self._single and wide and not self._n_left else np.zeros(0, np.int32)
        all_down, kinds = None, {sums.kind for sums in self._sums}  # what is not there is not compiled
        if kinds & {PULLED, SUMMED}:
            all_down = arrays.zeros((self._field.shape[1], width), np.float64)
            all_down[:] = lanes.spread(k, self._field)
        begin = [lanes.spread(k, sums.begin) for sums in self._sums]
        first = arrays.zeros((sum(len(one) for one in begin), width), np.int32)
        first[:] = np.concatenate([np.broadcast_to(one, (len(one), width)) for one in begin])
        units = np.array([sums.unit for sums in self._sums])
        near = np.zeros(width, np.float32) if WIDE in kinds else None
        few = None
        if one_by_one:
            few = np.empty((lanes.used(k), int(self._forms[:, 1].max(initial=0))), np.int32)
        total, high, low = (np.zeros(width, kind) for kind in (np.float64, np.int32, np.int32))
        room = total, high, low, arrays.empty((GRAIN, width), np.int32)
        return (fields, (self._integers, tables), first, self._forms, units), all_down, near, few, room
