"""Averages over samples of disorder: means, and functions of means, with errors by leaving out one after another.

A Binder cumulant of a glass is 1 - [<q^4>] / (3 [<q^2>]^2), [ ] over the samples: averages first, then the ratio.

Busing, Meijer and van der Leeden, Stat. Comput. 9, 3 (1999), doi:10.1023/A:1008800423698.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..diagnostics.jackknife import Estimate, cut_blocks, of_sums
from .columns import hashable, numbers

Function = Callable[..., Any]
Named = tuple[Function, tuple[str, ...]]  # with the columns that are its arguments


def binder(square: np.ndarray, fourth: np.ndarray) -> np.ndarray:
    """Return Binder's cumulant of averaged moments."""
    return 1.0 - fourth / (3.0 * square**2)


RATIOS: dict[str, Named] = {
    "binder_cumulant": (binder, ("m2", "m4")),
    "overlap_binder_cumulant": (binder, ("q2", "q4")),
}
WORST: dict[str, Function] = {"r_hat": np.nanmax, "ess": np.nanmin}  # of diagnostics the worst is told
N = "n"


def average(
    columns: Mapping[str, np.ndarray], left: Sequence[str], over: Sequence[str], functions: Mapping[str, Named]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return keys and rows of averages of columns, for each combination of the keys that are left."""
    n_rows = len(columns[over[0]])
    groups: dict[tuple[Any, ...], list[int]] = {}
    if left:
        for place, values in enumerate(zip(*(map(hashable, columns[key].tolist()) for key in left), strict=True)):
            groups.setdefault(values, []).append(place)
    elif n_rows:
        groups[()] = list(range(n_rows))
    means = _numbers(columns, {*over, *left})
    rows = [_averages(places, means, functions) for places in map(np.array, groups.values())]
    return [dict(zip(left, values, strict=True)) for values in groups], rows


def named(functions: Mapping[str, Function], name_of: Callable[[str], str]) -> dict[str, Named]:
    """Return functions of averages with the columns that their arguments name, those that are always told first."""
    found = dict(RATIOS)
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"of[{name!r}] must be a function of columns; got {function!r}.")
        found[name] = function, tuple(name_of(argument) for argument in inspect.signature(function).parameters)
    return found


def _numbers(columns: Mapping[str, np.ndarray], keys: set[str]) -> dict[str, np.ndarray]:
    """Return the columns that are averaged: numbers, but no errors."""
    found = {}
    for name, values in columns.items():
        if name in keys or ("_error" in name and name.replace("_error", "", 1) in columns):
            continue
        if (floats := numbers(values)) is not None and not np.isnan(floats).all():
            found[name] = floats
    return found


def _averages(places: np.ndarray, columns: Mapping[str, np.ndarray], functions: Mapping[str, Named]) -> dict[str, Any]:
    """Return one row of averages."""
    row: dict[str, Any] = {N: len(places)}
    plain = [name for name in columns if name not in functions and name not in WORST]
    if plain:
        values = np.stack([columns[name][places] for name in plain], axis=-1)
        value, error = _jackknife(lambda means: means, values)
        for name, mean, spread in zip(plain, value.tolist(), error.tolist(), strict=True):
            row[name] = mean
            if name != "converged":
                row[f"{name}_error"] = spread
    for name in (one for one in WORST if one in columns):
        known = columns[name][places]
        row[name] = float(WORST[name](known)) if not np.isnan(known).all() else None
    for name, (function, arguments) in functions.items():
        given = [columns[argument][places] for argument in arguments if argument in columns]
        if len(given) == len(arguments):
            row[name], row[f"{name}_error"] = map(float, _jackknife(function, *given))
    return row


def _jackknife(function: Function, *values: np.ndarray) -> Estimate:
    """Return a function of the means of values, (n, ...), and its error; NaN of one sample alone."""
    n = len(values[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        if n == 1:
            found = np.asarray(function(*values), np.float64)[0]
            return Estimate(found, np.full(np.shape(found), math.nan))
        # less the first, so that what does not vary has no error at all
        sums = [value - value[0] for value in values]
        return of_sums(function, sums, cut_blocks(n, 1, 0.5, n), origins=[value[0] for value in values])
