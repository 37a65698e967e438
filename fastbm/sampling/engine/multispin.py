"""Chains in the bits of words: couplings of one magnitude on a graph of few neighbours, no field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..._base import arrays
from ..._base.halting import Halted
from ...kernels.sampling.lookup import LARGEST
from ...kernels.sampling.multispin import (
    FIRST,
    LEVELS,
    WORDS,
    count_unsatisfied,
    sweep_multispin,
)
from ...machine.couplings import Couplings
from ...machine.units import Units
from .temperatures import CoolingChains
from .words import Unfit, WordChains, check_words

if TYPE_CHECKING:
    from .steps import Steps

REPLICAS = 32 * WORDS  # chains of a block
MOST_NEIGHBOURS = 7
ONE_ROW = ("sequential", "coloured")  # orders in which all sweeps visit units alike
T = TypeVar("T")
_PLACES = np.arange(63, 63 - FIRST, -1).astype(np.uint64)[:, None, None]  # of the first random bits
_PULLS = 2 * np.arange(LEVELS)[:, None] + np.arange(2)[:, None, None]  # couplings that have their way, at every level
WORTH_A_MEETING = 4e-5  # seconds of work between two meetings of threads, which in between do nothing else
EXACT = 1e-14  # a field below this part of the couplings is rounding


def unit_coupling(couplings: Couplings, bias: np.ndarray, units: Units) -> tuple[float, np.ndarray]:
    """Return the magnitude of the couplings in spins, and how many of it each entry of `csr` is.

    Raises
    ------
    Unfit
        If there is a field, or couplings are not whole multiples of one magnitude, or a unit has too many neighbours.
    """
    indptr, _, values = couplings.csr()
    spin_values = values / 4.0 if units.lo == 0 else values
    pull = couplings.field(np.ones((1, couplings.n_units)))[0]
    spin_bias = bias / 2.0 + pull / 4.0 if units.lo == 0 else bias
    size = float(np.abs(spin_values).max(initial=0.0))
    if np.abs(spin_bias).max(initial=0.0) > EXACT * size:
        raise Unfit("the machine has biases (of spins)")
    if not size:
        raise Unfit("the machine has no couplings")
    magnitude = float(np.abs(spin_values).min())
    many = size > MOST_NEIGHBOURS * magnitude
    multiples = np.zeros(0) if many else np.rint(np.abs(spin_values) / magnitude).astype(np.int64)
    if many or not np.array_equal(multiples * magnitude, np.abs(spin_values)):
        raise Unfit(f"couplings have several magnitudes, from {magnitude:g} to {size:g}")
    most = int(np.add.reduceat(multiples, indptr[:-1][np.diff(indptr) > 0]).max())
    if most > MOST_NEIGHBOURS:
        raise Unfit(f"a unit has {most} neighbours, more than {MOST_NEIGHBOURS}")
    return magnitude, multiples


def check_whole(n_chains: int) -> None:
    """Check that chains fill their words.

    Raises
    ------
    Unfit
    """
    size = MultispinChains.word_chains
    if n_chains % size:
        raise Unfit(f"chains come in words of {size}; n_chains is {n_chains}")


def _tables_of(numbers: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what `sweep_multispin` takes of a block's thresholds, (2, LEVELS, WORDS), or 1 that all words have."""
    thresholds = arrays.zeros((2, LEVELS * WORDS), np.uint64)
    thresholds.reshape(2, LEVELS, WORDS)[:] = numbers
    tables = arrays.zeros((2, FIRST * LEVELS * WORDS), np.uint32)
    ones = (numbers[:, None] >> _PLACES) & np.uint64(1)
    tables.reshape(2, FIRST, LEVELS, WORDS)[:] = np.negative(ones.astype(np.uint32))
    return tables[0], thresholds[0], tables[1], thresholds[1]


class MultispinChains(CoolingChains, WordChains):
    """Single-spin Gibbs or Metropolis updates of 512 replicas at once; see `fastbm.kernels.sampling.multispin`.

    Streams belong to half words of 32 chains: row w of `streams` (n_chains / 32, 4) is of chains 32 w to 32 w + 31.
    """

    kernel = "multispin"
    word_chains = 64
    n_words = WORDS
    stream_chains = 32
    block_lanes = REPLICAS
    attempt_seconds = 1.2e-10

    def _allocate(self) -> None:
        n_blocks = len(self.blocks)
        self._ups = arrays.zeros((n_blocks, self.n_units, WORDS), np.uint32)
        self._streams = arrays.zeros((n_blocks, 4 * WORDS), np.uint32)
        self.up, self.lane_streams = list(self._ups), list(self._streams)

    def _couple(self) -> None:
        self._forget()
        self._magnitude, multiples = unit_coupling(self.couplings, self.bias, self.units)
        indptr, indices, values = self.couplings.csr()
        starts = np.concatenate([[0], np.cumsum(multiples)])
        signs = np.where(values < 0, np.uint32(0xFFFFFFFF), np.uint32(0)).astype(np.uint32)
        self._graph = (starts[indptr], np.repeat(indices, multiples), np.repeat(signs, multiples))
        rows = np.repeat(np.arange(self.n_units, dtype=np.int32), np.diff(indptr))
        once = np.repeat(rows < indices, multiples)
        edges = np.stack([np.repeat(rows, multiples)[once], self._graph[1][once]], axis=1)
        self._edges, self._edge_signs = np.ascontiguousarray(edges), np.ascontiguousarray(self._graph[2][once])
        self._ground = self._energy_with_all_satisfied()
        self._rescale()
        self.detail = {
            "kernel": self.kernel,
            "fields": f"counts of couplings of {self._magnitude:g} (in spins)",
            "largest log-odds error": 0.0,
        }

    def _energy_with_all_satisfied(self) -> float:
        """Return the energy with every bond satisfied, without the machine's offset: -sum |J| for spins."""
        lo = float(self.units.lo)
        values = self.couplings.csr()[2]
        if lo:
            return -0.5 * float(np.abs(values).sum())
        # binary: all units down have energy 0, and as many unsatisfied couplings as are negative
        return -2.0 * self._magnitude * float((self._edge_signs > 0).sum())

    def _rescale(self) -> None:
        check_words(self.beta, 0, self.word_chains)
        self._tables: list[tuple[np.ndarray, ...]] = []  # made where they are needed: steps of populations do not
        self._numbers: np.ndarray | None = None

    def _prepare(self) -> None:
        if not self._tables:
            found = [_tables_of(numbers) for numbers in self._numbers_of_words()]
            self._tables = found if len(found) > 1 else found * len(self.blocks)

    def _numbers_of_words(self) -> np.ndarray:
        """Return the thresholds of all words of every block, (blocks or 1, 2, LEVELS, WORDS or 1)."""
        if self._numbers is None:
            if (self.beta == self.beta[0]).all():
                self._numbers = self._thresholds(self.beta[:1])[None]
            else:
                betas = np.zeros(len(self.blocks) * WORDS)
                betas[: self.n_chains // 32] = self.beta[::32]
                self._numbers = self._thresholds(betas).reshape(2, LEVELS, -1, WORDS).transpose(2, 0, 1, 3)
        return self._numbers

    def _thresholds(self, beta: np.ndarray) -> np.ndarray:
        """Return 2^64 times the probability of a move against an even or odd number of neighbours, at every level.

        They are (2, LEVELS, len(beta)).
        """
        favour = np.exp(beta * (self._magnitude * (-2.0 * _PULLS)))
        scaled = 2.0**64 * (favour if self.rule == "metropolis" else favour / (1.0 + favour))
        found: np.ndarray = np.minimum(scaled, LARGEST).astype(np.uint64)
        return found

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        used, hold = self.lanes.used(k) // 32, self._held
        for rows, count in self._pieces(k, first, n_sweeps):
            what = self.up[k], self._graph, self._tables[k], self.lane_streams[k], rows
            self._flips[k] += sweep_multispin(*what, 0, count * rows.shape[1], hold, used)

    @property
    def _held(self) -> bool | None:
        """Whether one flip in 16 is dropped, None by Gibbs."""
        return self.order == "random" if self.rule == "metropolis" else None

    def cool(self, betas: np.ndarray, told: Sequence[int] = ()) -> np.ndarray:
        """Do a sweep at each of `betas`: see `fastbm.sampling.engine.temperatures.cool`."""
        energies = super().cool(betas, told)
        self._rescale()
        return energies

    def _scales(self, betas: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self._thresholds(betas).transpose(2, 0, 1))[..., None]

    def _cool_block(self, k: int, sites: np.ndarray, scales: np.ndarray) -> int:
        from ...kernels.sampling.cooling import cool_multispin  # few chains are cooled

        n, streams, n_words = LEVELS * WORDS, self.lane_streams[k], self.lanes.used(k) // 32
        room = arrays.zeros((2, FIRST * n), np.uint32), arrays.zeros((2, n), np.uint64)
        return int(cool_multispin(self.up[k], self._graph, scales, streams, sites, self._held, n_words, room))

    def _forget(self) -> None:
        self._steps: Steps | None = None

    def _fits(self, n_sweeps: int) -> bool:
        """Return whether all sweeps of a block are soon done in one call."""
        return self.n_units * n_sweeps <= self._longest_piece() and self.order in ONE_ROW

    def together(self, work: Callable[[], T], n_sweeps: int) -> T:
        """Do work that calls `resample` again and again, with the same threads in all calls."""
        if not self._fits(n_sweeps):
            return work()
        worth = self._seconds(n_sweeps) >= WORTH_A_MEETING
        return self._known_steps().together(work, min(self.threads, len(self.blocks)) if worth else 1)

    def _known_steps(self) -> Steps:
        """Return what steps go on with, from the present states."""
        if self._steps is None:
            from .steps import Steps  # most chains take none

            hold = False if self.rule == "metropolis" else None
            model = self._graph, self._edges, self._edge_signs
            room = np.stack([self._whole_rows()] * 2)
            self._steps = Steps((self._ups, self._streams), room, (self._rows_of(0, 1), hold), model)
        if self._steps.n_swept != self.n_swept:
            rows = self._steps.present
            for block, up in zip(self.blocks, self.up, strict=True):
                bits = np.unpackbits(up.astype("<u4", copy=False).view(np.uint8), axis=1, bitorder="little")
                packed = np.zeros((REPLICAS, 4 * rows.shape[1]), np.uint8)
                packed[:, : -(-self.n_units // 8)] = np.packbits(bits.T, axis=1, bitorder="little")
                rows[block] = packed[: block.stop - block.start].view("<u4")
            self._steps.n_swept = self.n_swept
        return self._steps

    def _pack_block(self, k: int, packed: np.ndarray) -> None:
        if self._steps is None or self._steps.n_swept != self.n_swept:
            super()._pack_block(k, packed)
        else:
            rows = self._steps.present[self.blocks[k]]
            packed[:] = rows.astype("<u4", copy=False).view(np.uint8)[:, : packed.shape[1]]

    def resample(self, parents: np.ndarray | None, n_sweeps: int) -> np.ndarray:
        """Give chain c the state of chain parents[c], if there are any, and sweep; return the energies then."""
        if not self._fits(n_sweeps):
            return super().resample(parents, n_sweeps)
        steps = self._known_steps()
        steps.begin(np.arange(self.n_chains) if parents is None else parents, self._numbers_of_words())
        longest = steps.n_threads * max(1, self._longest_piece() // (self.n_units * max(1, n_sweeps)))
        for first in range(0, len(self.blocks), longest):
            if first and self._stopped():
                self._broken = False
                raise Halted
            steps.take(n_sweeps, first, min(first + longest, len(self.blocks)))
        self._flips[0] += steps.end(self.n_swept + n_sweeps)
        self.n_swept += n_sweeps
        return self.energies_of(steps.totals.ravel()[: self.n_chains])

    def climb(self, ladders: tuple[np.ndarray, ...], n_swaps: int) -> None:
        """Sweep, and try to swap neighbouring levels of `ladders`, so many times: as `swap_levels` takes them.

        A call for all sweeps is not left before its end.
        """
        steps = self._known_steps()
        steps.climb(self._numbers_of_words(), ladders, n_swaps)
        self._flips[0] += steps.end(self.n_swept + n_swaps)
        self.n_swept += n_swaps

    def _energies_block(self, k: int) -> np.ndarray:
        totals = np.empty(REPLICAS, np.int64)
        count_unsatisfied(self.up[k], self._edges, self._edge_signs, totals)
        return self.energies_of(totals[: self.lanes.used(k)])

    @property
    def energy_step(self) -> float:
        """What an unsatisfied coupling adds to an energy."""
        return 2.0 * self._magnitude

    @property
    def row_words(self) -> int:
        """Words of a row of whole squares, which holds the bits of a chain."""
        return int(self._whole_rows().shape[1])

    def energies_of(self, unsatisfied: np.ndarray) -> np.ndarray:
        """Return energies, without offset, of chains with so many unsatisfied couplings."""
        found: np.ndarray = self._ground + self.energy_step * unsatisfied
        return found
