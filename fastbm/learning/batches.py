"""The order in which an epoch goes through the rows."""

from __future__ import annotations

import numpy as np

from .. import rng

LISTED = 1 << 20  # rows whose order is made as a list; that of more is computed place by place
ROUNDS = 6
MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # Steele, Lea and Flood, OOPSLA (2014), p. 453


def order_of_rows(n_rows: int, seed: int, epoch: int, weights: np.ndarray | None, places: slice) -> np.ndarray:
    """Some places of a permutation of the rows; with weights as many independent draws, by weight, so that a
    mini-batch's mean is the weighted one on average.
    """
    generator = rng.keyed(seed, rng.BATCHES, epoch)
    if weights is not None:
        return generator.choice(n_rows, size=n_rows, p=weights / weights.sum())[places]
    if n_rows <= LISTED:
        return generator.permutation(n_rows)[places]
    return shuffled(np.arange(*places.indices(n_rows), dtype=np.uint64), n_rows, generator)


def shuffled(places: np.ndarray, n_rows: int, generator: np.random.Generator) -> np.ndarray:
    """Where a keyed permutation of 0 to n_rows - 1 takes `places`, in memory that does not grow with n_rows.

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
