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

from .._base import checks
from ..diagnostics.jackknife import Estimate, cut_blocks, of_sums, student_widening
from .columns import hashable, numbers
from .row import AT

Function = Callable[..., Any]
Named = tuple[Function, tuple[str, ...]]  # with the columns that are its arguments


def binder(square: np.ndarray, fourth: np.ndarray) -> np.ndarray:
    """Return Binder's cumulant of averaged moments."""
    return 1.0 - fourth / (3.0 * square**2)


def xi_over_length(square: np.ndarray, structure: np.ndarray, n_units: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the second-moment correlation length of averaged structure factors, over the size of the lattice."""
    return np.sqrt(n_units * square / structure - 1.0) / (2.0 * length * np.sin(np.pi / length))


RATIOS: dict[str, Named] = {
    "binder_cumulant": (binder, ("m2", "m4")),
    "overlap_binder_cumulant": (binder, ("q2", "q4")),
    "xi_over_length": (xi_over_length, ("m2", "structure_factor", "n_units", "length")),
    "overlap_xi_over_length": (xi_over_length, ("q2", "overlap_structure_factor", "n_units", "length")),
}
WORST: dict[str, Function] = {"r_hat": np.nanmax, "ess": np.nanmin}  # of diagnostics the worst is told
OF_LATTICES = ("n_units", "length")  # whatever the temperature
CONNECTED = ("xi_over_length", "overlap_xi_over_length")  # in a field
N = "n"


def why_not(columns: Mapping[str, np.ndarray], name: str) -> str:
    """Return why lengths cannot be averaged that some rows have, and not what they are made of; empty if they can."""
    base, at, label = name.partition(AT)
    there = numbers(columns[name]) if base in CONNECTED and name in columns else None
    if there is None:
        return ""
    wanted = RATIOS[base][1]
    own = [one if one in columns and one in OF_LATTICES else f"{one}{at}{label}" for one in wanted]
    made_of = [found for one in own if one in columns and (found := numbers(columns[one])) is not None]
    lacks = np.isnan(np.sum(made_of, axis=0)) | (len(made_of) < len(wanted))
    if not (lacks & ~np.isnan(there)).any():
        return ""
    way = ('long("beta").' if at else "") + f'average(of={{"mean": lambda {base}: {base}}})'
    return (
        f"{base} is not averaged: in a field it is of fluctuations about the means of each cell, which is no function "
        f"of averages over cells. The mean of those of the cells is {way}."
    )


def average(
    columns: Mapping[str, np.ndarray], left: Sequence[str], over: Sequence[str], functions: Mapping[str, Named]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return keys and rows of averages of columns, for each combination of the keys that are left.

    Warns
    -----
    UserWarning
        If correlation lengths are left out that no function takes.
    """
    taken = {name for _, arguments in functions.values() for name in arguments}
    for why in dict.fromkeys(why_not(columns, name) for name in columns if name not in taken):
        if why:
            checks.warn(why, UserWarning)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, values in enumerate(_combinations(columns, left)):
        groups.setdefault(values, []).append(place)
    means = _numbers(columns, {*over, *left})
    rows = [_averages(places, means, functions) for places in map(np.array, groups.values())]
    return [dict(zip(left, values, strict=True)) for values in groups], rows


def complete(columns: Mapping[str, np.ndarray], left: Sequence[str], over: Sequence[str]) -> np.ndarray:
    """Return the rows of the settings, values of the keys that are left, that have all of the others that any has.

    Warns
    -----
    UserWarning
        If some do not.

    Raises
    ------
    ValueError
        If none does.
    """
    settings, samples = _combinations(columns, left), _combinations(columns, over)
    there: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}
    for setting, sample in zip(settings, samples, strict=True):
        there.setdefault(setting, set()).add(sample)
    wanted = set(samples)
    if n_lacking := sum(found != wanted for found in there.values()):
        lacking = f"{n_lacking} of {len(there)} settings lack some of {', '.join(over)} that others have"
        if n_lacking == len(there):
            raise ValueError(f"{lacking}, so that averages do not compare: choose rows by `where` first.")
        checks.warn(f"{lacking}, as cells failed or are not done, and are left out.", UserWarning)
    return np.array([k for k, setting in enumerate(settings) if there[setting] == wanted], np.intp)


def _combinations(columns: Mapping[str, np.ndarray], keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the values of some keys in each row."""
    if not keys:
        return [()] * len(next(iter(columns.values())))
    return list(zip(*(map(hashable, columns[key].tolist()) for key in keys), strict=True))


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
    others = {*functions, *WORST}
    plain = [name for name in columns if name not in others and name.partition(AT)[0] not in CONNECTED]
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


def together(function: Function, values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return a function of means at several places over the same samples, (n,), and its spread, (n, n_samples).

    `values` are (n_samples, n), NaN where a sample is missing; the squares of a row of the spread add up to the
    jackknife variance at its place, products of two rows to the covariance.
    """
    there = ~np.isnan(np.stack(values)).any(axis=0)
    n = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = []
        for one in values:
            known = np.where(there, one, 0.0)
            total = known.sum(axis=0)
            means.append(np.concatenate([(total / n)[None], (total - known) / (n - there)]))
        found = np.asarray(function(*means), np.float64)
        off = np.where(there, found[1:] - found[0], 0.0)
        off = np.where(there, off - off.sum(axis=0) / n, 0.0)
        wider = np.array([_wider(one) for one in n.tolist()])
        return found[0], (off * wider * np.sqrt((n - 1) / n)).T


def _wider(n: int) -> float:
    """Return what makes 1.96 errors from so few samples hold the truth in 95 % of cases."""
    return student_widening(n - 1) if n > 1 else math.nan


def _jackknife(function: Function, *values: np.ndarray) -> Estimate:
    """Return a function of the means of values, (n, ...), and its error; NaN of one sample alone."""
    n = len(values[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        if n == 1:
            found = np.asarray(function(*values), np.float64)[0]
            return Estimate(found, np.full(np.shape(found), math.nan))
        # less the first, so that what does not vary has no error at all
        sums = [value - value[0] for value in values]
        blocks = cut_blocks(n, 1, 0.5, n)._replace(wider=_wider(n))
        return of_sums(function, sums, blocks, origins=[value[0] for value in values])
