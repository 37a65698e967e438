"""Chains in lanes: cut into blocks, each chain in a lane of its own with a stream of random numbers of its own.

Blocks are dealt to threads, and their work is cut into pieces between which a stop may come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd
from typing import Any, TypeVar

import numpy as np

from ..._base import arrays
from ..._base.halting import Halted
from ..._base.threads import fan_out, take_turns

LANES = 16  # chains in one vector
BLOCK = 64  # most chains that share one pass over the couplings: beyond it fields and states leave the cache
WORTH_A_THREAD = 4e-4  # seconds of work below which handing blocks to threads costs more than it saves
SHORTEST_BLOCK = 5e-5  # seconds of a block below which threads wait for each other's Python
PIECE_SECONDS = 0.01  # work between two looks for a stop, by a guess that may be wrong by a factor of five

T = TypeVar("T")


def lanes_of(n_chains: int, step: int = LANES) -> int:
    """Round a number of chains up to whole vectors of `step` lanes."""
    return -(-n_chains // step) * step


def whole_groups(size: int, n_chains: int, together: int, threads: int) -> int:
    """Return about `size` chains of a block, so many of them together.

    As few lanes are idle as can be, and threads have a block each if there are as many groups.
    """
    most = -(-n_chains // (together * threads))
    sizes = [together * min(most, max(1, n_groups)) for n_groups in (size // together, size // together + 1)]
    return min(sizes, key=lambda size: -(-n_chains // size) * lanes_of(size))


class Lanes:
    """The lanes of `n_chains` chains, in blocks of `size`; those of a block come in multiples of `step`.

    What lies in lanes beyond the chains has no meaning.

    Attributes
    ----------
    blocks : list of slice
        The chains of each block.
    widths : list of int
        The lanes of each block.
    streams : list of (4, width) uint32 arrays
        Their random streams.
    """

    def __init__(self, n_chains: int, size: int, step: int = LANES) -> None:
        self.blocks = [slice(start, min(start + size, n_chains)) for start in range(0, n_chains, size)]
        self.widths = [lanes_of(block.stop - block.start, step) for block in self.blocks]
        self.streams = self.room(4, np.uint32)
        for stream in self.streams:
            stream[:] = 1  # the state 0 would stay 0

    def used(self, k: int) -> int:
        """Return the number of chains of block `k`."""
        return self.blocks[k].stop - self.blocks[k].start

    def room(self, n_rows: int, dtype: Any) -> list[np.ndarray]:
        """Return zeros for every lane, (n_rows, width) a block."""
        return [arrays.zeros((n_rows, width), dtype) for width in self.widths]

    def write(self, k: int, lanes: np.ndarray, rows: np.ndarray) -> None:
        """Write rows of the chains of block `k` to its lanes: (chains, m) to (m, width), or (chains,) to (width,)."""
        lanes[..., : self.used(k)] = rows.T

    def spread(self, k: int, rows: np.ndarray) -> np.ndarray:
        """Return columns for block `k` of rows (1, m) for all chains alike, or (n_chains, m)."""
        if len(rows) == 1:
            return np.ascontiguousarray(rows.T)
        lanes = arrays.zeros((rows.shape[1], self.widths[k]), rows.dtype)
        self.write(k, lanes, rows[self.blocks[k]])
        return lanes

    def gather(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return rows of all chains, (n_chains, m) or (n_chains,), from the lanes of every block."""
        return np.concatenate([lanes[..., : self.used(k)].T for k, lanes in enumerate(parts)])

    def part(self, k: int, samples: np.ndarray) -> np.ndarray:
        """Return room for what is of block `k` in samples (n, n_chains, ...): these themselves where it has all."""
        if len(self.blocks) == 1:
            return samples
        return np.empty((len(samples), self.used(k), *samples.shape[2:]), samples.dtype)

    def put(self, k: int, samples: np.ndarray, part: np.ndarray) -> None:
        """Write what `part` returned and was written since. Mutates `samples`."""
        if part is not samples:
            samples[:, self.blocks[k]] = part

    def set_streams(self, rows: np.ndarray) -> None:
        """Set the streams of all chains, (n_chains, 4)."""
        for k, stream in enumerate(self.streams):
            self.write(k, stream, rows[self.blocks[k]])


class SharedWork:
    """Work on blocks of chains that threads share."""

    blocks: list[slice]
    up: list[np.ndarray]
    n_chains: int
    n_units: int
    threads: int
    attempt_seconds = 1e-8  # about what one attempt takes; decides how often a stop is looked for
    halt: Callable[[], bool]
    _broken: bool
    _since_check: list[int]

    def _lanes(self) -> int:
        """Return the number of lanes of a block."""
        return int(self.up[0].shape[1])

    def _longest_piece(self) -> int:
        """Return how many attempts take about `PIECE_SECONDS`, all lanes of a block together."""
        return max(1, int(PIECE_SECONDS / (self.attempt_seconds * self._lanes())))

    def _must_stop(self, k: int, attempts: int) -> bool:
        """Return whether block `k` is to be left before its next `attempts`; asks `halt` once in `PIECE_SECONDS`."""
        self._since_check[k] += attempts
        if self._since_check[k] > self._longest_piece():
            self._since_check[k] = attempts
            return self._stopped()
        return self._broken

    def _stopped(self) -> bool:
        """Return whether long work is to be left here."""
        if not self._broken and self.halt():
            self._broken = True
        return self._broken

    def _seconds(self, n_sweeps: float) -> float:
        """Return about how many seconds the work of so many sweeps of all chains takes one thread."""
        return float(n_sweeps * self.n_units * self.n_chains * self.attempt_seconds)

    def _n_threads(self, n_sweeps: float) -> int:
        """Return on how many threads blocks are worth their while for so many sweeps."""
        most = min(self.threads, len(self.blocks))
        worth = most > 1 and self._seconds(n_sweeps) >= max(WORTH_A_THREAD, SHORTEST_BLOCK * len(self.blocks))
        return most if worth else 1

    def _n_turns(self, steps: int, n_sweeps: float) -> int:
        """Return into how many parts the steps of blocks are cut, so that all threads have as much to do."""
        threads, n_blocks = self._n_threads(n_sweeps), len(self.blocks)
        worth = int(self._seconds(n_sweeps) / (SHORTEST_BLOCK * n_blocks))
        return max(1, min(threads // gcd(threads, n_blocks), steps, worth))

    def _for_blocks(
        self, function: Callable[..., T], n_sweeps: float, *, whole: bool = False, steps: int | None = None
    ) -> list[T]:
        """Apply `function` to every block; on threads if the work of `n_sweeps` sweeps is worth handing over.

        Where there are `steps`, it is applied to (first, last, block), the last step being excluded, and blocks take
        turns if they cannot be dealt out evenly: nothing is returned then.

        Raises
        ------
        Halted
            If a stop is asked for within `function`, or before a block where all take long and need not be done as a
            whole.
        """
        asks = self._seconds(n_sweeps) > PIECE_SECONDS and not whole
        threads, blocks = self._n_threads(n_sweeps), range(len(self.blocks))
        found: list[Any] = []
        n_turns = self._n_turns(steps, n_sweeps) if steps and asks else 1
        if steps is not None and n_turns == 1:
            function = partial(function, 0, steps)
        if threads == 1:
            for k in blocks:
                found.append(None if asks and self._stopped() else function(k))
        elif n_turns == 1:
            found = fan_out(lambda k: None if asks and self._stopped() else function(k), blocks, threads)
        else:
            n_steps = steps or 0
            take_turns(
                lambda *part: None if self._stopped() else function(*part), len(blocks), n_steps, n_turns, threads
            )
        if self._broken:
            self._broken = False
            raise Halted
        return found
