"""How often units, pairs and triples of units are up, and how many at a time: counted exactly, 64 states a word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import rng
from ..kernels.moments import count_pairs
from ..kernels.triplets import count_triples
from ..rows import Rows
from ..threads import fan_out

MOST_TRIPLES = 19_600  # all of 50 units
BLOCK = 1 << 16  # states packed at a time


def some_triples(n_units: int, seed: int, most: int = MOST_TRIPLES) -> np.ndarray:
    """Return all triples i < j < k in order, or `most` of them drawn at random; (n_triples, 3)."""
    n_all = n_units * (n_units - 1) * (n_units - 2) // 6
    if n_all <= most:
        i, j, k = (axis.ravel() for axis in np.indices((n_units,) * 3)) if n_units else (np.empty(0, np.int64),) * 3
        return np.stack([i, j, k], axis=1)[(i < j) & (j < k)].astype(np.int64)
    generator, found = rng.keyed(seed, rng.MONITOR), np.empty((0, 3), np.int64)
    while len(found) < most:
        drawn = np.sort(generator.integers(0, n_units, (2 * most, 3)), axis=1)
        drawn = drawn[(drawn[:, 0] < drawn[:, 1]) & (drawn[:, 1] < drawn[:, 2])]
        found = np.unique(np.concatenate([found, drawn]), axis=0)
    return found[np.sort(generator.permutation(len(found))[:most])]


def pack_rows(up: np.ndarray) -> np.ndarray:
    """Pack bits (m, n_units) into words (n_units, ceil(m / 64)) uint64, with zeros beyond m."""
    packed = np.packbits(np.ascontiguousarray(up.T), axis=1, bitorder="little")
    padded = np.zeros((len(packed), -(-len(up) // 64) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


@dataclass(frozen=True)
class Counts:
    """Integer counts over `n` states: `pairs` (n_units, n_units) with its upper triangle and diagonal, `triples`
    (n_triples,) and `population` (n_units + 1,), the number of states with K units up.
    """

    n: int
    pairs: np.ndarray
    triples: np.ndarray
    population: np.ndarray

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.n + other.n,
            self.pairs + other.pairs,
            self.triples + other.triples,
            self.population + other.population,
        )


def count(up: Rows | np.ndarray, triples: np.ndarray, threads: int) -> Counts:
    """Count bits (m, n_units) uint8, a block of states at a time on each thread."""
    n_units = up.shape[1]

    def one(first: int) -> Counts:
        block = up[first : first + BLOCK]
        words = pack_rows(block)
        pairs, shared = np.zeros((n_units, n_units), np.int64), np.zeros(len(triples), np.int64)
        count_pairs(words, pairs)
        count_triples(words, triples, shared)
        population = np.bincount(block.sum(axis=1, dtype=np.int64), minlength=n_units + 1)
        return Counts(len(block), pairs, shared, population)

    first, *others = fan_out(one, range(0, len(up), BLOCK), threads)
    return sum(others, first)
