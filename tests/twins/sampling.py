"""Slow, readable twins of the sampling kernels: sweeps with dropped proposals, replicas in words, colours.

Nothing of fastbm is imported here. Bits are lists of 0 and 1, words plain Python ints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tests.twins import reference

Neighbours = Sequence[Sequence[tuple[int, int]]]  # of every unit: (neighbour, +1 or -1), once for each unit of coupling

FIRST, LAST = 16, 64  # random bits that every replica draws, and the most that one draws


def sweep_held(
    state: list[int],
    weights: np.ndarray,
    bias: Sequence[float],
    units: str,
    beta: float,
    words: Iterator[int],
    sites: Sequence[int],
    hold: int = 0,
) -> int:
    """Propose to flip every site in turn, one word each; the `hold` largest words, of 2^32, drop the proposal.

    The others are uniform numbers again once divided by their share. Mutates `state`; returns the number of flips.
    """
    lo, hi = reference.VALUES[units]
    share, flips = 1 - hold / 2**32, 0
    for i in sites:
        word = next(words)
        if 2**32 - 1 - word < hold:
            continue
        log_odds = beta * (hi - lo) * reference.field(state, i, weights, bias)
        if (-log_odds if state[i] == hi else log_odds) >= min(reference.log_of_bits(word) - math.log(share), 0.0):
            state[i] = lo + hi - state[i]
            flips += 1
    return flips


# Replicas in words of 32


def sweep_word(
    bits: list[list[int]],
    neighbours: Neighbours,
    thresholds: Mapping[int, int],
    words: Iterator[int],
    sites: Sequence[int],
    rule: str = "gibbs",
    hold: bool = False,
) -> int:
    """Update every site in turn in the replicas of one word; `bits[r][i]` is unit i of replica r, which is mutated.

    `thresholds` gives 2^64 times the probability to go against a pull of that size. Returns the number of flips.
    """
    flips = 0
    for i in sites:
        pulls = [sum(sign * (2 * bit[j] - 1) for j, sign in neighbours[i]) for bit in bits]
        with_majority = [int(pull > 0) for pull in pulls]
        limits = [thresholds[abs(pull)] for pull in pulls]
        if rule == "gibbs":
            asked = [True] * len(bits)
        else:
            asked = [pull != 0 and bit[i] == side for pull, bit, side in zip(pulls, bits, with_majority, strict=True)]
        below = _compare(limits, asked, words)
        new = [side ^ under for side, under in zip(with_majority, below, strict=True)]
        if rule != "gibbs":
            new = [1 - bit[i] if pull == 0 else value for bit, pull, value in zip(bits, pulls, new, strict=True)]
        held = _all_ones([next(words) for _ in range(4)]) if hold else 0
        for r, bit in enumerate(bits):
            value = bit[i] if held >> r & 1 else new[r]
            flips += value != bit[i]
            bit[i] = value
    return flips


def _compare(limits: Sequence[int], asked: Sequence[bool], words: Iterator[int]) -> list[int]:
    """Whether the 64-bit number of each replica that is asked lies below its limit; all draw bits until it is known."""
    numbers, n_bits = [0] * len(limits), 0

    def undecided(r: int) -> bool:
        return asked[r] and numbers[r] == limits[r] >> (LAST - n_bits)

    while n_bits < FIRST or (n_bits < LAST and any(map(undecided, range(len(limits))))):
        word, n_bits = next(words), n_bits + 1
        numbers = [2 * number + (word >> r & 1) for r, number in enumerate(numbers)]
    return [int(a and x < limit >> (LAST - n_bits)) for a, x, limit in zip(asked, numbers, limits, strict=True)]


def _all_ones(words: Sequence[int]) -> int:
    first, second, third, fourth = words
    return first & second & third & fourth


def against(beta: float, pull: float, rule: str) -> float:
    """The probability that a unit goes against a pull of this field (in spins)."""
    cost = 2 * beta * pull
    return math.exp(-cost) if rule == "metropolis" else reference.sigmoid(-cost)


def count_unsatisfied(bits: Sequence[int], edges: Sequence[tuple[int, int, int]]) -> int:
    """The number of couplings (i, j, sign) whose units do not agree with the sign."""
    return sum((bits[i] == bits[j]) != (sign > 0) for i, j, sign in edges)


def words_of(bits: np.ndarray) -> list[list[int]]:
    """Words of 32 replicas for every unit; `bits` is (n_replicas, n_units)."""
    return [reference.pack_words(column, 32) for column in np.asarray(bits).T]


# Colours


def is_proper(colours: Sequence[int], edges: Sequence[tuple[int, int]]) -> bool:
    """Whether no two neighbours have one colour."""
    return all(colours[i] != colours[j] for i, j in edges)


def is_bipartite(n: int, edges: Sequence[tuple[int, int]]) -> bool:
    """Whether units can be put on two sides without an edge inside a side: no odd cycle."""
    sides: list[int | None] = [None] * n
    for start in range(n):
        if sides[start] is None:
            sides[start] = 0
        changed = True
        while changed:
            changed = False
            for i, j in [*edges, *((j, i) for i, j in edges)]:
                if sides[i] is not None and sides[j] is None:
                    sides[j], changed = 1 - sides[i], True
    return all(sides[i] != sides[j] for i, j in edges)


def row_sums(weights: Sequence[Sequence[float]], up: Sequence[int]) -> list[float]:
    """Sum of the rows of the units that are on, column by column."""
    return [math.fsum(row[j] for row, on in zip(weights, up, strict=True) if on) for j in range(len(weights[0]))]
