"""Chains at many temperatures: cooled, or replicas of ladders that keep their lanes, in few calls.

Where chains are cooled every sweep has a temperature of its own, all chains the same. A block of replicas holds whole
ladders; it goes its way, with sweeps, swaps of temperatures and samples, without waiting for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from .engine import Engine
from .fixed_point import FixedPoint

# of samples of a block: states (n_samples, chains, at least n_bytes), energies, and what is told of ladders
Found = tuple[np.ndarray, np.ndarray, np.ndarray]

MEASURED = 2  # in legs, as `fastbm.kernels.sampling.ladders` has them


def cool(engine: Engine, betas: np.ndarray, told: Sequence[int] = ()) -> np.ndarray:
    """Do a sweep at each of `betas` (n_sweeps,), none above the engine's `highest_beta`; all lanes are alike.

    Returns
    -------
    (len(told), n_chains) array
        Energies without offset after so many of these sweeps, increasing numbers from 1 on.
    """
    if isinstance(engine, CoolingChains) and engine.cools:
        return engine.cool(betas, told)
    energies = np.empty((len(told), engine.n_chains))
    ends = np.append(np.flatnonzero(np.diff(betas)) + 1, len(betas))
    first = 0
    for end in np.union1d(ends, told).astype(np.int64).tolist():
        if (engine.beta != betas[first]).any():
            engine.set_beta(np.full(engine.n_chains, betas[first]))
        engine.sweep(end - first)
        first = end
        if end in told:
            energies[told.index(end)] = engine.energies()
    return energies


class CoolingChains(Engine):
    """Chains that take many temperatures in one call; a sweep of them must not be too long to be cut."""

    _point: FixedPoint

    @property
    def _ways(self) -> tuple[bool | None, bool | None]:
        """Whether chains are few, and whether many, as kernels take it that compile only what is not None."""
        return (True, None) if self._one_by_one else (None, True)

    @property
    def cools(self) -> bool:
        """Whether a sweep fits into a piece between two looks for a stop."""
        return bool(self.n_units <= self._longest_piece())

    def cool(self, betas: np.ndarray, told: Sequence[int] = ()) -> np.ndarray:
        """Do what `cool` does; each block goes its way without waiting for the others."""
        self._prepare()
        self._prepare_energies()
        self._since_check = [0] * len(self.blocks)
        ends, energies = np.array(told, np.int64), np.empty((len(told), self.n_chains))
        step = self._sweeps_of_piece(len(betas))
        cool = partial(self._cool, self._scales(betas), step, ends, energies)
        self._for_blocks(cool, len(betas), steps=-(-len(betas) // step))
        self.n_swept += len(betas)
        self.beta = np.full(self.n_chains, betas[-1])
        return energies

    def _sweeps_of_piece(self, n_sweeps: int) -> int:
        """Return how many of these sweeps a block does in one call, at most; where blocks take turns, those of one."""
        return min(self._longest_piece() // self.n_units, max(1, -(-n_sweeps // self._n_turns(n_sweeps, n_sweeps))))

    def _scales(self, betas: np.ndarray) -> np.ndarray:
        """Return betas as chains have them in kernels."""
        return self._point.scales(betas).astype(np.float32)

    def _cool(
        self, scales: np.ndarray, step: int, ends: np.ndarray, energies: np.ndarray, begin: int, end: int, k: int
    ) -> None:
        """Cool block `k` from piece `begin` on, before `end`, of `step` sweeps each, until a stop is asked for.

        Mutates its part of `energies`.
        """
        for t in range(begin * step, min(end * step, len(scales)), step):
            some = scales[t : t + step]
            if self._must_stop(k, self.n_units * len(some)):
                return
            sites, rows = self._rows_of(self.n_swept + t, len(some)), (t < ends) & (ends <= t + step)
            energies[rows, self.blocks[k]] = self._cool_piece(k, sites, some, ends[rows] - t)

    def _cool_piece(self, k: int, sites: np.ndarray, scales: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Cool block `k` as `_cool_block` does; return its energies after the sweeps of `ends`."""
        energies, first = np.empty((len(ends), self.lanes.used(k))), 0
        for row, end in enumerate([*ends.tolist(), len(scales)]):
            if first < end:
                own = sites if len(sites) == 1 else sites[first:end]
                self._flips[k] += self._cool_block(k, own, scales[first:end])
                first = end
            if row < len(ends):
                energies[row] = self._energies_block(k)
        return energies

    def _cool_block(self, k: int, sites: np.ndarray, scales: np.ndarray) -> int:
        """Do a sweep of block `k` at each of `scales`, rows of `sites` as `_rows_of` has them; return the flips."""
        raise NotImplementedError


class Ladders(NamedTuple):
    """What moves where temperatures are swapped, and how they are.

    Arrays are as `fastbm.kernels.sampling.tempering` takes them; counts are those of all ladders together.
    """

    level: np.ndarray
    streams: np.ndarray
    counts: np.ndarray
    end: np.ndarray
    trips: np.ndarray
    betas: np.ndarray
    swap_every: int

    @classmethod
    def of_single_chains(cls, n_chains: int) -> Ladders:
        """Return as many ladders of one replica, of which nothing is swapped."""
        level, streams = np.zeros((n_chains, 1), np.int64), np.ones((n_chains, 4), np.uint32)
        return cls(level, streams, level[:0].T, level.astype(np.uint8), level[:, 0], np.ones(1), 1)

    def of_block(self, block: slice, scales: np.ndarray, n_swept: int) -> tuple[np.ndarray, ...]:
        """Return what kernels take of the ladders in a block of lanes, with counts of their own."""
        n_betas, room = len(self.betas), np.zeros(1 + len(self.betas), np.int64)
        room[0] = n_swept // self.swap_every % 2  # the parity of the next swaps
        own, counts = slice(block.start // n_betas, block.stop // n_betas), np.zeros_like(self.counts)
        return self.level[own], self.streams[own], counts, self.end[own], self.trips[own], self.betas, scales, room


class Samples:
    """Rows of samples, as `TemperedChains.record` has them: `states`, and of every level `energies` and `whole`."""

    def __init__(self, n_samples: int, n_ladders: int, n_betas: int, n_bytes: int, *, whole: bool) -> None:
        self.states = np.empty((n_samples, n_ladders, n_bytes), np.uint8)
        self.energies = np.empty((n_samples, n_ladders, n_betas))
        self.whole = np.empty((n_samples, n_ladders, n_betas, n_bytes), np.uint8) if whole else None
        self.trips = np.empty((n_samples, n_ladders), np.int64)
        self.counts = np.zeros((n_samples, 2, n_betas - 1), np.int64)
        self._adding = Lock()  # what threads add to

    def write(self, t: int, c: int, found: Found) -> None:
        """Write samples from number `t` on of ladders from `c` on; their counts are added to those of others."""
        packed, energies, told = found
        at, trips, counts = told[:, :-2, :-1], told[:, :-2, -1], told[:, -2:, :-2]  # replicas by their levels
        some, ladders, n_bytes = slice(t, t + len(at)), slice(c, c + at.shape[1]), self.states.shape[-1]
        rows = packed.reshape(-1, packed.shape[-1])
        self.energies[some, ladders], self.trips[some, ladders] = energies.ravel()[at], trips
        if self.whole is not None:
            self.whole[some, ladders] = rows[at][..., :n_bytes]
        self.states[some, ladders] = rows[at[..., -1]][..., :n_bytes]
        with self._adding:
            self.counts[some] += counts

    def rows(self, offset: np.ndarray) -> dict[str, np.ndarray]:
        """Return the rows of every stream. `offset` (n_ladders, 1) is added to `energies`: mutates them."""
        at_target = self.energies[..., -1].copy()
        self.energies += offset
        rows: dict[str, np.ndarray] = {
            "samples/states": self.states,
            "samples/energy": at_target,
            "tempering/energy": self.energies,
            "tempering/accepted": np.ascontiguousarray(self.counts[:, 1]),
            "tempering/attempted": np.ascontiguousarray(self.counts[:, 0]),
            "tempering/round_trips": self.trips,
        }
        return rows if self.whole is None else rows | {"ladder/states": self.whole}


class TemperingChains(CoolingChains):
    """Chains that may be replicas of ladders; a sweep of them must not be too long to be cut."""

    _scale: list[np.ndarray]  # of every lane of a block

    def tempers(self, n_sweeps: int) -> bool:
        """Return whether so many sweeps, with swaps, are done in few calls."""
        return self.cools

    def _prepare_swaps(self) -> None:
        """Make what energies need that swaps are decided by."""
        self._prepare_energies()

    def _temper_block(self, k: int, first: int, legs: np.ndarray, ladders: tuple[Any, ...]) -> Found:
        """Do what `legs` tell of block `k` from sweep `first` on, as kernels do it that take `ladders`.

        Mutates `ladders`; returns states, energies and what is told of samples, of which energies alone have a meaning
        where they are `MEASURED`.
        """
        raise NotImplementedError

    def temper(self, ladders: Ladders, n_sweeps: int, thin: int = 0, samples: Samples | None = None) -> None:
        """Do sweeps with the swaps that fall among them, and take a sample after every `thin` if there are to be any.

        Mutates all but `betas` of `ladders`, and `samples`.
        """
        self._prepare()
        self._prepare_swaps()
        if samples is not None:
            self._prepare_energies()
        self._since_check = [0] * len(self.blocks)
        scales, step = self._scales(ladders.betas), self._sweeps_of_piece(n_sweeps)
        step = step // thin * thin if 0 < thin < step else step
        begin, end = self.n_swept, self.n_swept + n_sweeps
        groups = [(first, min(first + step, end)) for first in range(begin, end, step)]
        legs_of = [_legs(first, stop, ladders.swap_every, begin, thin) for first, stop in groups]
        n_before = np.cumsum([0, *((legs[:, 2] > 0).sum() for legs in legs_of)])  # samples, before each of them
        if samples is not None:
            samples.counts[:] = ladders.counts

        own = [ladders.of_block(block, scales, begin) for block in self.blocks]

        def advance(first: int, last: int, k: int) -> None:
            for place in range(first, last):
                start, stop = groups[place]
                if self._must_stop(k, self.n_units * (stop - start)):
                    break
                found = self._temper_block(k, start, legs_of[place], own[k])
                if samples is not None and len(found[1]):
                    samples.write(n_before[place], self.blocks[k].start // len(ladders.betas), found)

        self._for_blocks(advance, n_sweeps, steps=len(groups))
        ladders.counts[:] += np.sum([counts for _, _, counts, *_ in own], axis=0)
        self.beta = ladders.betas[ladders.level].ravel()
        self.n_swept += n_sweeps

    def measure(self, n_before: int, n_sweeps: int, betas: np.ndarray | None = None) -> np.ndarray:
        """Do what `fastbm.sampling.ladder.measure` does, at each of `betas` if there are any.

        Each block goes its way without waiting for the others. Rows of one temperature come after those of another.
        """
        legs = np.tile(np.array([1, 0, MEASURED]), (n_before + n_sweeps, 1))
        legs[:n_before, 2] = 0
        return self._measure(legs, betas)

    def measure_now(self) -> np.ndarray:
        """Return what `quick_energies` does, by the kernel of `measure`, so that no other is compiled."""
        found: np.ndarray = self._measure(np.array([[0, 0, MEASURED]]))[0]
        return found

    def _measure(self, legs: np.ndarray, betas: np.ndarray | None = None) -> np.ndarray:
        """Do what `legs` of one sweep each, or one of none, tell, at each of `betas` or as temperatures are.

        Returns
        -------
        (n_measured, n_chains) array
            Energies of legs that are `MEASURED`.
        """
        self._prepare()
        self._prepare_swaps()
        self._since_check = [0] * len(self.blocks)
        alone, step = Ladders.of_single_chains(self.n_chains), self._longest_piece() // self.n_units
        times = 1 if betas is None else len(betas)
        energies = np.empty((times * int((legs[:, 2] == MEASURED).sum()), self.n_chains))
        n_sweeps, scales = int(legs[:, 0].sum()), None if betas is None else self._scales(betas)

        def advance(k: int) -> None:
            own, row = alone.of_block(self.blocks[k], self._scales(alone.betas), 0), 0
            for t, first in product(range(times), range(0, len(legs), step)):
                some = legs[first : first + step]
                if self._must_stop(k, self.n_units * len(some)):
                    return
                if scales is not None:
                    self._scale[k][: self.lanes.used(k)] = scales[t]
                found = self._temper_block(k, self.n_swept + t * n_sweeps + first, some, own)[1]
                energies[row : row + len(found), self.blocks[k]] = found
                row += len(found)

        try:
            self._for_blocks(advance, times * len(legs))
            if betas is not None:
                self.beta = np.full(self.n_chains, betas[-1])
        finally:
            if betas is not None:  # blocks that were left stand at some temperature
                self._rescale()
        self.n_swept += times * n_sweeps
        return energies

    def _room_of_samples(self, k: int, legs: np.ndarray, ladders: tuple[Any, ...]) -> Found:
        """Return room for the samples of block `k` that legs tell of."""
        n_samples, (n_ladders, n_betas), n_chains = int((legs[:, 2] > 0).sum()), ladders[0].shape, self.lanes.used(k)
        packed = np.empty((n_samples, n_chains, -(-self.n_units // 8)), np.uint8)
        return packed, np.empty((n_samples, n_chains)), np.empty((n_samples, n_ladders + 2, n_betas + 1), np.int64)


def _legs(first: int, end: int, every: int, start: int, thin: int) -> np.ndarray:
    """Return sweeps from `first` to `end` as kernels take them: (sweeps, whether to swap, whether to take a sample)."""
    marks = np.zeros((end - first, 2), np.bool_)  # after which sweeps
    last = np.arange(first + 1, end + 1) == end
    marks[every - 1 - first % every :: every, 0] = True
    if thin:
        marks[thin - 1 - (first - start) % thin :: thin, 1] = True
    ends = np.flatnonzero(marks[:, 0] | marks[:, 1] | last)
    legs = np.empty((len(ends), 3), np.int64)
    legs[0, 0], legs[1:, 0], legs[:, 1:] = ends[0] + 1, ends[1:] - ends[:-1], marks[ends]
    return legs
