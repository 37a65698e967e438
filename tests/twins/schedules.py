"""Slow, readable twins of the kernels of tempering and population annealing. Nothing of fastbm is imported here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import mpmath

from tests.twins import reference


def swap(
    level: Sequence[int], words: Iterator[int], betas: Sequence[float], energies: Sequence[float], parity: int
) -> tuple[list[int], list[int], list[int]]:
    """One ladder's levels after a round of swaps, and the pairs that were tried and those that swapped."""
    level = list(level)
    tried, swapped = [], []
    for k in range(parity, len(betas) - 1, 2):
        a, b = level.index(k), level.index(k + 1)
        tried.append(k)
        exponent = (betas[k] - betas[k + 1]) * (energies[a] - energies[b])
        if reference.log_of_bits(next(words)) <= exponent:
            level[a], level[b] = level[b], level[a]
            swapped.append(k)
    return level, tried, swapped


def swap_probability(beta_a: float, beta_b: float, energy_a: float, energy_b: float) -> float:
    """The ratio of the products of Boltzmann weights after and before, at most 1."""
    before = math.exp(-beta_a * energy_a - beta_b * energy_b)
    after = math.exp(-beta_a * energy_b - beta_b * energy_a)
    return min(1.0, after / before)


def round_trips(path: Sequence[int], n_betas: int) -> int:
    """Round trips of a replica along all its levels: how often the ends read target, hottest, target."""
    ends = [level for level in path if level in (0, n_betas - 1)]
    turns = [end for k, end in enumerate(ends) if k == 0 or ends[k - 1] != end]
    while turns and turns[0] == 0:
        turns.pop(0)
    return sum(1 for k in range(2, len(turns), 2) if turns[k] == n_betas - 1)


def weights(energies: Sequence[float], step: float) -> list[mpmath.mpf]:
    """exp(-step E), with 50 digits."""
    with mpmath.workdps(reference.DIGITS):
        return [mpmath.exp(-mpmath.mpf(step) * mpmath.mpf(energy)) for energy in energies]


def ess_fraction(energies: Sequence[float], step: float) -> float:
    """(sum w)^2 / (n sum w^2)."""
    with mpmath.workdps(reference.DIGITS):
        w = weights(energies, step)
        return float(mpmath.fsum(w) ** 2 / (len(w) * mpmath.fsum(x * x for x in w)))


def parents(energies: Sequence[float], step: float, uniform: float) -> list[int]:
    """Systematic resampling: replica c descends from the one in whose part of the unit interval (c + u) / n lies."""
    with mpmath.workdps(reference.DIGITS):
        w = weights(energies, step)
        total, n = mpmath.fsum(w), len(w)
        ends = [mpmath.fsum(w[: r + 1]) / total for r in range(n)]
        places = [c + mpmath.mpf(uniform) for c in range(n)]
        return [next((r for r in range(n) if ends[r] > place / n), n - 1) for place in places]


def family_measures(family: Sequence[int]) -> tuple[int, float, float]:
    """Families, their entropy in nats, and n sum nu^2."""
    parts = [Fraction(family.count(label), len(family)) for label in sorted(set(family))]
    entropy = -sum(float(p) * math.log(p) for p in parts)
    return len(parts), entropy, float(len(family) * sum(p * p for p in parts))


def linear(n_sweeps: int, low: float, high: float, most: int) -> list[float]:
    """A linear schedule, temperatures held so that there are at most `most`."""
    hold = math.ceil(n_sweeps / most)
    n_steps = math.ceil(n_sweeps / hold)
    return [low + (high - low) * (t // hold) / (n_steps - 1) if n_steps > 1 else high for t in range(n_sweeps)]


def climbed(
    energies: Sequence[Sequence[float]], betas: Sequence[float], first: int, uniforms: Iterator[float]
) -> list[list[tuple[int, int]]]:
    """Where the state of every level and ladder comes from, after an attempt to swap levels first and first + 1, ..."""
    places = [[(k, c) for c in range(len(row))] for k, row in enumerate(energies)]
    for k in range(first, len(betas) - 1, 2):
        for c in range(len(energies[k])):
            gain = (betas[k + 1] - betas[k]) * (energies[k + 1][c] - energies[k][c])
            if next(uniforms) < math.exp(min(gain, 0.0)):
                places[k][c], places[k + 1][c] = places[k + 1][c], places[k][c]
    return places
