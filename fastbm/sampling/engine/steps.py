"""Steps of a population of replicas as bits: resampling, sweeps and energies of all blocks in one call a thread.

Threads that are together do nothing but wait for each other between two steps, which takes no waking: a step of few
replicas is over sooner than a thread wakes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..._base.threads import side_by_side
from ...kernels.barrier import let_through
from ...kernels.sampling.multispin import LEVELS, WORDS
from ...kernels.sampling.resampling import resample_multispin
from ...kernels.words import room_for_rows

T = TypeVar("T")
OPEN = 1 << 61  # what a barrier's counter does not reach
NO_LADDERS: tuple[np.ndarray, ...] = (
    np.empty(0), np.empty(0), np.empty((0, 0), np.uint8), np.empty(0, np.int64), np.empty(0, np.int64),
    np.empty((0, 0, 0), np.uint32), np.empty((0, 0), np.int64),
)  # fmt: skip


class Steps:
    """What steps go on with; the arguments but for the room that they need are those of `resample_multispin`.

    `model` is without the numbers of temperatures, which every step is given.

    Attributes
    ----------
    n_swept : int
        Sweeps that had been done when the last step ended, with the states of which `rows` are.
    n_threads : int
        Threads that are together.
    totals : (n_blocks, 512) int64 array
        Unsatisfied couplings of all replicas after the last step.
    """

    def __init__(self, chains: tuple[Any, ...], rows: np.ndarray, visits: tuple[Any, ...], model: tuple[Any, ...]):
        n_blocks, n_chains = len(chains[0]), rows.shape[1]
        graph, edges, signs = model
        self._numbers = np.zeros((n_blocks, 2, LEVELS, WORDS), np.uint64)
        self._chains, self._rows, self._visits, self._model = chains, rows, visits, (graph, self._numbers, edges, signs)
        self._parents, self._orders = np.arange(n_chains), np.zeros(5, np.int64)
        self.totals = np.empty((n_blocks, 32 * WORDS), np.int64)
        self._counter, self._n_met, self.n_threads = np.zeros(2, np.int64), 0, 1
        self._flips, self._rooms = np.zeros(1, np.int64), [room_for_rows()]
        self._a, self.n_swept, self._ladders = 0, -1, NO_LADDERS

    @property
    def present(self) -> np.ndarray:
        """The bits of all replicas as they are, to be written where sweeps were done that are no steps."""
        found: np.ndarray = self._rows[self._a]
        return found

    def together(self, work: Callable[[], T], n_threads: int) -> T:
        """Do work, the steps of which are shared by so many threads."""
        if n_threads == 1:
            return work()
        found: list[T] = []
        self._counter, self._n_met, self._flips = np.zeros(1 + n_threads, np.int64), 0, np.zeros(n_threads, np.int64)
        self._rooms = [room_for_rows() for _ in range(n_threads)]

        def one(shard: int, n_shards: int) -> None:
            if shard:
                self._run(shard, n_shards)
                return
            self.n_threads = n_shards
            try:
                found.append(work())
                self._order(-1, 0, 0)
            finally:
                self.n_threads = 1

        side_by_side(one, n_threads, self._give_up)
        return found[0]

    def _give_up(self) -> None:
        self._orders[0] = -1
        let_through(self._counter)

    def _run(self, shard: int, n_threads: int) -> int:
        team = self._counter, self._n_met, shard, n_threads
        what = self._chains, (self._rows, self._rooms[shard]), self._parents, self._visits, self._model
        n_met: int = resample_multispin(*what, (self.totals, self._flips), self._ladders, self._orders, team)
        return n_met

    def begin(self, parents: np.ndarray, numbers: np.ndarray) -> None:
        """Begin a step with the parents of all replicas, and the numbers of their temperatures."""
        self._parents[:], self._numbers[:] = parents, numbers

    def take(self, n_sweeps: int, first: int, last: int) -> None:
        """Take the step of blocks from `first` on, before `last`."""
        self._order(n_sweeps, first, last)

    def climb(self, numbers: np.ndarray, ladders: tuple[np.ndarray, ...], n_swaps: int) -> None:
        """Take so many steps of a sweep of all blocks, each with swaps after it, as `swap_levels` takes `ladders`.

        The first begins with the parents that the last of the steps before has left.
        """
        self._numbers[:], self._ladders = numbers, ladders
        try:
            self._order(1, 0, len(self.totals), n_swaps)
        finally:
            self._ladders = NO_LADDERS
        self._a = 1 - int(self._orders[1])  # as `end` has it

    def _order(self, n_sweeps: int, first: int, last: int, n_swaps: int = 0) -> None:
        """Have all threads take a step, or several with swaps, or leave if there are -1 sweeps."""
        self._orders[:] = n_sweeps, self._a, first, last, n_swaps
        self._n_met = self._run(0, self.n_threads)
        if self._counter[0] > OPEN:
            raise RuntimeError("a thread that took part in the steps of a population has failed.")

    def end(self, n_swept: int) -> int:
        """End a step after so many sweeps; return the flips in it."""
        self._a, self.n_swept = 1 - self._a, n_swept
        n_flips: int = sum(self._flips.tolist())
        self._flips[:] = 0
        return n_flips
