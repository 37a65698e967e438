"""What energies of layered machines take beside the fields of a sweep; see `fastbm.kernels.sampling.layer_energies`.

A field that n couplings and a bias add up to in float32, four at a time, is off by at most 2^-24 (n / 4 + 4) times the
sum A of their sizes, and the sum of those of `GRAIN` units by 2^-24 (n / 4 + 4 + GRAIN) times that of their A. The unit
of what is added to it is such that this is less than 2^31 of them, of which roundings to the nearest multiple take
GRAIN (n + 1) / 2. That is less than 1e-9 (sum |W| + sum |b|) up to about a thousand units; energies of larger machines
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
from ...kernels.sampling.layer_energies import GRAIN
from ...kernels.vectors import COLUMNS, has_look_up
from .lanes import Lanes

TABLES_FROM = 8  # energies of a lane, from which on tables of sums are worth making
SMALLEST = 2.0**-60  # size of fields, the largest being near 1, below which roundings of float32 do not grow smaller
MOST_UNITS = 0.9 * 2.0**31  # of what fields may be off by, which leaves the rest to the roundings of couplings


class Form:
    """Couplings (n, m) in whole multiples of a unit a column, modulo 2^32."""

    def __init__(self, weights: np.ndarray, grains: np.ndarray) -> None:
        n, m = weights.shape
        padded = np.zeros((-(-n // ROWS) * ROWS, -(-m // COLUMNS) * COLUMNS), np.int32)
        padded[:n, :m] = np.rint(weights / grains).astype(np.int64)
        self._integers, self._tables = padded, np.zeros((0, 1, COLUMNS, 16), np.int32)
        self._n_left = TABLES_FROM if has_look_up() else 0

    def arrays(self, n_uses: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the integers and their tables, of which there are none before they are worth making."""
        if self._n_left > 0:
            self._n_left = max(self._n_left - n_uses, 0)
            if not self._n_left:
                self._tables = self._sums_of_fours()
        return self._integers, self._tables

    def _sums_of_fours(self) -> np.ndarray:
        """Return the sixteen sums of every four rows as `fastbm.kernels.bits.fill_tables` orders them."""
        n, m = self._integers.shape
        fours, sums = self._integers.reshape(n // 4, 4, m), np.zeros((16, n // 4, m), np.int32)
        for k in range(4):
            np.add(sums[: 1 << k], fours[:, k], out=sums[1 << k : 2 << k])
        tables = arrays.empty((m // COLUMNS, n // 4, COLUMNS, 16), np.int32)
        tables[:] = sums.reshape(16, n // 4, m // COLUMNS, COLUMNS).transpose(2, 1, 3, 0)
        return tables


class LayerEnergies:
    """Integers and units for fields of `dtype`.

    Attributes
    ----------
    error : float
        The most that an energy may be off, all roundings of one sign, in units of the fields.
    """

    def __init__(self, blocks: Sequence[np.ndarray], field: np.ndarray, plan: np.ndarray, dtype: np.dtype[Any]) -> None:
        starts, _, ranks = plan
        self._field, self._sizes, n_units = field, np.abs(field).max(axis=0), int(starts[-1])
        self._blocks, self._ranks, self._starts, self._dtype = blocks, ranks, starts, dtype
        self._grains, self.error = np.ones(n_units), 0.0
        for k, block in enumerate(blocks):  # couplings count for the layer that is drawn later
            later = k if ranks[k] > ranks[k + 1] else k + 1
            self._sizes[self._units(later)] += np.abs(block).sum(axis=int(later == k))
        for layer in range(len(starts) - 1):
            self._settle(layer)
        self.error += 2.0**-53 * n_units * float(self._sizes.sum())

    def _units(self, layer: int) -> slice:
        return slice(int(self._starts[layer]), int(self._starts[layer + 1]))

    def _settle(self, layer: int) -> None:
        """Choose the units of a layer."""
        near = [k for k in (layer - 1, layer + 1) if 0 <= k < len(self._starts) - 1]
        early = [self._units(k) for k in near if self._ranks[k] < self._ranks[layer]]
        if not early:
            return
        widths = [units.stop - units.start for units in early]
        n_sums = 4 + GRAIN + sum(-(-width // 4) + 1 for width in widths)
        units = self._units(layer)
        for first in range(units.start, units.stop, GRAIN):
            some = slice(first, min(first + GRAIN, units.stop))
            size = max(float(self._sizes[some].sum()), SMALLEST)
            if self._dtype == np.float64:
                self.error += 2.0**-53 * n_sums * size
                continue
            least = 2.0**-24 * 1.001 * n_sums * size / MOST_UNITS
            # a power of two, of which couplings with few digits are multiples
            self._grains[some] = grain = math.ldexp(1.0, math.frexp(least)[1])
            self.error += 0.5 * grain * (some.stop - some.start) * (sum(widths) + 1)

    @cached_property
    def _forms(self) -> list[Form]:
        """The products from each layer to the next and back, of which only those to the layer drawn later are made."""
        forms, nothing = [], np.zeros((0, 0))
        for k, block in enumerate(self._blocks):
            up = self._ranks[k] < self._ranks[k + 1]
            forms.append(Form(block, self._grains[self._units(k + 1)]) if up else Form(nothing, nothing))
            forms.append(Form(block.T, self._grains[self._units(k)]) if not up else Form(nothing, nothing))
        return forms

    @cached_property
    def _integers(self) -> np.ndarray:
        found: np.ndarray = np.rint(self._field / self._grains).astype(np.int64).astype(np.int32)
        return found

    def of_block(self, k: int, lanes: Lanes, fields: np.ndarray, n_uses: int) -> tuple[Any, ...]:
        """Return words of all units, and what `fill_energies_of_fields` takes of block `k`, for so many energies."""
        width, single, n_units = lanes.widths[k], self._dtype == np.float32, len(self._grains)
        forms = tuple(form.arrays(n_uses if single else 0) for form in self._forms)
        integers, grains = arrays.zeros((n_units, width), np.int32), self._grains[: n_units * single]
        integers[:] = lanes.spread(k, self._integers)
        n_words = sum(-(-int(n) // ROWS) for n in np.diff(self._starts))
        words, own = (arrays.empty((n, width), np.uint32) for n in (-(-n_units // ROWS), n_words))
        total, sums, rest, near = (np.zeros(width, kind) for kind in (np.float64, np.int32, np.int32, np.float32))
        room = total, sums, rest, near, own
        return words, (fields, lanes.spread(k, self._field), integers, forms, grains), room
