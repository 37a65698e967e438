"""Chains on sparse couplings: fields summed from the neighbours at every attempt, lanes side by side.

Few chains are swept one after the other; once so many sweeps are asked for that it pays, units side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._base import arrays
from ...kernels.energy import energies_sparse
from ...kernels.sampling.few import MOST_ROWS, sweep_sparse_few
from ...kernels.sampling.levels import PIECE, collect_bits, sweep_levels
from ...kernels.sampling.limits import ROWS
from ...kernels.sampling.sparse import sweep_sparse
from ...kernels.words import SIDE
from .fixed_point import Edges, sparse_integers
from .lanes import LANES
from .levels import ORDERS, WORTH, WORTH_ATTEMPTS, Levels, arrange, cut
from .remainders import check_energy
from .temperatures import Found, TemperingChains

if TYPE_CHECKING:
    from .edges import EdgeNumbers

TOGETHER = 1 << 18  # bytes of states whose energies are summed together
CHECKED = 1 << 16  # units in all samples, from which on to check an energy takes no time beside them
# about how many nanoseconds an attempt takes, and more for each neighbour: by sums of neighbours, of all chains and for
# every 16 lanes; and with fields that are kept, where an attempt is no flip and more where it is one
SUM, SUM_OF_LANES = (10.0, 1.4), (6.5, 0.65)
KEPT, FLIP = 2.0, (18.0, 0.45)
NO_SAMPLES = 1 << 62, np.empty((0, 0, 0, 0), np.uint32)  # after so many sweeps
MOST_KEPT = 1 << 17  # units, whose fields a processor holds in its own cache


def _room_of_lanes(n_lanes: int, kind: Any) -> tuple[Any, ...]:
    """Return room for the sweeps of chains in lanes, with fields of some kind, and for the words of their states."""
    limits, field, moved = (
        arrays.empty((ROWS, n_lanes), kind), arrays.empty((n_lanes,), kind), arrays.zeros((n_lanes,), np.int32),
    )  # fmt: skip
    return (limits, field, moved), np.zeros((4, n_lanes), np.uint8), np.empty(n_lanes, np.uint32)


class SparseChains(TemperingChains):
    """Single-spin Gibbs or Metropolis updates with the bits of `DenseChains`; see `fastbm.kernels.sampling.sparse`.

    Chains that are cooled keep their fields as long as few attempts are flips: that takes less time, and all bits are
    the same.
    """

    kernel = "sparse"
    block_lanes = 128
    few = 8
    few_anyhow = 4  # chains that are swept one after the other in any order
    multiplies = False
    _in_groups = 4  # fewer are not worth to be turned

    @classmethod
    def are_few(cls, n_chains: int, order: str) -> bool:
        """Return whether so many chains are swept one after the other."""
        return n_chains <= (cls.few if order in ORDERS else cls.few_anyhow)

    def _couple(self) -> None:
        integers = sparse_integers(self.couplings, self.bias, self.units, self.highest_beta)
        self._integers, self._point = integers, integers.point
        edges, start = integers.edges, integers.start
        degree = int((edges[0][1:] - edges[0][:-1]).max(initial=0))
        self._edges, self._all_down = edges, start
        self._levels: Levels | None = None
        self._numbers: EdgeNumbers | None = None
        self._n_asked, self._may_pay = 0, bool(self._one_by_one)
        self._degree = len(edges[1]) / self.n_units
        self._flip_rate = [1.0] * len(self.blocks)  # flips of an attempt, when they were last counted
        self._forget()
        self._start = [self.lanes.spread(k, start) for k in range(len(self.blocks))]
        self._biases = [self.lanes.spread(k, self.bias) for k in range(len(self.blocks))]
        self._scale = [scale[0] for scale in self.lanes.room(1, np.float32)]
        self._rescale()
        self.attempt_seconds = 1e-9 + 2e-10 * degree if self._one_by_one else 5e-10 + 5e-11 * degree
        self.detail = self._point.detail(self.kernel)

    @property
    def _swept(self) -> Edges:
        """The couplings as kernels take them that look at one unit after the other."""
        return self._integers.in_fours if self._one_by_one else self._edges

    def _rescale(self) -> None:
        self._point.fill_scales(self.beta, self.lanes, self._scale)

    def _forget(self) -> None:
        self._kept: list[tuple[np.ndarray, np.ndarray] | None] = [None] * len(self.blocks)
        self._last: tuple[int, float] | None = None  # after how many sweeps the first chain had which energy

    def _cool_block(self, k: int, sites: np.ndarray, scales: np.ndarray) -> int:
        from ...kernels.sampling.cooling import cool_kept, cool_sparse  # few chains are cooled

        up, used, chains = self.up[k], self.lanes.used(k), (scales, self._scale[k], self.lane_streams[k])
        if self._keeps(k):
            graph = (*self._edges, self._start[k])
            n_flips = cool_kept(up, *self._fields(k, graph), graph, *chains, self._hold)
        else:
            self._kept[k] = None
            swept = ((*self._swept, self._start[k]), *chains[1:])
            n_flips = cool_sparse(up, swept, scales, sites, self._hold, *self._ways, used)
        self._flip_rate[k] = n_flips / (used * self.n_units * len(scales))
        return int(n_flips)

    def _keeps(self, k: int) -> bool:
        """Return whether block `k` is the faster with fields that are kept, flips being as frequent as they were."""
        if self.order != "sequential" or self.n_units > MOST_KEPT:
            return False
        if self._one_by_one:
            return True
        n_vectors, degree = self._lanes() // LANES, self._degree
        sums = SUM[0] + SUM[1] * degree + n_vectors * (SUM_OF_LANES[0] + SUM_OF_LANES[1] * degree)
        kept = KEPT + self._flip_rate[k] * (FLIP[0] + FLIP[1] * degree)
        return bool(self.lanes.used(k) * kept < sums)

    def _fields(self, k: int, graph: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the fields of block `k`, and where its units are up, as the kernel keeps them."""
        from ...kernels.sampling.cooling import init_kept

        found = self._kept[k]
        if found is None:
            shape, kind = (self.lanes.used(k), self.n_units), graph[2].dtype
            found = self._kept[k] = np.empty(shape, kind), np.empty(shape, kind)
            init_kept(*found, self.up[k], graph)
        return found

    def expect(self, n_sweeps: int) -> None:
        """Prepare for so many sweeps, about."""
        self._n_asked += n_sweeps

    def sweep(self, n_sweeps: int) -> None:
        """Advance every chain by `n_sweeps` sweeps."""
        self._ask(n_sweeps)
        super().sweep(n_sweeps)

    def record(self, n_samples: int, thin: int) -> dict[str, np.ndarray]:
        """Advance by `n_samples` times `thin` sweeps, and keep the state after every `thin`: see `Engine`."""
        from .edges import numbers_of  # many runs need none

        self._ask(n_samples * thin)
        if self._numbers is None and len(self.bias) == 1 and max(self.lanes.widths) <= SIDE:
            numbers = numbers_of(self.couplings, self.bias[0], binary=self.units.lo == 0)
            self._numbers = numbers if numbers.exact else None
        found = super().record(n_samples, thin)
        worth_a_check = n_samples * self.n_units >= CHECKED
        self._last = (self.n_swept, float(found["samples/energy"][-1, 0])) if worth_a_check else None
        return found

    def _sample_energies(self, k: int) -> np.ndarray:
        if self._numbers is None:
            return self._energies_block(k)
        up, words = self.up[k], np.zeros((self.n_units + 1, 16), np.uint8)
        packed = np.packbits(up, axis=1, bitorder="little")
        words[:-1, : packed.shape[1]] = packed
        return self._numbers.energies(words.view("<u4"))[: self.lanes.used(k)]

    def state(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on, bit for bit.

        Raises
        ------
        RuntimeError
            If the last energy that was recorded is not that of its state.
        """
        if self._last is not None and self._last[0] == self.n_swept:
            up, bias = np.ascontiguousarray(self.up[0][:, 0]), self.bias[0]
            check_energy(self._last[1], up, self.couplings, bias, self.units)
        return super().state()

    def _ask(self, n_sweeps: int) -> None:
        """Make groups of units if so many sweeps more are worth it, with those before."""
        self._n_asked += n_sweeps
        attempts = self._n_asked * self.n_units * self.n_chains
        if self._may_pay and self._n_asked >= WORTH and attempts >= WORTH_ATTEMPTS:
            self._may_pay = False
            self._levels = arrange(self._edges, self._all_down, self.visit, self.order)

    def _sweep_levels(self, k: int, levels: Levels, n_sweeps: int) -> None:
        """Sweep block `k` by groups of units, until a stop is asked for."""
        bits, graph = levels.spread(self.up[k]), levels.of_chains(self.blocks[k])
        for pieces, count in cut(self.n_units, n_sweeps, self._longest_piece()):
            if self._must_stop(k, min(self.n_units, PIECE * (pieces[1] - pieces[0])) * count):
                return
            chains = (self._scale[k], self.lane_streams[k])
            self._flips[k] += sweep_levels(bits, graph, *chains, pieces, count, self._hold, NO_SAMPLES)
        collect_bits(bits, levels.ranks, self.up[k])

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        self._kept[k] = None
        if self._levels is not None:
            self._sweep_levels(k, self._levels, n_sweeps)
            return
        graph, chains = (*self._swept, self._start[k]), (self._scale[k], self.lane_streams[k])
        for rows, count in self._pieces(k, first, n_sweeps):
            if self._one_by_one:
                self._flips[k] += sweep_sparse_few(self.up[k], graph, *chains, rows, count, self._hold)
            else:
                used = self.lanes.used(k)
                self._flips[k] += sweep_sparse(self.up[k], graph, *chains, rows, count, self._hold, used)

    def _record_group(self, k: int, sites: np.ndarray, thin: int, packed: np.ndarray, energies: np.ndarray) -> None:
        from ...kernels.sampling import record_sparse as of  # dense machines have none
        from ...kernels.sampling.record_words import room_of_states

        self._kept[k] = None
        up, n_chains, streams, block = self.up[k], self.lanes.used(k), self.lane_streams[k], self.blocks[k]
        numbers, edges, machine = self._numbers, None, None
        if numbers is None:
            machine = (self.couplings.csr(), self._biases[k], (float(self.units.lo), float(self.units.span)))
        else:
            edges = numbers.of_samples, numbers.many_digits
        chains, visits = (self._swept, self._start[k], self._scale[k], streams), (sites, thin)
        if not self._one_by_one and numbers is not None:
            found = packed.reshape(-1, packed.shape[2]), energies
            n_states = max(1, TOGETHER // (16 * self.n_units)) if numbers.pairs is None else 1
            room = room_of_states(n_states, self.n_units, numbers.room(n_states))
            about = *visits, block.start, block.stop
            rooms = room, _room_of_lanes(up.shape[1], self._edges[2].dtype)
            self._flips[k] += of.record_lanes(up, chains, about, self._hold, edges, numbers.pairs, rooms, found)
            return
        states, own = self.lanes.part(k, packed), self.lanes.part(k, energies)
        if not self._one_by_one:
            self._flips[k] += of.record_many(up, chains, visits, self._hold, machine, states, own)
            self.lanes.put(k, packed, states)
            self.lanes.put(k, energies, own)
            return
        of_sums = None if numbers is None else numbers.room(1)
        if self._levels is not None:
            groups = (self._levels.spread(up), self._levels.ranks, up)
            swept = (self._levels.of_chains(self.blocks[k]), self._scale[k], streams)
            room = of.room_of_samples(n_chains, self._levels.starts[0].size, self.n_units, of_sums)
            self._flips[k] += of.record_levels(groups, swept, thin, self._hold, (edges, machine), room, states, own)
        else:
            places = np.arange(0, up.size, n_chains, dtype=np.int32)
            room = of.room_of_samples(1, up.size, self.n_units, of_sums)
            both = (up, up.reshape(-1))
            rooms = room, (np.empty(MOST_ROWS, np.uint32), np.empty(MOST_ROWS, self._edges[2].dtype))
            energy = edges, machine
            self._flips[k] += of.record_few(both, chains, visits, self._hold, places, energy, rooms, states, own)
        self.lanes.put(k, packed, states)
        self.lanes.put(k, energies, own)

    def _pack_block(self, k: int, packed: np.ndarray) -> None:
        if self._one_by_one:  # for the few states beside samples no kernel is compiled
            packed[:] = np.packbits(np.ascontiguousarray(self.up[k].T), axis=1, bitorder="little")
        else:
            super()._pack_block(k, packed)

    def tempers(self, n_sweeps: int) -> bool:
        """Return whether so many sweeps, with swaps, are done in few calls."""
        self._ask(n_sweeps)
        return self._levels is None and super().tempers(n_sweeps)

    def _temper_block(self, k: int, first: int, legs: np.ndarray, ladders: tuple[Any, ...]) -> Found:
        from ...kernels.sampling.ladders import temper_sparse  # few chains are replicas

        self._kept[k] = None
        chains = (self._swept, self._start[k], self._scale[k], self.lane_streams[k])
        visits = (self._rows_of(first, int(legs[:, 0].sum())), legs)
        machine = (self.couplings.csr(), self._biases[k], (float(self.units.lo), float(self.units.span)))
        found = self._room_of_samples(k, legs, ladders)
        self._flips[k] += temper_sparse(self.up[k], chains, visits, (self._hold, *self._ways), ladders, machine, found)
        return found

    def _energies_block(self, k: int) -> np.ndarray:
        used = self.lanes.used(k)
        energies = np.empty(self.up[k].shape[1])
        values = (float(self.units.lo), float(self.units.span))
        energies_sparse(self.up[k], self.couplings.csr(), self._biases[k], values, energies)
        return energies[:used]
