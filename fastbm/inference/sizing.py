"""How much of a method fits into a budget of seconds: found by doing a little of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..stopwatch import Stopwatch

PILOT = 0.06  # part of the budget that the largest trial should take, about
AFFORDED = 0.3  # part of the budget that no trial should exceed
KEPT_BACK = 0.1  # part of the budget that is left for what the trials do not tell
SLOWEST_GROWTH, FASTEST_GROWTH = 4, 32  # of one trial over the one before
FIRST = 2.0  # times the budget that a first trial, which is slower, may take and yet be repeated
LEAST_SLOPE = 0.1  # of the time that a trial took per size: what is not larger than noise


class BudgetTooSmall(ValueError):
    """Not even the least that a method can do fits into the budget."""


def fit_into(
    seconds: float, run: Callable[[int], Any], knob: str, least: int, most: int, *, on_top: bool = True
) -> int:
    """Return the size, a multiple of `least` up to `most`, at which `run` takes about `seconds`.

    Parameters
    ----------
    run : function
        Its time must grow about evenly with the size.
    knob : str
        What the size is called, for the error.
    on_top : bool
        Whether the trials, some part of as much, come on top, or out of the same seconds.

    Raises
    ------
    BudgetTooSmall
        If the least size takes longer. Trials are timed, so that the answer differs from one call to the next.
    """
    first = _timed(run, least)  # compiles what has not been compiled yet
    taken = _timed(run, least) if first <= FIRST * seconds else first
    if taken > seconds:
        raise BudgetTooSmall(
            f"{knob} = {least}, the least that is of any use, takes {taken:.2g} s, and the budget is {seconds:g} s."
        )
    size, slope, spent = least, taken / least, first + taken

    while size < most and (size == least or taken < PILOT * seconds):
        growth = min(max(int(PILOT * seconds / taken), SLOWEST_GROWTH), FASTEST_GROWTH)
        if growth * taken > AFFORDED * seconds:
            growth = 2
            if size > least or growth * taken > seconds:
                break
        before = size, taken
        size = min(most, growth * size)
        taken = _timed(run, size)
        spent += taken
        slope = max((taken - before[1]) / (size - before[0]), LEAST_SLOPE * taken / size)  # part of the time is fixed
    left = (1.0 - KEPT_BACK) * seconds - taken - (0.0 if on_top else spent)
    found = min(most, int(size + left / slope))
    return max(least, found - found % least)


def _timed(run: Callable[[int], Any], size: int) -> float:
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a run need not converge
        run(size)
    return max(watch.seconds, 1e-9)
