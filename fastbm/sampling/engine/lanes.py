"""Chains in lanes: cut into blocks, each chain in a lane of its own with a stream of random numbers of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._base import arrays

LANES = 16  # chains in one vector
BLOCK = 64  # most chains that share one pass over the couplings: beyond it fields and states leave the cache


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
