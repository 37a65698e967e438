"""Chains on layered couplings: block Gibbs (or Metropolis), a layer drawn at once given its neighbours.

What the units of one layer that are on add to the fields of another is a product of bits with the weights, a sum of
rows (`fastbm.kernels.bits`). Energies come from the fields that a sweep has left, where that is exact to 1e-9 (sum |W|
+ sum |b|) in any state; at commits one is held against its sum in float64.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._base import arrays
from ...kernels.bits import MASKS, NARROW, fill_tables, room_of_rows
from ...kernels.sampling.layered import sweep_layers
from ...kernels.vectors import COLUMNS, ROWS, has_look_up
from ...machine.couplings import Layered
from ...machine.up_form import up_form
from .lanes import BLOCK, LANES, lanes_of
from .remainders import ENERGY_ERROR, check_energy, energy_all_down, size_of
from .temperatures import Found, TemperingChains

if TYPE_CHECKING:
    from .layer_energies import LayerEnergies

# chains of a block up to which rows are added one chain after the other; where all tables are near, fewer
FEW, FEWEST, NEAR = 8, 2, 1 << 15
MANY_UNITS = 512  # from which on each of them is work for a thread
TABLES_FROM = 4  # products with the same weights, from which on tables of their sums are worth making
MOST_EXPONENT = 1000  # of couplings, beyond which energies may be no numbers in their units
TABLES_BYTES = 1 << 24  # most of them: larger ones leave the cache
ENTRIES = 1 << 15  # units times chains of a block, up to which it stays in the cache
LOG_ODDS_ERROR = 1e-4  # what float32 may change a conditional log-odds by, in the worst state, before float64 is taken


class BitProduct:
    """Weights (n, m) whose rows are added up, those of the units that are on.

    Which of the three ways of `fastbm.kernels.bits` is taken changes no bit.
    """

    def __init__(self, weights: np.ndarray) -> None:
        n, m = weights.shape
        self._columns = np.ascontiguousarray(weights.T)
        self._wide = has_look_up() and weights.dtype == np.float32
        self._tables = np.zeros((0, 1, COLUMNS, 16), np.float32)
        self._n_left = TABLES_FROM if 64 * (n // 4) * m // COLUMNS <= TABLES_BYTES else -1
        self._tail = np.zeros((m, ROWS), weights.dtype)
        self._tail[:, : n % ROWS] = weights[n // ROWS * ROWS :].T
        self._row = self._addresses()

    @staticmethod
    def room(products: Sequence[BitProduct], lanes: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return room for any of some products with the states of so many lanes, as `add_product` takes it."""
        if not all(product._wide for product in products) or lanes % NARROW:
            return None, None
        n_words = max((-(-product._columns.shape[1] // ROWS) for product in products), default=0)
        return arrays.empty((n_words, lanes), np.uint32), arrays.empty(room_of_rows(n_words), np.float32)

    def arrays(self, n_uses: int) -> tuple[np.ndarray, ...]:
        """Return the arrays that `add_product` takes, for so many uses: tables once they are worth making."""
        if self._wide and self._n_left > 0:
            self._n_left = max(self._n_left - n_uses, 0)
            if not self._n_left:
                m, n = self._columns.shape
                padded = np.zeros((-(-n // ROWS) * ROWS, m), np.float32)
                padded[:n] = self._columns.T
                tables = arrays.zeros((m // COLUMNS, len(padded) // 4, COLUMNS, 16), np.float32)
                fill_tables(tables, padded, MASKS)
                self._tables = tables  # only once they are full: other threads multiply meanwhile
                self._row = self._addresses()
        return self._columns, self._tables, self._tail, MASKS

    @staticmethod
    def rows(products: Sequence[BitProduct], n_uses: int) -> tuple[np.ndarray, np.ndarray]:
        """Return some products as `product_at` takes them, for so many uses; the products keep what these point to."""
        for product in products:
            product.arrays(n_uses)
        return np.array([product._row for product in products], np.int64).reshape(-1, 6), MASKS

    def _addresses(self) -> list[int]:
        columns, tables, tail = self._columns, self._tables, self._tail
        return [columns.ctypes.data, *columns.shape, tables.ctypes.data, len(tables), tail.ctypes.data]

    @cached_property
    def whole(self) -> np.ndarray:
        """The sum of all rows, one after the other, (m,)."""
        found: np.ndarray = np.ascontiguousarray(self._columns.T).sum(axis=0)
        return found


class LayeredChains(TemperingChains):
    """Chains on layered couplings: layers in order, each drawn given its neighbours.

    In coloured order all layers of even number come first, then those of odd number.
    """

    kernel = "layered"
    _in_groups = True

    def _block_size(self, n_chains: int, n_units: int, threads: int) -> int:
        """Return the chains of a block: the more, the fewer units, as far as it stays in the cache.

        Few of many units are dealt to threads as single chains are.
        """
        if n_chains <= FEW and n_units >= MANY_UNITS:
            return -(-n_chains // min(threads, n_chains))
        n_blocks = max(-(-n_chains // lanes_of(max(BLOCK, ENTRIES // n_units))), min(threads, -(-n_chains // LANES)))
        return lanes_of(-(-n_chains // n_blocks))

    def _couple(self) -> None:
        assert isinstance(self.couplings, Layered)
        self._making = Lock()
        form, field = up_form(self.couplings, self.bias, self.units)
        largest = float((form.absolute_sums() + np.abs(field).max(axis=0)).max(initial=0.0))
        worst = min(self.highest_beta * largest, sys.float_info.max)
        # fields of at most 1, so that float32 holds them whatever the scale of the couplings; betas make up for it
        self._exponent = math.frexp(largest)[1]
        single = worst * 2.0**-22 <= LOG_ODDS_ERROR
        self.dtype = np.dtype(np.float32 if single else np.float64)
        weights = [np.ldexp(block, -self._exponent).astype(self.dtype) for block in form.arrays]
        self._products = [BitProduct(one) for block in weights for one in (block, block.T)]
        self._rooms: list[Any] = []
        self._user_pulls_made: list[BitProduct] | None = None
        self._field = np.ldexp(field, -self._exponent)
        self._start = [self.lanes.spread(k, self._field.astype(self.dtype)) for k in range(len(self.blocks))]
        self._layers = self.couplings.layers
        numbers = np.arange(len(self._layers))
        self._visited = np.concatenate([numbers[::2], numbers[1::2]]) if self.order == "coloured" else numbers
        self._plan, self._n_rows = self._planned()
        self._starts = self._plan[0]
        self._all_down = np.broadcast_to(energy_all_down(field, self.bias, self.units), (self.n_chains,))
        self._told_from: LayerEnergies | None = None
        self._rescale()
        self._forget()
        self._largest = max((block.size for block in form.arrays), default=0)
        products = sum(block.size for block in form.arrays) / max(self.n_units, 1)
        self.attempt_seconds = 1e-9 + 3e-11 * products
        self.detail = {
            "kernel": self.kernel,
            "fields": self.dtype.name,
            "largest log-odds error": worst * (2.0**-22 if single else 2.0**-51),
        }

    def _planned(self) -> tuple[np.ndarray, int]:
        """Return where layers begin, where their fields do, their ranks in a sweep, and where their words begin.

        And how many rows fields take.

        Fields are kept of layers that have any neighbour drawn before them; those drawn first need theirs only before
        that, and those that have neighbours on both sides take other rows for a while.
        """
        sizes = [rows.stop - rows.start for rows in self._layers]
        n, ranks = len(sizes), np.argsort(self._visited)
        near = [[k for k in (layer - 1, layer + 1) if 0 <= k < n] for layer in range(n)]
        kept = [any(ranks[k] < ranks[layer] for k in near[layer]) for layer in range(n)]
        mixed = [kept[layer] and any(ranks[k] > ranks[layer] for k in near[layer]) for layer in range(n)]
        ends = np.cumsum([0, *(size * of for size, of in zip(sizes, kept, strict=True))])
        places = [*(end * of for end, of in zip(ends[:-1], kept, strict=True)), ends[-1]]
        n_rows = ends[-1] + max((size * of for size, of in zip(sizes, mixed, strict=True)), default=0)
        marks = np.cumsum([0, *(-(-size // ROWS) for size in sizes)])
        return np.array([[0, *np.cumsum(sizes)], places, [*ranks, n], marks]), max(int(n_rows), *sizes, 0)

    def _rescale(self) -> None:
        self._scale, scales = [], self._scales(self.beta)
        for k, block in enumerate(self.blocks):
            self._scale.append(np.zeros(self.lanes.widths[k], self.dtype))
            self.lanes.write(k, self._scale[k], scales[block])

    def _scales(self, betas: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            scales = np.minimum(np.ldexp(betas, self._exponent), float(np.finfo(self.dtype.type).max))
        found: np.ndarray = scales.astype(self.dtype)
        return found

    def _forget(self) -> None:
        self._values = [lanes.astype(getattr(self, "dtype", np.float32)) for lanes in self.up]
        self._told: float | None = None  # what energy the first chain has
        for _, _, _, are_packed, *_ in getattr(self, "_rooms", []):
            are_packed[0] = False

    def _prepare(self) -> None:
        """Make room for the fields of a layer, for words of all, and for products, of every block."""
        if not self._rooms:
            fields = self.lanes.room(self._n_rows, self.dtype)
            for field, words in zip(fields, self.lanes.room(int(self._plan[3, -1]), np.uint32), strict=True):
                width = field.shape[1]
                _, tables = BitProduct.room(self._products, width)
                of_lanes = arrays.empty((width,), np.uint32), arrays.empty((width,), np.int32)
                of_few = None
                if self._adds_rows(len(self._rooms)):
                    of_few = np.empty(len(field), self.dtype), np.empty(len(field), np.uint32)
                self._rooms.append((field, words, tables, np.zeros(1, np.bool_), of_lanes, of_few))

    def _adds_rows(self, k: int) -> bool:
        """Return whether rows are added chain by chain in block `k`; that changes no bit."""
        return self.lanes.used(k) <= (FEW if self._largest > NEAR else FEWEST)

    def _uses(self, k: int, n: int, few: int) -> int:
        """Return how many of `n` uses by block `k` are worth tables: far ones take longer to read for `few` chains."""
        return n if self._largest <= NEAR or self.lanes.used(k) > few else 0

    def _machine(self, n_sweeps: int, k: int, visited: np.ndarray) -> tuple[Any, ...]:
        """Return the machine of block `k` as kernels take it."""
        with self._making:
            products = BitProduct.rows(self._products, self._uses(k, n_sweeps, 2 * LANES))
        return self._plan, visited, self._start[k], products

    def _pack_block(self, k: int, packed: np.ndarray) -> None:
        """Write the bits of block `k`, without a kernel that would be compiled for this alone."""
        packed[:] = np.packbits(self.up[k][:, : len(packed)].T, axis=1, bitorder="little")

    def _chains(self, k: int) -> tuple[np.ndarray, np.ndarray, int]:
        return self.lane_streams[k], self._scale[k], self.lanes.used(k)

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        if k == 0:
            self._told = None
        machine, values = self._machine(n_sweeps, k, self._visited), self._values[k]
        step = max(1, self._longest_piece() // self.n_units)
        for start in range(0, n_sweeps, step):
            count = min(step, n_sweeps - start)
            if self._must_stop(k, self.n_units * count):
                return
            self._flips[k] += sweep_layers(values, self._chains(k), machine, self._rooms[k], self._hold, count)
        self.up[k][:] = values

    def draw_layer(self, layer: int) -> None:
        """Draw one layer given its neighbours, the others staying as they are."""
        self._prepare()
        self._told = None

        def draw(k: int) -> None:
            machine = self._machine(1, k, np.array([layer]))
            self._flips[k] += sweep_layers(self._values[k], self._chains(k), machine, self._rooms[k], None, 1)
            self.up[k][:] = self._values[k]

        self._for_blocks(draw, 1)

    def _record_group(self, k: int, sites: np.ndarray, thin: int, packed: np.ndarray, energies: np.ndarray) -> None:
        from ...kernels.sampling.layer_energies import record_layers  # no others need it

        values, how = self._values[k], (self._chains(k), self._machine(len(packed) * thin, k, self._visited))
        states, found = self.lanes.part(k, packed), self.lanes.part(k, energies)
        weighing = self._writing(k, len(packed))
        self._flips[k] += record_layers(values, *how, self._rooms[k], self._hold, thin, weighing, (states, found))
        self.lanes.put(k, packed, states)
        self.lanes.put(k, energies, found)
        self.up[k][:] = values
        self._note_told(k, weighing[0], found[-1])

    def _telling(self, k: int, n_uses: int) -> tuple[Any, ...] | None:
        """Return what tells energies of block `k` from fields, or None where these are too coarse."""
        told_from = self._told_from
        if told_from is None or told_from.error > self._most:
            return None
        with self._making:
            about = self._rooms[k][0], self._uses(k, n_uses, LANES), self._adds_rows(k)
            of_block = told_from.of_block(k, self.lanes, *about)
        return *of_block, (-math.ldexp(1.0, self._exponent), np.array(self._all_down[self.blocks[k]]))

    def _weighing(self, k: int, n_uses: int) -> tuple[Any, Any]:
        """Return what energies of block `k` are told from, or None, and what they are summed from then."""
        told = self._telling(k, n_uses)
        return told, (self._values[k].astype(np.float64), *self._summing(k)) if told is None else None

    def _writing(self, k: int, n_uses: int) -> tuple[Any, Any, np.ndarray]:
        """Return what `_weighing` does, and room for the words of all units, as those who write samples need it."""
        return *self._weighing(k, n_uses), arrays.empty((-(-self.n_units // 32) + 2, self.lanes.widths[k]), np.uint32)

    def _note_told(self, k: int, told: Any, energies: np.ndarray) -> None:
        """Note what energy the first chain is told to have, where `told` says from what."""
        if k == 0:
            self._told = None if told is None else float(energies[0])

    def _cool_piece(self, k: int, sites: np.ndarray, scales: np.ndarray, ends: np.ndarray) -> np.ndarray:
        from ...kernels.sampling.cooling import cool_layers  # few chains are cooled

        values, how = self._values[k], (self._chains(k), self._machine(len(scales), k, self._visited))
        energies, weighing = np.empty((len(ends), self.lanes.used(k))), self._weighing(k, len(ends))
        room = self._rooms[k], self._hold, scales, ends, weighing
        if k == 0:
            self._told = None
        self._flips[k] += cool_layers(values, *how, *room, energies)
        self.up[k][:] = values
        return energies

    def _temper_block(self, k: int, first: int, legs: np.ndarray, ladders: tuple[Any, ...]) -> Found:
        from ...kernels.sampling.ladders import temper_layers  # few chains are replicas

        values, machine = self._values[k], self._machine(int(legs[:, 0].sum()), k, self._visited)
        how, weighing = ((legs, self._hold), (machine, self._rooms[k])), self._writing(k, len(legs))
        found = self._room_of_samples(k, legs, ladders)
        if k == 0:
            self._told = None
        self._flips[k] += temper_layers(values, self._chains(k), *how, ladders, weighing, found)
        if legs[-1, 2]:
            self._note_told(k, weighing[0], found[1][-1])
        self.up[k][:] = values
        return found

    def _summing(self, k: int) -> tuple[tuple[Any, ...], np.ndarray]:
        """Return machine and room of block `k` for energies, from the user's couplings in float64."""
        with self._making:
            pulls = self._user_pulls
        whole = np.concatenate([np.zeros(int(self._starts[1])), *(pull.whole for pull in pulls)])
        products = BitProduct.rows(pulls, 0)
        bias, units = self.lanes.spread(k, self.bias), (float(self.units.lo), float(self.units.span))
        n_rows = max((rows.stop - rows.start for rows in self._layers), default=0)
        return (self._starts, bias, products, whole, *units), np.empty((1 + n_rows, self.lanes.widths[k]))

    def _energies_block(self, k: int) -> np.ndarray:
        from ...kernels.sampling.layer_energies import fill_energies_layers, record_layers

        weighing, used = self._writing(k, 1), self.lanes.used(k)
        (told, summed, _), energies = weighing, np.empty((1, used))
        if told is None:
            fill_energies_layers(energies[0], *summed)
        else:  # by the kernel that takes samples, as most runs take some
            how = self._values[k], self._chains(k), self._machine(1, k, self._visited), self._rooms[k], self._hold
            record_layers(*how, 0, weighing, (np.empty((1, used, -(-self.n_units // 8)), np.uint8), energies))
        found: np.ndarray = energies[0]
        self._note_told(k, told, found)
        return found

    def _prepare_energies(self) -> None:
        """Make what energies are told from before blocks run side by side."""
        from .layer_energies import LayerEnergies

        self._prepare()
        if self._told_from is None and not self.summed:
            form, _ = up_form(self.couplings, self.bias, self.units)
            blocks = [np.ldexp(block, -self._exponent) for block in form.arrays]
            size = ENERGY_ERROR * size_of(self.couplings, self.bias)
            fits = self._tables_fit(blocks) and abs(self._exponent) < MOST_EXPONENT
            self._most = float(np.ldexp(size, -self._exponent)) if fits else -1.0
            self._told_from = LayerEnergies(blocks, self._field, self._plan, self.dtype, self._most)

    @staticmethod
    def _tables_fit(blocks: Sequence[np.ndarray]) -> bool:
        """Return whether tables of all products, four integers for a coupling, are not too large to be kept."""
        return all(16 * block.size <= TABLES_BYTES for block in blocks)

    def state(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on, bit for bit.

        Raises
        ------
        RuntimeError
            If what energies are told from has come apart from the states.
        """
        if self._told is not None and self.n_swept * self.n_chains >= self.n_units:
            check_energy(self._told, self.up[0][:, 0], self.couplings, self.bias[0], self.units)
        return super().state()

    @property
    def _user_pulls(self) -> list[BitProduct]:
        """Return the user's couplings in float64, from which energies are computed; made when first asked for."""
        if self._user_pulls_made is None:
            self._user_pulls_made = [BitProduct(np.array(block)) for block in self.couplings.arrays]
        return self._user_pulls_made
