"""Slow, readable twins of the cluster updates.

Nothing of fastbm is imported here. A machine is a symmetric matrix of couplings and a vector of biases, in spins (-1,
+1); bond probabilities have 60 digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import mpmath
import numpy as np

from tests.twins import reference

ONE_IN = 16  # Wolff clusters that are left alone


def neighbours(weights: np.ndarray, i: int) -> list[int]:
    """Units coupled to unit i, in increasing order."""
    return [j for j in range(len(weights)) if weights[i][j] != 0]


def bond_probability(coupling: float, beta: float) -> mpmath.mpf:
    """1 - exp(-2 beta |J|)."""
    with mpmath.workdps(60):
        return -mpmath.expm1(-2 * mpmath.mpf(float(beta)) * abs(mpmath.mpf(float(coupling))))


def in_64_digits(p: mpmath.mpf) -> int:
    """p in units of 2^-64, below 2^64."""
    with mpmath.workdps(60):
        return min(int(mpmath.nint(p * 2**64)), 2**64 - 1)


def bernoulli(p: mpmath.mpf, words: Iterator[int]) -> bool:
    """Whether a uniform number is below p (of 64 binary digits), drawn 32 digits at a time until it is clear."""
    numerator = in_64_digits(p)
    number, head = next(words), numerator >> 32
    return number < head if number != head else (number << 32) + next(words) < numerator


def grow(state: Sequence[int], first: int, weights: np.ndarray, beta: float, words: Iterator[int], free: set) -> list:
    """The cluster of a unit: bonds drawn in the order of discovery, all of them, and used where both units agree.

    Only units of `free` can join.
    """
    members = [first]
    for i in members:  # the list grows while it is read
        for j in neighbours(weights, i):
            drawn = bernoulli(bond_probability(weights[i][j], beta), words)
            satisfied = weights[i][j] * state[i] * state[j] > 0
            if drawn and j in free and j not in members and satisfied:
                members.append(j)
    return members


def wolff(state: list[int], weights: np.ndarray, bias: Sequence[float], beta: float, words: Iterator[int]) -> int:
    """One cluster from a random unit, turned if Metropolis' rule for the field on it says so.

    Mutates `state`; returns the cluster's size.
    """
    n = len(state)
    word = next(words)
    members = grow(state, word * n >> 32, weights, beta, words, set(range(n)))
    if word % ONE_IN == 0:
        return len(members)
    if any(bias):
        rise = -2 * beta * sum(bias[i] * state[i] for i in members)
        if rise < reference.log_of_bits(next(words)):
            return len(members)
    for i in members:
        state[i] = -state[i]
    return len(members)


def swendsen_wang(
    state: list[int],
    weights: np.ndarray,
    bias: Sequence[float],
    beta: float,
    words: Iterator[int],
    gauge: Sequence[int],
) -> list[int]:
    """Cut all units into clusters; each is drawn along the gauge or against it, given the field on it.

    Mutates `state`; returns the clusters' sizes.
    """
    left, new, sizes = set(range(len(state))), list(state), []
    while left:
        members = grow(state, min(left), weights, beta, words, left)
        along = 2 * beta * sum(bias[i] * gauge[i] for i in members) > reference.logit_of_bits(next(words))
        for i in members:
            new[i] = gauge[i] if along else -gauge[i]
        left -= set(members)
        sizes.append(len(members))
    state[:] = new
    return sizes


def houdayer(one: list[int], two: list[int], weights: np.ndarray, words: Iterator[int]) -> int:
    """Exchange the cluster of a random unit with overlap -1.

    Mutates both states; returns its size.
    """
    different = [i for i in range(len(one)) if one[i] * two[i] == -1]
    if not different:
        return 0
    cluster = {different[next(words) * len(different) >> 32]}
    while True:
        wider = cluster | {j for i in cluster for j in neighbours(weights, i) if j in different}
        if wider == cluster:
            break
        cluster = wider
    for i in cluster:
        one[i], two[i] = two[i], one[i]
    return len(cluster)


def gauges(weights: np.ndarray) -> list[tuple[int, ...]]:
    """All signs g with g_i g_j W_ij >= 0, by trying every one."""
    n = len(weights)
    return [
        g
        for g in itertools.product((-1, 1), repeat=n)
        if all(g[i] * g[j] * weights[i][j] >= 0 for i, j in itertools.combinations(range(n), 2))
    ]


def first_is_up(weights: np.ndarray, gauge: tuple[int, ...]) -> list[int]:
    """The gauge, turned part by part so that the first unit of each connected part has sign 1."""
    fixed, left = list(gauge), set(range(len(gauge)))
    while left:
        part, first = {min(left)}, min(left)
        while any(set(neighbours(weights, i)) - part for i in part):
            part |= {j for i in part for j in neighbours(weights, i)}
        for i in part:
            fixed[i] = gauge[i] * gauge[first]
        left -= part
    return fixed


def is_on_frustrated_loop(weights: np.ndarray, i: int, j: int) -> bool:
    """Whether some path from j back to i closes a loop whose couplings have a negative product."""

    def walk(at: int, seen: tuple[int, ...], sign: float) -> bool:
        for k in neighbours(weights, at):
            along = sign * np.sign(weights[at][k])
            if k == i and len(seen) > 2 and along < 0:
                return True
            if k not in seen and walk(k, (*seen, k), along):
                return True
        return False

    return walk(j, (i, j), float(np.sign(weights[i][j])))
