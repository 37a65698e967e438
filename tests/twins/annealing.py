"""Slow, readable twins of the annealing walks; nothing here imports fastbm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.twins.reference import logit_of_bits


def gain(up: Sequence[int], rises: Sequence[Sequence[int]], start: Sequence[int]) -> int:
    """x A x / 2 + a x: every pair of units that are up counts once."""
    n, total = len(up), 0
    for i in range(n):
        total += start[i] * up[i]
        for j in range(i):
            total += rises[i][j] * up[i] * up[j]
    return total


def walk(
    up: list[int],
    rises: Sequence[Sequence[int]],
    start: Sequence[int],
    base: Sequence[float],
    path: Sequence[tuple[float, float, float]],
    words: Iterator[int],
    sites: Sequence[int],
) -> float:
    """Weigh and sweep at every (step, t, unit) of a path, one word for each attempt.

    Mutates `up`; returns log w.
    """
    log_w = 0.0
    for step, t, unit in path:
        tilt = sum(b * x for b, x in zip(base, up, strict=True))
        log_w += step * (unit * gain(up, rises, start) - tilt)
        for i in sites:
            field = start[i] + sum(rises[i][j] * up[j] for j in range(len(up)) if j != i)
            up[i] = int((1 - t) * base[i] + t * unit * field > logit_of_bits(next(words)))
    return log_w


def draw_layer(
    fields: Sequence[float], base: Sequence[float], t: float, tilt: Sequence[float], words: Iterator[int]
) -> tuple[list[int], float]:
    """Units of a layer drawn with log-odds (1 - t) base + t field, and the sum of `tilt` over those that are up."""
    up = [int((1 - t) * b + t * f > logit_of_bits(next(words))) for b, f in zip(base, fields, strict=True)]
    return up, sum(c for c, x in zip(tilt, up, strict=True) if x)
