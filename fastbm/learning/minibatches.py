"""Mini-batches: the order in which an epoch takes the rows, and the distinct rows of a data set with their weights."""

from __future__ import annotations

import numpy as np

from .._base import rng
from ..data.rows import Rows

LISTED = 1 << 20  # rows whose order is made as a list; that of more is computed place by place
ROUNDS = 6
MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # Steele, Lea and Flood, OOPSLA (2014), p. 453
MOST_NUMBERS = 1 << 24  # of distinct rows: where there are more, rows are seldom alike, and are taken as they are


def order_of_rows(n_rows: int, seed: int, epoch: int, weights: np.ndarray | None, places: slice) -> np.ndarray:
    """Return some places of a permutation of the rows, or, with weights, as many independent draws.

    Draws are by weight, so that a mini-batch's mean is the weighted one on average.
    """
    generator = rng.keyed(seed, rng.BATCHES, epoch)
    if weights is not None:
        return generator.choice(n_rows, size=n_rows, p=weights / weights.sum())[places]
    if n_rows <= LISTED:
        return generator.permutation(n_rows)[places]
    return shuffled(np.arange(*places.indices(n_rows), dtype=np.uint64), n_rows, generator)


def shuffled(places: np.ndarray, n_rows: int, generator: np.random.Generator) -> np.ndarray:
    """Return where a keyed permutation of 0 to n_rows - 1 takes `places`, in memory that does not grow with n_rows.

    A Feistel network on pairs of half words, walked until it comes back below n_rows. Black and Rogaway, CT-RSA (2002),
    p. 114, doi:10.1007/3-540-45760-7_9.
    """
    half = np.uint64(-(-int(n_rows - 1).bit_length() // 2))
    mask = (np.uint64(1) << half) - np.uint64(1)
    keys = generator.integers(0, 2**64, ROUNDS, dtype=np.uint64)
    found = np.array(places, np.uint64)
    outside = np.arange(len(found))
    while len(outside):
        left, right = found[outside] >> half, found[outside] & mask
        for key in keys:
            mixed = right + key
            mixed = (mixed ^ (mixed >> np.uint64(30))) * MIX[0]
            mixed = (mixed ^ (mixed >> np.uint64(27))) * MIX[1]
            left, right = right, left ^ ((mixed ^ (mixed >> np.uint64(31))) & mask)
        found[outside] = left << half | right
        outside = outside[found[outside] >= n_rows]
    return found.astype(np.int64)


def distinct(up: Rows | np.ndarray, weights: np.ndarray | None = None) -> tuple[Rows, np.ndarray | None]:
    """Return the distinct rows that have a weight, sorted, and their shares, which sum to 1.

    Rows whose missing entries differ are distinct.

    One pass, a part of the rows at a time. Where the distinct ones are too many they are not told apart: then all rows
    are returned, and None for the shares where rows count alike.
    """
    up = Rows.of(up)
    width = -(-up.n_units // 8)
    table, counts = np.zeros((0, width if up.complete else 2 * width), np.uint8), np.zeros(0)
    for some in up.blocks():
        packed = up.packed(some)
        if (known := up.packed_known(some)) is not None:
            packed = np.concatenate([packed, known], axis=1)
        here = np.ones(len(packed)) if weights is None else weights[some]
        if weights is not None:
            packed, here = packed[here > 0], here[here > 0]
        table, counts = _merged(np.concatenate([table, packed]), np.concatenate([counts, here]))
        if len(table) * up.n_units > MOST_NUMBERS:
            return up, None if weights is None else weights / weights.sum()
    known = None if up.complete else table[:, width:]
    return Rows.of_packed(table[:, :width], up.n_units, known), counts / counts.sum()


def _merged(packed: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row once, with the sum of its counts."""
    width = packed.shape[1]
    keys = packed
    if width <= 8:  # numbers are sorted much faster than strings of bytes
        keys = np.pad(packed, ((0, 0), (0, 8 - width)))
    keys = np.ascontiguousarray(keys).view(np.uint64 if width <= 8 else np.dtype((np.void, width))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return packed[first], np.bincount(inverse.ravel(), weights=counts, minlength=len(first))
