"""Likelihoods of data: log p(v) = log Z(v clamped) - log Z, and the pseudo-likelihood, which needs no Z.

Salakhutdinov and Murray, Proc. 25th ICML, 872 (2008), doi:10.1145/1390156.1390266; Besag, J. R. Stat. Soc. B 36, 192
(1974), doi:10.1111/j.2517-6161.1974.tb00999.x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from .._base import checks, rng, threads as threads_module
from .._base.arrays import unlike_rows
from .._base.threads import fan_out
from ..data import datasets
from ..data.moments import smoothed_rates
from ..diagnostics.verdicts import VERDICTS
from ..machine.checks import check_columns
from ..machine.clamping import Clamped, log_sums_over_hidden
from ..machine.machine import BoltzmannMachine, check_machine
from ..machine.magnitude import refuse_beyond_range
from .conditional.completions import RowSums, log_sums_of_known
from .conditional.layers import log_conditionals
from .conditional.listed import MOST_LISTED, Listed
from .methods import infer, make_estimator, run_method
from .result import Inference

ROWS = 1024  # that are worked on at a time
ENTRY_SECONDS, PAIR_SECONDS = 3e-8, 1e-10  # that the pseudo-likelihood of an entry takes, for itself and each unit
WORTH_A_THREAD = 0.02  # seconds of such work below which threads, whose Python waits for one another, save nothing
OTHER_SIDE = {
    "lower": "upper",
    "upper": "lower",
    "stochastic lower": "stochastic upper",
    "stochastic upper": "stochastic lower",
}


@dataclass(frozen=True, eq=False)
class LogLikelihood:
    """The log-likelihood of data, in nats a row.

    Attributes
    ----------
    method : str
        How log Z was computed, or "pseudo-likelihood".
    each : (n_rows,) array
        log p of every row.
    mean : float
    error : float
        Standard error of `mean` that comes from log Z, and from the hidden units' sums where these were sampled.
    spread : float
        Standard error of `mean` as an average over rows, if these are independent: how far another data set as large
        would be off.
    bound : {"exact", "lower", "upper", "stochastic lower", "stochastic upper", None}
        On which side of the truth `mean` lies: a log Z that is too low makes data look too likely.
    interval : (2,) tuple of float or None
        Where log Z has a bracket, what this leaves for `mean`.
    log_z : Inference or None
    clamped : Inference or None
        The sums over hidden units or missing entries, where these are estimates: log Z with each distinct row clamped.
    """

    method: str
    each: np.ndarray
    mean: float
    error: float | None
    spread: float
    bound: str | None = None
    interval: tuple[float, float] | None = None
    log_z: Inference | None = None
    clamped: Inference | None = None

    def __repr__(self) -> str:
        return f"<LogLikelihood: {str(self).splitlines()[0]}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        error = "" if not self.error else f" +- {self.error:.2g}"
        lines = [
            f"{self.method}: {self.mean:.6g}{error} nats a row ({self.bound or 'no bound'}), {len(self.each)} rows"
        ]
        lines.append(f"  between data sets of this size +- {self.spread:.2g}")
        if self.interval:
            lines.append(f"  bracket {self.interval[0]:.6g} to {self.interval[1]:.6g}")
        if self.log_z is not None and self.log_z.converged is not True:
            doubt = f": {self.log_z.detail['doubt']}" if "doubt" in self.log_z.detail else ""
            lines.append(f"  log Z {VERDICTS[self.log_z.converged]}{doubt}")
        if self.clamped is not None and self.clamped.converged is not True:
            lines.append(f"  sums of clamped rows by {self.clamped.method}: {VERDICTS[self.clamped.converged]}")
        return "\n".join(lines)


def log_likelihood(
    model: BoltzmannMachine,
    data: Any,
    method: str | Inference = "exact",
    *,
    beta: float = 1.0,
    clamped: str = "exact",
    seed: int | None = 0,
    threads: int | None = None,
    **options: Any,
) -> LogLikelihood:
    """Compute the log-likelihood of data, held out or not.

    Parameters
    ----------
    model : BoltzmannMachine
    data : (n_rows, n_visible) array or str
        In the units of the machine; or where to find it, as for `fit`: "FILE.h5:dataset", "FILE.npz:member", ...
        Where entries are NaN, or masked, the likelihood is that of the others of their row.
    method : str or Inference
        How log Z is computed: any method of `infer` that gives log Z, or a result that is there already, of this
        machine at this beta.
    beta : float
    clamped : str
        How the sum over hidden units is done where they are coupled to one another, for each distinct row: a method of
        `infer`. Elsewhere it has a closed form, unless a row lacks more than 12 entries.
    seed, threads, **options
        Of the method for log Z.

    Returns
    -------
    LogLikelihood

    Raises
    ------
    ValueError
        If the method gives no log Z; for a result of another machine, at another beta or with clamped units; or for
        data of another width or in other units.

    Examples
    --------
    >>> import fastbm as bm
    >>> model = bm.models.curie_weiss(4)
    >>> round(bm.log_likelihood(model, [[1, 1, 1, 1], [-1, 1, -1, 1]]).mean, 6)
    -2.525415
    """
    beta, n_threads = checks.real("beta", beta, least=0.0), threads_module.resolve(threads)
    rows, seed = _rows(model, data), rng.resolve(seed)
    refuse_beyond_range(model, beta)
    make_estimator(clamped, {}, "clamped")
    log_z = method
    if isinstance(log_z, Inference):
        if options:
            raise TypeError(
                f"method is a finished Inference, so that {min(options)!r} would do nothing. Leave it out, or name the "
                "method."
            )
        if log_z.subject is not None:
            log_z.subject.refuse_other("method", model, beta)
    else:
        log_z = infer(_with_rates(model, rows), log_z, beta=beta, moments=False, seed=seed, threads=threads, **options)
    if log_z.log_z is None or np.ndim(log_z.log_z):
        raise ValueError(f"method must give log Z of the machine; {log_z.method!r} does not. Use 'exact' or 'ais'.")
    sums, error, side, found = log_sums(model, rows, beta, n_threads, clamped, seed)
    mean = float(sums.mean())
    return LogLikelihood(
        log_z.method,
        sums - log_z.log_z,
        mean - log_z.log_z,
        None if log_z.log_z_error is None or error is None else math.hypot(log_z.log_z_error, error),
        _spread(sums),
        _bound(side, log_z.bound),
        _interval(mean, log_z) if side == "exact" else None,
        log_z,
        found,
    )


def pseudo_likelihood(
    model: BoltzmannMachine, data: Any, *, beta: float = 1.0, threads: int | None = None
) -> LogLikelihood:
    """Compute the pseudo-likelihood of data: the sum over visible units of log p(v_i | all other visible units).

    Parameters
    ----------
    model : BoltzmannMachine
        Without hidden units, or of two layers, whose hidden units are summed out.
    data : (n_rows, n_visible) array or str
        As for `log_likelihood`.
    beta : float
    threads : int, optional

    Returns
    -------
    LogLikelihood
        It has no error but for the spread of the rows.

    Raises
    ------
    ValueError
        If there are hidden units and no two layers; or entries of data are missing.
    """
    beta, n_threads = checks.real("beta", beta, least=0.0), threads_module.resolve(threads)
    rows = _rows(model, data)
    refuse_beyond_range(model, beta)
    if np.isnan(rows).any():
        raise ValueError("the pseudo-likelihood needs whole rows; entries of data are missing. Use log_likelihood.")
    if not model.hidden_are_independent:
        raise ValueError(
            "the pseudo-likelihood needs a machine without hidden units, or a restricted one. Use log_likelihood."
        )
    units = np.arange(model.n_visible)

    def one(first: int) -> np.ndarray:
        return log_conditionals(model, rows[first : first + ROWS], units, beta).sum(axis=1)

    each = _of_parts(one, rows, ENTRY_SECONDS + PAIR_SECONDS * model.n_units, n_threads)
    return LogLikelihood("pseudo-likelihood", each, float(each.mean()), 0.0, _spread(each))


def log_sums(
    model: BoltzmannMachine, rows: np.ndarray, beta: float, threads: int, method: str = "exact", seed: int = 0
) -> RowSums:
    """Return log Z with the visible units held at each row of values.

    Where a value is NaN, the unit is free.
    """
    if np.isnan(rows).any():
        return log_sums_of_known(model, rows, beta, threads, method, seed)
    if model.has_free_energy:

        def one(first: int) -> np.ndarray:
            some = rows[first : first + ROWS]
            if model.layout == "restricted":
                return log_sums_over_hidden(model, some, beta)
            return -np.atleast_1d(model.free_energy(some, beta=beta))

        return RowSums(_of_parts(one, rows, PAIR_SECONDS * model.n_units, threads), 0.0, "exact")
    first, inverse = unlike_rows(rows)
    clamp = (np.arange(model.n_visible), rows[first])
    if method == "exact" and model.n_hidden <= MOST_LISTED:
        return RowSums(Listed(Clamped.of(model, *clamp), beta, threads).log_z()[inverse], 0.0, "exact")
    found = run_method(model, method, beta=beta, clamp=clamp, moments=False, seed=seed, threads=threads)
    if found.log_z is None:
        raise ValueError(f"clamped must be a method that gives log Z; {method!r} does not. Use 'exact' or 'ais'.")
    error = None
    if found.log_z_error is not None:
        error = float(np.linalg.norm(np.bincount(inverse) * found.log_z_error)) / len(rows)
    return RowSums(found.log_z[inverse], error, found.bound, found)


def _of_parts(one: Callable[[int], np.ndarray], rows: np.ndarray, seconds: float, threads: int) -> np.ndarray:
    """Return what `one` tells of rows, from a number on `ROWS` of them, on threads where they are worth their while.

    `seconds` is what an entry of a row takes, about. BLAS has one thread: bits do not depend on how many there are.
    """
    threads = threads if rows.size * seconds >= WORTH_A_THREAD else 1
    with threads_module.single_threaded_blas():
        return np.concatenate(fan_out(one, range(0, len(rows), ROWS), threads))


def _rows(model: BoltzmannMachine, data: Any) -> np.ndarray:
    """Return data as values, (n_rows, n_visible), NaN where an entry is missing."""
    check_machine(model)
    found = datasets.load(str(data)).rows if isinstance(data, (str, Path)) else check_columns("data", data, model.names)
    missing = np.ma.getmaskarray(found) if isinstance(found, np.ma.MaskedArray) else False
    array = found.data if isinstance(found, np.ma.MaskedArray) else checks.any_array("data", found)
    if array.dtype.kind == "f":
        missing = missing | np.isnan(array)
    whole = np.where(missing, model.convention.lo, array) if array.dtype.kind in "biuf" else array  # which is refused
    up = model.check_states(whole, argument="data", n_units=model.n_visible)
    if up.ndim != 2 or not len(up):
        raise ValueError(f"data must have shape (n_rows, {model.n_visible}), n_rows at least 1; got {up.shape}.")
    return np.where(missing, np.nan, model.convention.values(up, np.float64))


def _with_rates(model: BoltzmannMachine, rows: np.ndarray) -> BoltzmannMachine:
    """Return the machine with base rates from which annealing may start: its own, or those of the rows."""
    return model if model.base_rates is not None else model.with_base_rates(smoothed_rates(rows, model))


def _spread(each: np.ndarray) -> float:
    return float(each.std(ddof=1)) / math.sqrt(len(each)) if len(each) > 1 else math.inf


def _bound(of_clamped: str | None, of_log_z: str | None) -> str | None:
    """Return the bound of a difference: that of the first and the other side of the second, where they agree."""
    other = OTHER_SIDE.get(str(of_log_z), of_log_z)
    if of_clamped == "exact" or of_clamped == other:
        return other
    return of_clamped if other == "exact" else None


def _interval(mean: float, log_z: Inference) -> tuple[float, float] | None:
    """Return the interval that a bracket leaves; None where its upper end bounds nothing.

    Noise may have its two ends crossed.
    """
    if not log_z.detail.get("upper_holds"):
        return None
    ends = mean - log_z.detail["log_z_upper"], mean - log_z.detail["log_z_lower"]
    return min(ends), max(ends)
