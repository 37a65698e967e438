"""Fewer cases than all combinations of some parameters: what a fault needs two values to show is still met."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def pairwise(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrise so that any two values of two parameters meet in some case.

    Parameters that go together are one: ``**{"kind, engine": CASES}`` with a list of tuples.
    """
    values = [list(axis) for axis in axes.values()]
    return _parametrised(axes, _covering(values))


def each(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrise so that every value of every parameter occurs in some case, in step with the longest list.

    A list that begins again begins one further, so that lists of the same length or half of it do not stay in step.
    """
    values = [list(axis) for axis in axes.values()]
    n_cases = max(map(len, values))
    return _parametrised(axes, [[(k + k // len(axis)) % len(axis) for axis in values] for k in range(n_cases)])


def _parametrised(axes: dict[str, Iterable[Any]], cases: list[list[int]]) -> pytest.MarkDecorator:
    names = [name.split(", ") for name in axes]
    values = [
        list(axis) if len(own) > 1 else [(one,) for one in axis] for own, axis in zip(names, axes.values(), strict=True)
    ]
    rows = [[one for axis, k in zip(values, case, strict=True) for one in axis[k]] for case in cases]
    return pytest.mark.parametrize([one for own in names for one in own], rows)


def _covering(values: list[list[Any]]) -> list[list[int]]:
    """Greedily: next the first case of those in which most pairs meet that have not yet."""
    everything = [list(case) for case in itertools.product(*(range(len(axis)) for axis in values))]
    left = {pair for case in everything for pair in _pairs(case)}
    chosen = []
    while left:
        best = max(everything, key=lambda case: len(left.intersection(_pairs(case))))
        left -= set(_pairs(best))
        chosen.append(best)
    return chosen


def _pairs(case: list[int]) -> list[tuple[tuple[int, int], ...]]:
    return list(itertools.combinations(enumerate(case), 2))
