"""Slow twin of chains that look their thresholds up: one chain and one bit string after the other, in many digits."""

from __future__ import annotations

from collections.abc import Iterator

import mpmath

mpmath.mp.dps = 40


def threshold(log_odds: float, keep: float, was_up: bool) -> int:
    """2^64 times the probability of being up; `keep` is None by Gibbs."""
    with mpmath.workdps(40):
        x = mpmath.mpf(log_odds)
        if keep is None:
            chance = 1 / (1 + mpmath.exp(-x))
        elif was_up:
            chance = 1 - keep * min(mpmath.mpf(1), mpmath.exp(-x))
        else:
            chance = keep * min(mpmath.mpf(1), mpmath.exp(x))
        return min(int(mpmath.floor(chance * 2**64)), 2**64 - 1)


def sweep(
    bits: list[list[int]], rises: list[dict[int, float]], fields: list[float], beta: float, keep: float | None,
    words: list[Iterator[int]], row: list[int],
) -> int:  # fmt: skip
    """Update units of 32 chains in order; return the flips. Mutates `bits` [chain][unit].

    `words` are the 16 streams of the word: each gives 32 random bits, the lower half for the first of two chains. While
    any chain's numbers are equal so far, all streams draw on.
    """
    n_flips = 0
    for i in row:
        limits = []
        for chain in bits:
            field = fields[i] + sum(rise for j, rise in rises[i].items() if chain[j])
            limits.append(threshold(beta * field, keep, bool(chain[i])))
        open_chains, new = set(range(32)), [0] * 32
        for part in range(4):
            if not open_chains:
                break
            drawn = [next(stream) for stream in words]
            for c in sorted(open_chains):
                number, limit = drawn[c // 2] >> 16 * (c % 2) & 0xFFFF, limits[c] >> (48 - 16 * part) & 0xFFFF
                new[c] = int(number < limit)
                if number != limit:
                    open_chains.discard(c)
        for chain, up in zip(bits, new, strict=True):
            n_flips += chain[i] != up
            chain[i] = up
    return n_flips
