"""Rows with missing entries: sums over all their completions, and draws of what is missing.

Rows are values, NaN where an entry is missing. log p(known) is log Z with only the known units of a row held, less log
Z. Where a row lacks few entries and hidden units have a closed form, all ways to fill it in are listed, whatever the
rows lack; elsewhere rows that lack the same entries share exact sums over the missing and the hidden units.

Draws, for restricted machines, are made by block Gibbs sampling of rows that each lack others: hidden units given all
visible ones, then the missing ones given these. Rows share the matrix products, whatever they lack.

Little and Rubin, Statistical Analysis with Missing Data (2002), sect. 6.2, doi:10.1002/9781119013563; Ackley, Hinton
and Sejnowski, Cognitive Science 9, 147 (1985), doi:10.1207/s15516709cog0901_7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ..._base import rng
from ..._base.arrays import unlike_rows
from ..._base.threads import fan_out, single_threaded_blas
from ...data.rows import Rows
from ...diagnostics.verdicts import all_of
from ...machine.clamping import Clamped
from ...machine.couplings import row_blocks
from ...machine.machine import BoltzmannMachine
from ..exact.method import forecast_seconds
from ..methods import run_method
from ..result import Inference
from .given import How
from .listed import MOST_LISTED, Listed

NUMBERS = 1 << 20  # values of filled rows that are held at a time
VALUE_SECONDS, PAIR_SECONDS = 2e-8, 1e-9  # of a listed filling, for each unit and each pair of units, about
LIST_SECONDS, SUM_SECONDS = 2e-4, 2e-3  # that a sum takes at least, by a list of states and by an engine
MISSING = 2  # stands for a missing value where values are whole numbers
ROWS = 256  # of a block, which has random numbers of its own


@dataclass(frozen=True)
class Filled:
    """Some rows with equally many missing entries, in all their completions.

    Attributes
    ----------
    rows : (m,) array
        Numbers of the rows.
    values : (m * 2^n_missing, n_visible) array
        The fillings of the first row, then of the second, and so on.
    """

    rows: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Alike:
    """Some rows whose missing entries are the same: their indices, the known units, and their values (m, n_known)."""

    rows: np.ndarray
    known: np.ndarray
    values: np.ndarray


class Gapped:
    """Distinct rows with missing entries, sorted by how they are summed.

    Parameters
    ----------
    values : (m, n_visible) array
        NaN where missing.
    weights : (m,) array, optional
        Of the rows; all alike unless given.

    Attributes
    ----------
    shares : (n_distinct,) array
        Weights of the distinct rows; their sum is 1.
    of_row : (m,) array
        Which distinct row each row is.
    """

    def __init__(self, model: BoltzmannMachine, values: np.ndarray, weights: np.ndarray | None = None) -> None:
        codes = np.where(np.isnan(values), MISSING, values).astype(np.int8)
        first, self.of_row = unlike_rows(codes)
        self._codes = codes[first]
        shares = np.bincount(self.of_row, weights, minlength=len(self._codes)).astype(np.float64)
        self.shares: np.ndarray = shares / shares.sum()
        self._missing = self._codes == MISSING
        self._units = model.convention
        self._n_missing = self._missing.sum(axis=1)
        self._listed = self._n_missing <= MOST_LISTED if model.hidden_are_independent else np.zeros(len(codes), bool)
        self._listed = self._listed[: len(self._codes)]

    def __len__(self) -> int:
        return len(self._codes)

    def filled(self) -> Iterator[Filled]:
        """Yield the rows whose fillings are listed, a block at a time."""
        for n in np.unique(self._n_missing[self._listed]).tolist():
            numbers = np.flatnonzero(self._listed & (self._n_missing == n))
            ways = self._units.values((np.arange(1 << n)[:, None] >> np.arange(n)) & 1, np.float64)
            step = max(1, NUMBERS // (self._codes.shape[1] << n))
            for first in range(0, len(numbers), step):
                rows = numbers[first : first + step]
                values = np.repeat(self._codes[rows].astype(np.float64), 1 << n, axis=0)
                gaps = np.nonzero(self._missing[rows])[1].reshape(len(rows), n)
                places = np.repeat(gaps, 1 << n, axis=0)
                np.put_along_axis(values, places, np.tile(ways, (len(rows), 1)), axis=1)
                yield Filled(rows, values)

    def summed(self) -> Iterator[Alike]:
        """Yield the other rows, grouped by which entries are missing."""
        return self._alike(np.flatnonzero(~self._listed))

    def alike(self) -> Iterator[Alike]:
        """All rows, grouped by which entries are missing."""
        return self._alike(np.arange(len(self)))

    def _alike(self, numbers: np.ndarray) -> Iterator[Alike]:
        packed = np.packbits(self._missing[numbers], axis=1)
        sets, inverse = np.unique(packed, axis=0, return_inverse=True)
        order = np.argsort(inverse.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(inverse.ravel(), minlength=len(sets)))
        for group in np.split(order, ends[:-1]) if len(sets) else ():
            rows = numbers[group]
            known = np.flatnonzero(~self._missing[rows[0]])
            for some in row_blocks(len(rows), self._codes.shape[1] ** 2):  # second moments of each may be asked for
                yield Alike(rows[some], known, self._codes[np.ix_(rows[some], known)].astype(np.float64))


def log_weights(model: BoltzmannMachine, filled: Filled, beta: float) -> np.ndarray:
    """Return log sum_h exp(-beta E(v, h)) of all fillings, (m, 2^n_missing)."""
    found = Clamped.of(model, np.arange(model.n_visible), filled.values).log_sum_independent(beta)
    return found.reshape(len(filled.rows), -1)


def log_sum(weights: np.ndarray) -> np.ndarray:
    """Return log of the sum of each row's exponentials."""
    highest = weights.max(axis=1)
    found: np.ndarray = highest + np.log(np.exp(weights - highest[:, None]).sum(axis=1))
    return found


def sum_alike(model: BoltzmannMachine, alike: Alike, beta: float, threads: int, **options: object) -> Inference:
    """Return exact sums over all units that these rows leave free."""
    clamp = (alike.known, alike.values)
    return run_method(model, "exact", beta=beta, clamp=clamp, seed=0, threads=threads, **options)  # type: ignore[arg-type]


class RowSums(NamedTuple):
    """Log Z of each row, the standard error of their mean, its bound, and the worst estimate, if there are some."""

    each: np.ndarray
    error: float | None
    bound: str | None
    found: Inference | None = None


def log_sums_of_known(
    model: BoltzmannMachine, rows: np.ndarray, beta: float, threads: int, method: str = "exact", seed: int = 0
) -> RowSums:
    """Return log Z with the known units of each row held.

    `method` is for rows whose fillings are not listed.
    """
    gapped = Gapped(model, rows)
    each, errors = np.empty(len(gapped)), np.zeros(len(gapped))
    known = True
    worst: Inference | None = None
    bounds: set[str | None] = set()
    for filled in gapped.filled():
        each[filled.rows] = log_sum(log_weights(model, filled, beta))
        bounds.add("exact")
    for number, alike in enumerate(gapped.summed()):
        if method == "exact" and model.n_units - len(alike.known) <= MOST_LISTED:
            each[alike.rows] = Listed(Clamped.of(model, alike.known, alike.values), beta, threads).log_z()
            bounds.add("exact")
            continue
        found = run_method(
            model, method, beta=beta, clamp=(alike.known, alike.values), moments=False,
            seed=rng.derive(seed, number), threads=threads,
        )  # fmt: skip
        if found.log_z is None:
            raise ValueError(f"clamped must be a method that gives log Z; {method!r} does not. Use 'exact' or 'ais'.")
        each[alike.rows] = found.log_z
        known &= found.log_z_error is not None
        errors[alike.rows] = 0.0 if found.log_z_error is None else found.log_z_error
        bounds.add(found.bound)
        if worst is None or all_of([worst.converged, found.converged]) is not worst.converged:
            worst = found
    error = float(np.linalg.norm(gapped.shares * errors)) if known else None
    others = bounds - {"exact"}
    bound = "exact" if not others else others.pop() if len(others) == 1 else None
    return RowSums(each[gapped.of_row], error, bound, worst)


def forecast_of_known(model: BoltzmannMachine, rows: Rows) -> float:
    """Estimate how many seconds the exact sums over missing entries take.

    This is by built-in speeds; inf where they cannot be done. Rows that are alike are not told apart.
    """
    n, counts = model.n_visible, np.zeros(model.n_visible + 1)
    for some in rows.blocks():
        counts += np.bincount(n - rows.known(some).sum(axis=1, dtype=np.int64), minlength=n + 1)
    listed = model.hidden_are_independent
    seconds = 0.0
    for n_missing in np.flatnonzero(counts).tolist():
        if listed and n_missing <= MOST_LISTED:
            each = (1 << n_missing) * model.n_units * (VALUE_SECONDS + PAIR_SECONDS * model.n_units)
        else:
            least = LIST_SECONDS if n_missing + model.n_hidden <= MOST_LISTED else SUM_SECONDS
            each = max(forecast_seconds(_some_free(model, n_missing), moments=True), least)
        seconds += counts[n_missing] * each
    return seconds


def _some_free(model: BoltzmannMachine, n_missing: int) -> BoltzmannMachine:
    """Return what is left free where the last of the visible units are missing.

    It stands for all rows that lack as many.
    """
    known = np.arange(model.n_visible - n_missing)
    return Clamped.of(model, known, np.full(len(known), model.convention.hi)).machine(0)


def sample_gaps(model: BoltzmannMachine, up: np.ndarray, lacking: np.ndarray, how: How, draw: bool) -> np.ndarray:
    """Return bits of the last sweep, or averages over sweeps of P(v_i up | hidden units), (n_rows, n_visible).

    Parameters
    ----------
    up, lacking : (n_rows, n_visible) arrays
        Bits, and where they are missing; elsewhere the result has no meaning.
    """
    units, n = model.convention, model.n_visible
    slope = how.beta * units.span
    block, bias = model.couplings.arrays[0], model.flat_bias
    to_hidden = slope * units.span * block  # of bits
    hidden_field = slope * (bias[n:] + units.lo * block.sum(axis=0))
    visible_field = slope * (bias[:n] + units.lo * block.sum(axis=1))
    to_visible = np.ascontiguousarray(to_hidden.T)

    def one(first: int) -> np.ndarray:
        generator = rng.keyed(how.seed, rng.CLAMPED, first)
        gaps = lacking[first : first + ROWS]
        state = np.where(gaps, generator.random(gaps.shape) < 0.5, up[first : first + ROWS]).astype(np.float64)
        total = np.zeros(gaps.shape)
        for k in range(how.burn_in + how.n_sweeps):
            p = expit(state @ to_hidden + hidden_field)
            hidden = (generator.random(p.shape) < p).astype(np.float64)
            p = expit(hidden @ to_visible + visible_field)
            np.copyto(state, generator.random(p.shape) < p, where=gaps)
            if k >= how.burn_in:
                total += p
        return state if draw else total / how.n_sweeps

    with single_threaded_blas():
        return np.concatenate(fan_out(one, range(0, len(up), ROWS), how.threads))
