"""Chains in the bits of words, on graphs of few neighbours with any couplings and biases."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ..._base import arrays
from ..._base.threads import fan_out, side_by_side
from ...kernels.patterns import SHUFFLE, WORDS, best_form, n_entries
from ...kernels.sampling.lookup import FEW, MANY, fill_thresholds, sweep_blocks, sweep_lookup
from ...kernels.words import energies_words, exchange_bits, room_for_rows, write_rows
from ...machine.couplings import Couplings
from ...machine.up_form import up_form
from .lanes import PIECE_SECONDS, SHORTEST_BLOCK, WORTH_A_THREAD
from .words import Kept, Unfit, WordChains, bits_of_lanes, check_words, exchanged, in_bytes

if TYPE_CHECKING:
    from .edges import EdgeNumbers

T = TypeVar("T")

MOST_NEIGHBOURS = MANY
TOGETHER = 1 << 18  # bytes of states whose energies are summed together, with the sums of edges read once
WORTH_A_MEETING, WORTH_A_TEAM = 4e-5, 5e-4  # seconds of work between two meetings of threads, and of their lives
LONG = 1 << 40  # rounds
ENTRY_SECONDS = 2e-9  # of a table of thresholds


def check_graph(couplings: Couplings, bias: np.ndarray) -> None:
    """Check that no unit has too many neighbours, and that chains share their biases.

    Raises
    ------
    Unfit
    """
    if len(np.atleast_2d(bias)) > 1:
        raise Unfit("chains have biases of their own")
    most = int(np.diff(couplings.csr()[0]).max(initial=0))
    if most > MOST_NEIGHBOURS:
        raise Unfit(f"a unit has {most} neighbours, more than {MOST_NEIGHBOURS}")


class LookupChains(WordChains):
    """Single-spin Gibbs or Metropolis updates of 128 chains at once; see `fastbm.kernels.sampling.lookup`.

    Streams belong to pairs of chains: row r of `streams` (n_chains / 2, 4) is of chains 2 r and 2 r + 1. To change the
    temperatures costs as much as some tens of sweeps.
    """

    kernel = "lookup"
    word_chains = 32
    n_words: ClassVar[int] = WORDS
    stream_chains = 2
    block_lanes = 32 * WORDS
    attempt_seconds = 2e-10
    _stream_groups = WORDS
    _spare = 1

    def _allocate(self) -> None:
        self._ups = arrays.zeros((len(self.blocks), self.n_units + self._spare, WORDS), np.uint32)
        self._streams = arrays.zeros((len(self.blocks), 4 * 16 * WORDS), np.uint32)
        self.up, self.lane_streams = list(self._ups), list(self._streams)
        self.count_flips_of(np.ones(self.n_chains, np.bool_))
        self._rooms: list[tuple[np.ndarray, ...]] = []  # room that was made before, of no thread

    def count_flips_of(self, chains: np.ndarray) -> None:
        """Count flips of some chains only, (n_chains,) bool."""
        self._counted = [bits_of_lanes(chains[block], WORDS) for block in self.blocks]

    def exchange(self, masks: np.ndarray) -> None:
        """Exchange states of chains that are n apart.

        Where bits of `masks` (n_chains / n - 1, n / 32) uint32 are set.
        """
        apart = masks.shape[1]
        for k, j in zip(*np.nonzero(masks), strict=True):
            one = int(k) * apart + int(j)
            (a, v), (b, w) = divmod(one, WORDS), divmod(one + apart, WORDS)
            exchange_bits(self.up[a], v, self.up[b], w, masks[k, j])
        self._forget()

    def _forget(self) -> None:
        self._told: tuple[int, np.ndarray] | None = None  # after how many sweeps lanes had which sums of edges

    def _couple(self) -> None:
        check_graph(self.couplings, self.bias)
        form, fields = up_form(self.couplings, self.bias, self.units)
        indptr, indices, rises = form.csr()
        degrees = np.diff(indptr)
        most = int(degrees.max(initial=0))
        self._many = True if most > FEW else None
        shape = (self.n_units, MANY if self._many else FEW)
        neighbours, near = np.full(shape, self.n_units, np.int32), np.zeros(shape)
        rows = np.repeat(np.arange(self.n_units), degrees)
        columns = np.arange(len(indices)) - np.repeat(indptr[:-1], degrees)
        neighbours[rows, columns], near[rows, columns] = indices, rises
        self._graph = (neighbours, near, np.ascontiguousarray(fields[0], np.float64))
        self._set_edges()
        self._numbers: EdgeNumbers | None = None
        self._rooms.clear()
        self._forget()
        self._rescale()
        self.detail = {
            "kernel": self.kernel,
            "fields": "probabilities of 64 bits, from sums in float64",
            "largest log-odds error": 0.0,
        }

    def _set_edges(self) -> None:
        """Write the energy as a constant, and numbers added where units are unlike, or both up."""
        indptr, indices, values = self.couplings.csr()
        rows = np.repeat(np.arange(self.n_units, dtype=np.int32), np.diff(indptr))
        once = rows < indices
        edges, weights = np.stack([rows[once], indices[once]], axis=1), values[once]
        units = np.flatnonzero(self.bias[0]).astype(np.int32)
        ends, bias = np.stack([units, np.full_like(units, self.n_units)], axis=1), self.bias[0, units]
        binary = self.units.lo == 0
        self._constant = 0.0 if binary else float(bias.sum() - weights.sum())
        unlike = (-weights, -bias) if binary else (2.0 * weights, -2.0 * bias)
        self._energy = (np.ascontiguousarray(edges), unlike[0], np.ascontiguousarray(ends), unlike[1], binary)

    def _rescale(self) -> None:
        check_words(self.beta, 0, self.word_chains)
        if (self.beta == self.beta[0]).all():
            self._betas = [self.beta[:1]] * len(self.blocks)
        else:
            self._betas = [self._of_words(block) for block in self.blocks]
            if all((betas == betas[0]).all() for betas in self._betas):
                self._betas = [betas[:1] for betas in self._betas]
        keys = [tuple(betas.tolist()) for betas in self._betas]
        kinds = list(dict.fromkeys(keys))
        self._made = self._make_tables(kinds)
        self._which = np.array([kinds.index(key) for key in keys])
        self._tables = [self._made[which] for which in self._which]

    def _of_words(self, block: slice) -> np.ndarray:
        betas = self.beta[block][::32]
        return np.concatenate([betas, np.repeat(betas[-1:], WORDS - len(betas))])

    @property
    def _keep(self) -> float:
        """The part of proposals that are not dropped, -1 by Gibbs."""
        return -1.0 if self._hold is None else 1.0 - float(self._hold) / 2.0**32

    def _make_tables(self, kinds: list[tuple[float, ...]]) -> np.ndarray:
        """Return the thresholds' first bits, as the processor looks them up, for all temperatures of blocks."""
        own = self._hold is not None
        _, near, fields = self._graph
        shape = (len(kinds), self.n_units, len(kinds[0]), n_entries(near.shape[1] + own))
        tables = arrays.zeros(shape, np.uint16)

        n_parts = 1 if len(kinds) >= self.threads else min(self.threads, self.n_units)  # of the units, none empty
        ends = [k * self.n_units // n_parts for k in range(n_parts + 1)]

        def make(job: int) -> None:
            k, part = divmod(job, n_parts)
            some = slice(ends[part], ends[part + 1])
            fill_thresholds(near[some], fields[some], np.array(kinds[k]), self._keep, own, tables[k, some])
            if best_form() == SHUFFLE:
                tables[k, some] = in_bytes(tables[k, some])

        n_jobs = n_parts * len(kinds)
        worth = tables.size * ENTRY_SECONDS >= max(WORTH_A_THREAD, SHORTEST_BLOCK * n_jobs)
        fan_out(make, range(n_jobs), self.threads if worth else 1)
        return tables

    def sweep(self, n_sweeps: int) -> None:
        """Advance every chain by `n_sweeps` sweeps: where blocks are short, those of a thread in one call."""
        n_threads = self._n_threads(n_sweeps)
        if n_threads == len(self.blocks) or self._seconds(n_sweeps) > PIECE_SECONDS:
            super().sweep(n_sweeps)
            return
        self._prepare()
        rows, model, chains = self._rows_of(self.n_swept, n_sweeps), self._model(), self._chains()

        def sweep(first: int, end: int) -> int:
            return int(sweep_blocks(self._ups, model, chains, rows, n_sweeps, (self._many, self._own), first, end))

        self._flips[0] += sum(self._for_shards(sweep, n_threads))
        self.n_swept += n_sweeps

    def _for_shards(self, function: Callable[[int, int], T], n_threads: int) -> list[T]:
        """Apply `function` to the first block and the one after the last of what each thread has."""
        ends = [k * len(self.blocks) // n_threads for k in range(n_threads + 1)]
        return fan_out(lambda ends_of_one: function(*ends_of_one), list(pairwise(ends)), n_threads)

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        what, ways = (*self._model_of(k), self._chains_of(k)), (self._many, self._own)
        for rows, count in self._pieces(k, first, n_sweeps):
            self._flips[k] += sweep_lookup(self.up[k], *what, (rows, count, 0, 1), ways, self._ups)

    def _model(self) -> tuple[np.ndarray, ...]:
        return (*self._graph, np.array(self._counted), self._made, self._which)

    def _chains(self) -> tuple[np.ndarray, float, np.ndarray]:
        return np.array(self._betas), self._keep, self._streams.reshape(-1, WORDS, 4, 16)

    def _model_of(self, k: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        return (*self._graph, self._counted[k]), self._tables[k]

    def _chains_of(self, k: int) -> tuple[np.ndarray, float, np.ndarray]:
        return self._betas[k], self._keep, self.lane_streams[k].reshape(WORDS, 4, 16)

    @property
    def _own(self) -> bool | None:
        """True where thresholds depend on the unit's own bit."""
        return None if self._hold is None else True

    def temper(
        self, thin: int, n_rounds: int, parity: int, ladders: tuple[Any, ...], between: int = 0, n_kept: int = 0
    ) -> Kept | None:
        """Do `n_rounds` times `thin` sweeps, and swap levels after each, in one call; return None if it cannot be done.

        `ladders` is as `fastbm.kernels.sampling.temper_lookup` takes them, with the counts of all threads together.
        After every `between` rounds, if this is not 0, a sample is kept, with the states of the last `n_kept` blocks.
        """
        from ...kernels.barrier import let_through
        from ...kernels.sampling.temper_lookup import temper_lookup

        self._prepare_energies()
        numbers = self._numbers
        assert numbers is not None
        if not numbers.exact:
            return None
        model, chains = self._model(), self._chains()
        visits = (self._rows_of(self.n_swept, n_rounds * thin), thin, n_rounds, parity)
        edges = (*numbers.of_samples, self._energy, numbers.margin)
        ways = ((self._many, self._own), numbers.many_digits)
        n_threads = self._team(thin, n_rounds)
        counter = np.zeros(1 + n_threads, np.int64)
        level, streams, counts, *others = ladders
        flips, of_threads = [0] * n_threads, np.zeros((n_threads, *counts.shape), np.int64)
        sums = np.empty((len(self.blocks), 32 * WORDS))
        n_pairs, n_words = level.shape[1] - 1, len(level) // 32
        marks = np.zeros((n_threads * n_pairs, n_words), np.uint32)
        n_samples = n_rounds // between if between else 0
        kept = (
            np.empty((n_samples, n_kept, *self.up[0].shape), np.uint32), np.empty((n_samples, *sums.shape)),
            np.empty((n_samples, n_pairs, n_words), np.uint32), np.zeros((n_samples, *of_threads.shape), np.int64),
            np.empty((n_samples, len(level)), np.int64),
        )  # fmt: skip
        samples = between or n_rounds + 1, kept

        def one(shard: int, n_shards: int) -> None:
            mine = level, streams, of_threads, *others
            team = sums, marks, numbers.room(len(self.blocks)), counter, shard, n_shards
            flips[shard] = temper_lookup(self._ups, model, chains, visits, ways, edges, mine, team, samples)

        side_by_side(one, n_threads, lambda: let_through(counter))
        before = counts.copy()
        counts += of_threads.sum(axis=0)
        self._flips[0] += sum(flips)
        self.n_swept += n_rounds * thin
        marked = np.bitwise_or.reduce(marks.reshape(n_threads, n_pairs, n_words))
        self._told = self.n_swept, exchanged(sums.ravel(), marked)
        energies = numbers.energies_of(exchanged(kept[1].reshape(n_samples, sums.size), kept[2]))
        return Kept(kept[0], energies, before + kept[3].sum(axis=1), kept[4])

    def rows_of(self, states: np.ndarray) -> np.ndarray:
        """Return the packed states of all lanes of some blocks, (blocks, n_units + 1, words)."""
        rows = np.empty((len(states), 32 * WORDS, -(-self.n_units // 8)), np.uint8)
        room = room_for_rows()
        for words, own in zip(states, rows, strict=True):
            write_rows(words[: self.n_units], own, False, room)
        return rows.reshape(-1, rows.shape[2])

    def _team(self, thin: int, n_rounds: int) -> int:
        """Return how many threads are worth starting for so many rounds, and the meetings in each."""
        worth = self._seconds(thin) >= WORTH_A_MEETING and self._seconds(thin * n_rounds) >= WORTH_A_TEAM
        return min(self.threads, len(self.blocks)) if worth else 1

    def most_rounds(self, n_sweeps: int) -> int:
        """Return how many times so many sweeps may be done in one call of `temper`."""
        n_blocks = -(-len(self.blocks) // self._team(n_sweeps, LONG))
        return int(self._longest_piece() // (self.n_units * n_sweeps * n_blocks))

    def _record_group(self, k: int, sites: np.ndarray, thin: int, packed: np.ndarray, energies: np.ndarray) -> None:
        from ...kernels.sampling.record_lookup import record_lookup

        assert self._numbers is not None
        block, numbers, room = self.blocks[k], self._numbers, self._room_of_records()
        side = 32 * WORDS // self._in_words(k) if len(self.blocks) == 1 else 1
        visits, ways = (sites, thin, side, block.start, block.stop), ((self._many, self._own), numbers.many_digits)
        model, chains, found = self._model_of(k), self._chains_of(k), (packed.reshape(-1, packed.shape[2]), energies)
        self._flips[k] += record_lookup(self.up[k], model, chains, visits, ways, numbers.of_samples, room, found)
        self._rooms.append(room)

    def _room_of_records(self) -> tuple[np.ndarray, ...]:
        """Return room for some states of a block, sums of edges in them, and the rows of one."""
        from ...kernels.sampling.record_words import room_of_states

        assert self._numbers is not None
        with suppress(IndexError):
            return self._rooms.pop()
        n_states = max(1, TOGETHER // self.up[0].nbytes)
        return room_of_states(n_states, self.n_units, self._numbers.room(n_states))

    def _prepare_energies(self) -> None:
        from .edges import numbers_of  # many runs need none

        if self._numbers is None:
            self._numbers = numbers_of(self.couplings, self.bias[0], binary=self.units.lo == 0)
            self._in_groups = self._numbers.exact

    def energies(self) -> np.ndarray:
        """Return energies without offset, (n_chains,): those that swaps were decided by, or summed anew."""
        self._prepare_energies()
        assert self._numbers is not None
        if (sums := self._known_sums()) is None:
            if not self._numbers.exact or self._seconds(1) > PIECE_SECONDS:
                return super().energies()
            sums = self._sums()
        return self._numbers.energies_of(sums)[: self.n_chains]

    def _known_sums(self) -> np.ndarray | None:
        """Return sums of edges of all lanes that are those of the states, if there are any."""
        return self._told[1] if self._told is not None and self._told[0] == self.n_swept else None

    def _sums(self) -> np.ndarray:
        """Sum edges of all lanes, those of a thread in one call."""
        assert self._numbers is not None
        numbers, sums = self._numbers, np.empty((len(self.blocks), 32 * WORDS))
        self._for_shards(lambda first, end: numbers.sum(self._ups[first:end], sums[first:end]), self._n_threads(1))
        return sums.ravel()

    def _energies_block(self, k: int) -> np.ndarray:
        assert self._numbers is not None
        if not self._numbers.exact:
            return self._summed(k)
        return self._numbers.energies(self.up[k])[: self.lanes.used(k)]

    def _summed(self, k: int) -> np.ndarray:
        """Sum energies of block `k` coupling by coupling, in float64."""
        return self._summed_in(self.up[k])[: self.lanes.used(k)]

    def _summed_in(self, up: np.ndarray) -> np.ndarray:
        energies = np.full(32 * WORDS, self._constant)
        energies_words(up, *self._energy, energies)
        return energies

    def quick_energies(self) -> np.ndarray:
        """Return energies without offset, (n_chains,), summed coupling by coupling."""
        return np.concatenate(self._for_blocks(self._summed, 1))

    def measure(self, n_before: int, n_sweeps: int) -> np.ndarray:
        """Do what `fastbm.sampling.ladder.measure` does, many sweeps in one call."""
        if n_before:
            self.sweep(n_before)
        found, ways = np.empty((n_sweeps, self.n_chains)), (self._many, self._own)

        def advance(k: int) -> None:
            words, used = self.up[k], self.lanes.used(k)
            step = max(1, min(TOGETHER // words.nbytes, self._longest_piece() // self.n_units))
            states = np.empty((min(step, n_sweeps), *words.shape), np.uint32)
            for first in range(0, n_sweeps, step):
                own = found[first : first + step, self.blocks[k]]
                if self._must_stop(k, self.n_units * len(own)):
                    break
                visits = self._rows_of(self.n_swept + first, len(own)), len(own), 1, 1
                what = (*self._model_of(k), self._chains_of(k))
                self._flips[k] += sweep_lookup(self.up[k], *what, visits, ways, states)
                for energies, up in zip(own, states, strict=False):
                    energies[:] = self._summed_in(up)[:used]

        self._for_blocks(advance, n_sweeps)
        self.n_swept += n_sweeps
        return found

    def state(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on, bit for bit.

        Raises
        ------
        RuntimeError
            If energies have come apart from the states.
        """
        if self._numbers is not None and self._numbers.exact:
            sums, used = self._known_sums(), self.lanes.used(0)
            kept = self._energies_block(0) if sums is None else self._numbers.energies_of(sums)[:used]
            self._numbers.check(kept, self._summed(0))
        return super().state()
