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
from scipy.special import expit, softmax

from ..._base import rng
from ..._base.arrays import unlike_rows
from ..._base.threads import fan_out, single_threaded_blas
from ...data.rows import Rows
from ...diagnostics.verdicts import all_of
from ...kernels.functions import LANES, add_log_sums
from ...machine.clamping import Clamped, fields_of_hidden
from ...machine.couplings import row_blocks
from ...machine.machine import BoltzmannMachine
from ..exact.method import forecast_seconds
from ..methods import run_method
from ..result import Inference
from .given import EXACT_SECONDS, How
from .listed import MOST_LISTED, Listed

NUMBERS = 1 << 20  # values of filled rows that are held at a time
ROW_SECONDS, PAIR_SECONDS = 2e-5, 5e-10  # of a row whose fillings are listed, and of its products of coupled units
WAY_SECONDS = 1e-8  # of a filling, for each unit that is missing or hidden
LIST_SECONDS, SUM_SECONDS = 2e-4, 2e-3  # that a sum takes at least, by a list of states and by an engine
MISSING = 2  # stands for a missing value where values are whole numbers
ROWS = 256  # of a block, which has random numbers of its own


@dataclass(frozen=True)
class Filled:
    """Some rows with equally many missing entries, and all ways to fill these in.

    Attributes
    ----------
    rows : (m,) array
        Numbers of the rows.
    values : (m, n_visible) array
        The rows, 0 where an entry is missing.
    gaps : (m, n_missing) array
        Which entries are.
    ways : (2^n_missing, n_missing) array
        What they may be.
    """

    rows: np.ndarray
    values: np.ndarray
    gaps: np.ndarray
    ways: np.ndarray


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
        self._model = model
        self._listed = self._missing.sum(axis=1) <= (MOST_LISTED if model.hidden_are_independent else -1)

    def __len__(self) -> int:
        return len(self._codes)

    def filled(self) -> Iterator[Filled]:
        """Yield the rows whose fillings are listed, a block at a time."""
        return fillings(self._model, self._codes, np.flatnonzero(self._listed))

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


def fillings(model: BoltzmannMachine, codes: np.ndarray, numbers: np.ndarray) -> Iterator[Filled]:
    """Yield those rows of `codes` (m, n_visible) that `numbers` name, a block at a time.

    They are values, `MISSING` where an entry is missing.
    """
    n_missing = (codes[numbers] == MISSING).sum(axis=1)
    for n in np.unique(n_missing).tolist():
        alike = numbers[n_missing == n]
        ways = model.convention.values((np.arange(1 << n)[:, None] >> np.arange(n)) & 1, np.float64)
        step = max(1, NUMBERS // (model.n_visible + max(model.n_hidden, n) * len(ways)))
        for first in range(0, len(alike), step):
            rows = alike[first : first + step]
            missing = codes[rows] == MISSING
            gaps = np.nonzero(missing)[1].reshape(len(rows), n)
            yield Filled(rows, np.where(missing, 0, codes[rows]).astype(np.float64), gaps, ways)


def hidden_fields(model: BoltzmannMachine, filled: Filled) -> np.ndarray:
    """Return the fields of hidden units for all fillings, (m, 2^n_missing, n_hidden).

    What is known pulls alike in all fillings of a row.
    """
    if not model.n_hidden:
        return np.empty((len(filled.rows), len(filled.ways), 0))
    fields: np.ndarray = filled.ways @ model.couplings.arrays[0][filled.gaps]
    fields += fields_of_hidden(model, filled.values)[:, None]
    return fields


def log_weights(model: BoltzmannMachine, filled: Filled, fields: np.ndarray, beta: float) -> np.ndarray:
    """Return log sum_h exp(-beta E(v, h)) of all fillings, (m, 2^n_missing), given the hidden units' fields."""
    units, values, ways = model.convention, filled.values, filled.ways
    pull = np.zeros(values.shape) if model.n_hidden else model.couplings.field(values)  # of visible units
    bias = model.flat_bias[: model.n_visible]
    known = (values * (bias + 0.5 * pull)).sum(axis=1) - model.offset
    found = known[:, None] + np.take_along_axis(bias + pull, filled.gaps, axis=1) @ ways.T
    if not model.n_hidden:
        for own, gaps in zip(found, filled.gaps, strict=True):
            own += 0.5 * (model.couplings.restrict(gaps).field(ways) * ways).sum(axis=1)
    found *= beta
    fields = fields.reshape(found.size, model.n_hidden)
    add_log_sums(found.reshape(-1), fields, beta * units.lo, beta * units.hi, np.empty((3, LANES)))
    return found


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

    def listed(filled: Filled) -> None:
        each[filled.rows] = log_sum(log_weights(model, filled, hidden_fields(model, filled), beta))
        bounds.add("exact")

    with single_threaded_blas():
        fan_out(listed, gapped.filled(), threads)
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
    seconds = 0.0
    for n_missing in np.flatnonzero(counts).tolist():
        if model.hidden_are_independent and n_missing <= MOST_LISTED:
            each = _seconds_of_listed(model, n_missing)
        else:
            least = LIST_SECONDS if n_missing + model.n_hidden <= MOST_LISTED else SUM_SECONDS
            each = max(forecast_seconds(_some_free(model, n_missing), moments=True), least)
        seconds += counts[n_missing] * each
    return seconds


def _seconds_of_listed(model: BoltzmannMachine, n_missing: int) -> float:
    """Estimate how long the sums over all fillings of a row take, moments included."""
    n_pairs = sum(array.size for array in model.couplings.arrays)
    n_filled = (n_missing + model.n_hidden) << n_missing
    return ROW_SECONDS + PAIR_SECONDS * (1 + n_missing) * n_pairs + WAY_SECONDS * n_filled


def _some_free(model: BoltzmannMachine, n_missing: int) -> BoltzmannMachine:
    """Return what is left free where the last of the visible units are missing.

    It stands for all rows that lack as many.
    """
    known = np.arange(model.n_visible - n_missing)
    return Clamped.of(model, known, np.full(len(known), model.convention.hi)).machine(0)


def are_filled_in(model: BoltzmannMachine, n_gaps: np.ndarray, how: How) -> np.ndarray:
    """Return for rows that lack so many entries whether their means soon come from all fillings, (n_rows,).

    This is for restricted machines; "exact" takes as long as it does.
    """
    found = (n_gaps > 0) & (n_gaps <= MOST_LISTED) & (how.method in ("auto", "exact") and model.layout == "restricted")
    if how.method == "auto":
        numbers = np.bincount(n_gaps[found])
        seconds = sum(m * _seconds_of_listed(model, n) for n, m in enumerate(numbers.tolist()))
        found &= seconds <= EXACT_SECONDS
    return found


def average_gaps(model: BoltzmannMachine, up: np.ndarray, lacking: np.ndarray, how: How) -> np.ndarray:
    """Return means of what is missing, (n_rows, n_visible), by all fillings; `up` and `lacking` as in `sample_gaps`."""
    codes = np.where(lacking, MISSING, model.convention.values(up)).astype(np.int8)
    means = np.zeros(up.shape)

    def one(filled: Filled) -> None:
        weights = log_weights(model, filled, hidden_fields(model, filled), how.beta)
        means[filled.rows[:, None], filled.gaps] = softmax(weights, axis=1) @ filled.ways

    with single_threaded_blas():
        fan_out(one, fillings(model, codes, np.arange(len(up))), how.threads)
    return means


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
