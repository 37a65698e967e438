"""How often units are up together in rows: whole numbers, equal however the rows are cut and whoever counts."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np

from .._base.threads import single_threaded_blas
from .._base.workers import Pieces, before_anything
from ..kernels.bits import count_pairs, turn_rows
from ..machine.couplings import row_blocks
from .rows import Rows

SHARD_NUMBERS = 1 << 27  # bits of a shard, so that it is worth a message,
SHARD_ROWS = 1 << 17  # and its least rows, so that its counts are few beside the work
LARGE = 1 << 28  # rows times pairs from which on bits are counted 64 rows a word, which is worth a kernel
WORDS, FEWEST_WORDS = 1 << 15, 16  # of a block, which the processor's own cache holds; and a unit


def rows_of_shard(n_units: int) -> int:
    """Return how many rows a shard has."""
    return max(SHARD_NUMBERS // n_units, SHARD_ROWS)


def count_together(up: Rows | np.ndarray) -> np.ndarray:
    """Count how often units i and j are up together, (n_units, n_units) float64 whole numbers; kept with the rows."""
    up = Rows.of(up)
    if up.together is None:
        up.together = _counted(up, 0, len(up))
    return up.together.astype(np.float64)


def count_along(first: np.ndarray, second: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count how often bits of `first` at i and of `second` at j are both 1, for each edge (i, j), (n_edges,) int64.

    Both are words (n_units, m) uint64, as `pack_rows` makes them.
    """
    found = np.empty(len(edges), np.int64)
    for some in row_blocks(len(edges), first.shape[1]):
        i, j = edges[some].T
        found[some] = np.bitwise_count(first[i] & second[j]).sum(axis=1, dtype=np.int64)
    return found


def count_by_workers(up: Rows, executor: Executor) -> None:
    """Have workers count how often units are up together, a shard of the rows each; it is kept with the rows."""
    if up.together is not None:
        return
    size = rows_of_shard(up.n_units)
    n_shards = -(-len(up) // size)
    pieces = Pieces(executor, _count_shard, (up, size), n_shards)
    total = np.zeros((up.n_units,) * 2, kind_of_counts(len(up)))
    with before_anything():
        for _ in range(n_shards):
            total += pieces.take()
    up.together = total


def kind_of_counts(n_rows: int) -> type[np.unsignedinteger]:
    """Return a type that holds counts of rows."""
    return np.uint32 if n_rows < 1 << 32 else np.uint64


def _count_shard(shared: tuple[Rows, int], k: int) -> np.ndarray:
    up, size = shared
    return _counted(up, k * size, min((k + 1) * size, len(up)))


def _counted(up: Rows, first: int, last: int) -> np.ndarray:
    """Count in rows from `first` to before `last`, a block of them at a time."""
    kind = kind_of_counts(last - first)
    if (last - first) * up.n_units**2 < LARGE:
        return _multiplied(up, first, last).astype(kind)
    counts = np.zeros((up.n_units,) * 2, np.int64)
    n_rows = 64 * max(WORDS // up.n_units, FEWEST_WORDS)
    for some in up.blocks(n_rows * up.n_units, first, last):
        packed = np.array(up.packed(some))  # which may be written to, as others that the kernel was compiled for
        count_pairs(turned(packed, up.n_units), counts)
    counts += np.triu(counts, 1).T
    return counts.astype(kind)


def turned(packed: np.ndarray, n_units: int) -> np.ndarray:
    """Return packed rows (m, ceil(n_units / 8)) as `pack_rows` does their bits."""
    words = np.empty((n_units, -(-len(packed) // 64)), np.uint64)
    turn_rows(packed, words, np.empty(64, np.uint64))
    return words


def _multiplied(up: Rows, first: int, last: int) -> np.ndarray:
    """Count by products of blocks of rows; whole numbers below 2^24 are exact in float32."""
    total = np.zeros((up.n_units,) * 2)
    with single_threaded_blas():
        for some in up.blocks(first=first, last=last):
            block = up[some].astype(np.float32)
            total += block.T @ block
    return total
