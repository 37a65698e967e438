"""Chains on dense couplings: cached integer fields, one row of couplings at a time for 64 chains.

Energies are computed from these fields too, where that is exact to 1e-9 (sum |W| + sum |b|) in any state; at commits
one is held against its sum in float64.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._base import arrays
from ...kernels.bit_vectors import GROUP
from ...kernels.energy import energies_dense
from ...kernels.sampling.dense import COLUMNS, advance_dense, init_fields_dense, room_of_fields
from ...kernels.sampling.few import MOST_ROWS
from ...kernels.sampling.few_dense import ROW_BYTES, advance_dense_few
from ...kernels.sampling.field_energies import room_for_words
from ...kernels.sampling.limits import ROWS
from ...kernels.sampling.record import record_refined, record_summed, record_words, room_of_record
from ...machine.up_form import up_bias
from . import fixed_point
from .lanes import PIECE_SECONDS, lanes_of
from .remainders import (
    ENERGY_ERROR,
    Refined,
    Remainders,
    check_energy,
    coarse_energies,
    energy_all_down,
    fewest_bytes,
    settled_bytes,
    size_of,
)
from .temperatures import Found, Ladders, TemperingChains

SUMMED = 24  # units, from which on energies are not summed anew
ADDITION_SECONDS = 1e-10  # about what adding a coupling to a field takes
ONE = np.ones(1)
SUMMED_BYTES = 1 << 18  # of values of samples whose energies are summed anew together


def dense_room(up: np.ndarray, fields: np.ndarray) -> tuple[Any, ...]:
    """Return room for the limits of some attempts, for lists of flips, and for the window of a block.

    In the window, chains lie side by side in groups, with one row more for what their fields lack.
    """
    n_chains, kind = fields.shape[0], fields.dtype
    n_groups = -(-n_chains // GROUP)
    limits, picked = arrays.empty((ROWS, up.shape[1]), kind), arrays.empty((COLUMNS,), kind)
    window, moves = (
        arrays.empty((n_groups, COLUMNS + 1, GROUP), kind),
        arrays.empty((2, n_groups * GROUP), np.uint64),
    )
    flips, distances = arrays.empty((n_chains,), np.int64), arrays.empty((COLUMNS,), np.int64)
    return limits, (flips, moves, window, picked, distances)


def few_room(fields: np.ndarray, rises: np.ndarray) -> tuple[Any, ...]:
    """Return room for the words and the limits of as many attempts as chains take turns after."""
    n_rows = min(MOST_ROWS, max(16, ROW_BYTES // (rises.itemsize * rises.shape[1])))
    return arrays.empty((n_rows,), np.uint32), arrays.empty((n_rows,), fields.dtype)


class DenseChains(TemperingChains):
    """Single-spin Gibbs or Metropolis updates; see `fastbm.kernels.sampling.dense`."""

    kernel = "dense"
    few = 8
    _in_groups = True
    _reused: tuple[np.ndarray, list[Any]] | None = None  # fields of all chains and `_rooms`, whatever couplings are
    _rooms: list[Any]  # for sweeps of blocks

    def _couple(self) -> None:
        self._weights = self.couplings.matrix()
        self._factor, self._field = float(self.units.span**2), up_bias(self.couplings, self.bias, self.units)
        self._point, self._rises, self._start = fixed_point.dense_integers(
            self.couplings, self._field, self.units, self.highest_beta
        )
        self._most = size_of(self.couplings, self.bias)
        self._all_down = np.broadcast_to(energy_all_down(self._field, self.bias, self.units), (self.n_chains,))
        self._scale = [scale[0] for scale in self.lanes.room(1, np.float32)]
        self._rescale()
        self._remainders: Remainders | None = None
        self._refined: list[Refined] = []
        self._by_fields, self._n_bytes = self._are_fields_exact()
        self._forget()
        self.attempt_seconds = 2e-9 + 2e-11 * self.n_units
        self.detail = self._point.detail(self.kernel)

    def _are_fields_exact(self) -> tuple[bool, int]:
        """Return whether energies that fields tell are off by at most `ENERGY_ERROR`, all roundings of one sign.

        And how many bytes of what rounding leaves that takes.
        """
        if self._rises.dtype == np.int64:
            return True, 0
        n_bytes = fewest_bytes(self.couplings.n_entries // 2 + self.n_units, self._most_units())
        return self.n_units >= SUMMED and n_bytes > 0, n_bytes

    def _most_units(self) -> float:
        """Return how many units of the fields an energy may be off."""
        return float(np.ldexp(ENERGY_ERROR * self._most, self._point.exponent))

    def _rescale(self) -> None:
        self._point.fill_scales(self.beta, self.lanes, self._scale)

    def _forget(self) -> None:
        self._fields: list[np.ndarray] = []
        self._told: float | None = None  # what energy the first chain has

    def _prepare(self) -> None:
        if self._fields:
            return
        width, dtype = self._rises.shape[1], self._rises.dtype
        step = max(1, int(PIECE_SECONDS / (ADDITION_SECONDS * self.n_units * width)))
        if self._reused is None or self._reused[0].shape[1] != width or self._reused[0].dtype != dtype:
            of_all = arrays.zeros((self.n_chains, width), dtype)
            rooms = [
                few_room(of_block, self._rises) if self._one_by_one else dense_room(up, of_block)
                for up, of_block in zip(self.up, self._blocks_of(of_all), strict=True)
            ]
            self._reused = of_all, rooms
        of_all, self._rooms = self._reused
        fields = self._blocks_of(of_all)

        def fill(k: int) -> None:
            start = self._rows(k)
            for c in range(0, len(fields[k]), step):
                if c and self._stopped():
                    return
                some = fields[k][c : c + step]
                about = self._rises, start if len(start) == 1 else start[c : c + step]
                init_fields_dense(some, self.up[k][:, c:], *about, room_of_fields(some))

        self._for_blocks(fill, ADDITION_SECONDS * width / self.attempt_seconds)
        self._fields = fields

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        if k == 0:
            self._told = None
        advance = advance_dense_few if self._one_by_one else advance_dense
        for rows, count in self._pieces(k, first, n_sweeps):
            self._flips[k] += advance(self.up[k], self._chains(k), rows, count, self._hold, self._rooms[k])

    def _words_of_sweeps(self, k: int, first: int, n_sweeps: int) -> np.ndarray:
        n_chains = self.lanes.used(k)
        words = np.empty((self.n_units, n_sweeps * -(-n_chains // 64)), np.uint64)
        if self.n_units > self._longest_piece():
            return super()._words_of_sweeps(k, first, n_sweeps)
        if not self._must_stop(k, self.n_units * n_sweeps):
            sites, ways = self._rows_of(first, n_sweeps), (self._hold, *self._ways)
            self._flips[k] += record_words(self.up[k], self._chains(k), sites, ways, self._rooms[k], n_chains, words)
        if k == 0:
            self._told = None
        return words

    def _chains(self, k: int) -> tuple[np.ndarray, ...]:
        """Return the arrays of block `k` as kernels take them."""
        return self._fields[k], self._rises, self._scale[k], self.lane_streams[k]

    def _cool_block(self, k: int, sites: np.ndarray, scales: np.ndarray) -> int:
        from ...kernels.sampling.cooling import cool_dense  # few chains are cooled

        if k == 0:
            self._told = None
        return int(cool_dense(self.up[k], self._chains(k), scales, sites, self._hold, *self._ways, self._rooms[k]))

    def _prepare_swaps(self) -> None:
        """Do nothing: fields are at hand."""

    def _temper_block(self, k: int, first: int, legs: np.ndarray, ladders: tuple[Any, ...]) -> Found:
        from ...kernels.sampling.ladders import temper_dense  # few chains are replicas

        up, units = self.up[k], fixed_point.scaled_to(ONE, 1.0, -self._point.exponent)
        _, energies, told = self._room_of_samples(k, legs, ladders)
        words = np.empty((len(energies) + 1, energies.shape[1], -(-self.n_units // 64)), np.uint64)
        constants, rows = np.ascontiguousarray(self._all_down[self.blocks[k]]), self._rows(k).astype(np.int64)
        coarse = (rows, constants, (float(units[0][0]), units[1]), np.empty(len(constants)))
        refined = None
        if self._refined:
            refined = self._refined[k].arrays
        elif self._by_fields:  # no energies are asked for
            refined = Refined(np.zeros((0, 0, 0), np.int8), rows, len(constants)).arrays
        visits = (self._rows_of(first, int(legs[:, 0].sum())), legs)
        room = room_for_words(up, 0)[1], self._rooms[k]
        how = (visits, (self._hold, *self._ways), ladders, coarse, refined)
        self._flips[k] += temper_dense(up, self._chains(k), *how, (words, energies, told, room))
        packed = words[:-1].astype("<u8", copy=False).view(np.uint8)
        is_sample = (legs[:, 2] == 1).any()
        if is_sample and self._by_fields:
            energies = self._above_all_down(k, energies)
        elif is_sample:
            self._sum_samples(k, packed, energies)
        if k == 0:
            self._told = float(energies[-1, 0]) if is_sample else None
        return packed, energies, told

    def _sum_samples(self, k: int, packed: np.ndarray, energies: np.ndarray) -> None:
        """Sum energies of samples of block `k` as `_summed` does, as many as fit into the cache in one call."""
        n_chains = packed.shape[1]
        together = max(1, SUMMED_BYTES // (8 * self.n_units * n_chains))
        for t in range(0, len(packed), together):
            some = packed[t : t + together].reshape(-1, packed.shape[2])
            values = np.zeros((self.n_units, lanes_of(len(some))))
            up = np.unpackbits(some, axis=1, count=self.n_units, bitorder="little").T
            values[:, : len(some)] = self.units.values(up, np.float64)
            bias = np.ascontiguousarray(self.bias.T)
            if len(self.bias) > 1:
                bias = np.zeros_like(values)
                bias[:, : len(some)] = np.tile(self.bias[self.blocks[k]].T, len(some) // n_chains)
            found = np.zeros(values.shape[1])
            energies_dense(values, self._weights, bias, found, 0, self.n_units)
            energies[t : t + together] = found[: len(some)].reshape(-1, n_chains)

    def _prepare_energies(self) -> None:
        """Make the fields that only energies need, where these are told from fields."""
        self._prepare()
        if not self._by_fields or self._refined:
            return
        if self._remainders is None:
            scaled = fixed_point.scaled_to(self._weights, self._factor, self._point.exponent)
            about = (self.couplings, (self._point.exponent, self._factor), scaled, self._rises)
            n_bytes = settled_bytes(self._n_bytes, *about, self._most_units())
            self._remainders = Remainders(self._point, scaled, self._field, self._rises, self._start, n_bytes)
        self._refined = [self._remainders.of_block(block) for block in self.blocks]

    def _record_group(self, k: int, sites: np.ndarray, thin: int, packed: np.ndarray, energies: np.ndarray) -> None:
        up = self.up[k]
        how = (self._chains(k), (sites, thin), (self._hold, *self._ways))
        states, found = self.lanes.part(k, packed), self.lanes.part(k, energies)
        if self._by_fields:
            room = room_of_record(up, self.lanes.used(k), self._rooms[k])
            scale, factor = fixed_point.scaled_to(ONE, 1.0, -self._point.exponent)
            of_units = float(scale[0]), factor, np.ascontiguousarray(self._all_down[self.blocks[k]])
            n_flips = record_refined(up, *how, (self._refined[k].arrays, of_units), room, states, found)
        else:
            values, bias = self._room_for_values(k)
            units = (float(self.units.lo), float(self.units.span))
            machine = (self._weights, bias, units)
            n_flips = record_summed(up, *how, machine, (values, self._rooms[k]), states, found)
        self.lanes.put(k, packed, states)
        self.lanes.put(k, energies, found)
        if k == 0:
            self._told = float(found[-1, 0])
        self._flips[k] += n_flips

    def _energies_block(self, k: int) -> np.ndarray:
        if not self._by_fields:
            return self._summed(k)
        up, fields, refined = self.up[k], self._fields[k], self._refined[k]
        step = max(1, int(PIECE_SECONDS / (ADDITION_SECONDS * self.n_units * self._rises.shape[1])))
        found = []
        for c in range(0, len(fields), step):
            if c and self._stopped():
                return np.empty(len(fields))
            some = slice(c, c + step)
            found.append(refined.energies(up[:, some], fields[some], some))
        energies = self._above_all_down(k, np.concatenate(found))
        if k == 0:
            self._told = float(energies[0])
        return energies

    def _coarse(self, k: int) -> np.ndarray:
        """Compute energies of block `k` above that of all units down, in the units of the fields."""
        return coarse_energies(self.up[k], self._fields[k], self._rows(k))

    def _rows(self, k: int) -> np.ndarray:
        """Return the fields of block `k` with all units down: a row for all its chains, or one for each."""
        return self._start if len(self._start) == 1 else self._start[self.blocks[k]]

    def _pack_block(self, k: int, packed: np.ndarray) -> None:
        # samples are packed where they are taken: for the few states beside them no kernel is compiled
        packed[:] = np.packbits(self.up[k][:, : len(packed)], axis=0, bitorder="little").T

    def _above_all_down(self, k: int, energies: np.ndarray) -> np.ndarray:
        """Return energies of block `k` from those in the units of the fields, which may be lost."""
        found, factor = fixed_point.scaled_to(energies, 1.0, -self._point.exponent)
        found *= factor
        found += self._all_down[self.blocks[k]]
        return found

    def _summed(self, k: int) -> np.ndarray:
        """Sum energies of block `k`, in float64 from the user's couplings."""
        values, bias = self._room_for_values(k)
        values[:, : self.up[k].shape[1]] = self.units.values(self.up[k], np.float64)
        energies = np.zeros(values.shape[1])
        for rows in self._energy_pieces(k):
            energies_dense(values, self._weights, bias, energies, *rows)
        return energies[: self.lanes.used(k)]

    def _room_for_values(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return room for values of the units of block `k`, in whole vectors of lanes, and their biases."""
        values = np.zeros((self.n_units, lanes_of(self.lanes.widths[k])))
        if len(self.bias) == 1:
            return values, np.ascontiguousarray(self.bias.T)
        bias = np.zeros_like(values)
        self.lanes.write(k, bias, self.bias[self.blocks[k]])
        return values, bias

    def _energy_pieces(self, k: int) -> Iterator[tuple[int, int]]:
        """Yield (first unit, last unit + 1), of about as much work each, until a stop is asked for."""
        pairs = self.n_units**2 / 2
        n_pieces = 1 + int(pairs * self._lanes() * ADDITION_SECONDS / PIECE_SECONDS)
        ends = np.rint(self.n_units * np.sqrt(np.linspace(0.0, 1.0, n_pieces + 1))).astype(int).tolist()
        for piece in itertools.pairwise(ends):
            if n_pieces > 1 and self._stopped():
                return
            yield piece

    def quick_energies(self) -> np.ndarray:
        """Return energies without offset, (n_chains,), from the fields that are kept."""
        self._prepare()
        blocks = range(len(self.blocks))
        return np.concatenate([self._above_all_down(k, self._coarse(k)) for k in blocks])

    def state(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on, bit for bit.

        Raises
        ------
        RuntimeError
            If what energies are told from has come apart from the states.
        """
        # sooner to look would be the most of the work
        if self._refined and self._told is not None and self.n_swept * self.n_chains >= self.n_units:
            check_energy(self._told, self.up[0][:, 0], self.couplings, self.bias[0], self.units)
        return super().state()

    def gather(self, index: np.ndarray) -> None:
        """Give chain c the state and the fields of chain index[c]; streams and temperatures stay."""
        self._for_blocks(self._moving(index), 1)

    def _moving(self, index: np.ndarray) -> Callable[[int], None]:
        """Return what gives the chains of a block the states and the fields of chains `index`.

        Where there are no fields yet, all chains get the states at once, and nothing is left to be done.
        """
        if not self._fields or self._reused is None:
            super().gather(index)
            return lambda k: None
        bits, before = self.bits(), self._reused[0]
        self._forget()
        fields = arrays.empty(before.shape, before.dtype)
        self._fields, self._reused = self._blocks_of(fields), (fields, self._rooms)

        def move(k: int) -> None:
            block = self.blocks[k]
            parents = index[block]
            self._load_block(k, bits[parents])
            np.take(before, parents, axis=0, out=fields[block], mode="clip")  # any other mode takes a copy
            if len(self.bias) > 1:  # couplings pull as before, biases stay with the chains
                fields[block] += self._start[block] - self._start[parents]

        return move

    def resample(self, parents: np.ndarray | None, n_sweeps: int) -> np.ndarray:
        """Give chain c the state of chain parents[c], if there are any, and sweep; return the energies then.

        Each block goes its way, so that its fields are near as long as they are needed, by the kernel of ladders. This
        is no faster on couplings without fields that are kept.
        """
        if not self.tempers(n_sweeps):
            return super().resample(parents, n_sweeps)
        move = None if parents is None else self._moving(parents)
        self._prepare_energies()
        self._since_check, found = [0] * len(self.blocks), [np.empty(0)] * len(self.blocks)
        alone, step = Ladders.of_single_chains(self.n_chains), self._longest_piece() // self.n_units

        def work(first: int, end: int, k: int) -> None:
            if first == 0 and move:
                move(k)
            own = alone.of_block(self.blocks[k], self._scale[k], 0)
            for start in range(first, end, step) or [0]:
                stop = min(start + step, end)
                if self._must_stop(k, self.n_units * (stop - start)):
                    return
                leg = np.array([[stop - start, 0, int(stop == n_sweeps)]])
                found[k] = self._temper_block(k, self.n_swept + start, leg, own)[1].ravel()

        self._for_blocks(work, n_sweeps, steps=n_sweeps)
        self.n_swept += n_sweeps
        return np.concatenate(found)

    def _blocks_of(self, fields: np.ndarray) -> list[np.ndarray]:
        """Return the rows of each block of fields (n_chains, width)."""
        return [fields[block] for block in self.blocks]
