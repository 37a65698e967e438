"""Averages over chains at each time that was recorded: how a machine relaxes, and how long it remembers.

Chains are independent, so that the error of a mean over them needs no series in time, unless they share an order of
updates that is drawn: how means vary with that order is not seen in one run. The overlap of a chain's state
with that of its first sample, C(t_w, t_w + t) = sum_i s_i(t_w) s_i(t_w + t) / n_units, is the correlation that ages: of
a glass it depends on t_w. Cugliandolo and Kurchan, Phys. Rev. Lett. 71, 173 (1993). doi:10.1103/PhysRevLett.71.173
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._base import checks
from ...sampling.unseen import unseen_flip
from .errors import across_chains, why_unknown
from .physics import check_chains, check_one_pattern
from .samples import Samples
from .series import correlations_with_first


class Relaxation(NamedTuple):
    """Means over the chains at one inverse temperature, and their standard errors, (n_samples,) each.

    Errors are widened to Student's quantile at 95 % over the normal one (2.2 for 3 chains, 1.2 for 8, 1.02 for 64), so
    that 1.96 of them hold the truth in 95 % of cases.

    Attributes
    ----------
    beta : float
    time : (n_samples,) int64 array
        Sweeps after the burn-in.
    energy, energy_error : (n_samples,) arrays
        Per unit; errors are NaN for one chain, and in random and permuted order.
    correlation, correlation_error : (n_samples,) arrays
        Of the state of each chain with its own first sample, of -1 and +1 for a unit; NaN where there are no states.
    """

    beta: float
    time: np.ndarray
    energy: np.ndarray
    energy_error: np.ndarray
    correlation: np.ndarray
    correlation_error: np.ndarray


def relaxation(run: Samples, beta: float | None) -> Relaxation:
    """Return means over chains at each recorded time, at one of the temperatures at which chains are."""
    check_chains(run)
    check_one_pattern(run, "relaxation")
    known, beta = np.unique(run.beta), None if beta is None else checks.real("beta", beta)
    if beta is None and len(known) > 1:
        raise ValueError(f"relaxation needs beta, one of {', '.join(f'{b:g}' for b in known)}.")
    chosen = float(known[-1] if beta is None else known[np.argmin(np.abs(known - beta))])
    if beta is not None and not np.isclose(chosen, beta):
        raise ValueError(
            f"beta must be a temperature at which chains were recorded; the nearest to {beta:g} is {chosen:g}."
        )
    if run.shares_order:
        checks.warn(f"errors of a relaxation are {why_unknown(run)}.")
    return of_chains(run, np.flatnonzero(run.beta == chosen))


def of_chains(run: Samples, chains: np.ndarray) -> Relaxation:
    """Return means over some chains, all of one temperature and clamped pattern, at each recorded time."""
    n_units, beta = run._start.n_units, float(run.beta[chains[0]])
    above = float(unseen_flip(run._start, beta, len(chains)).energy)
    energy, energy_error = across_chains(run, run.energy[:, chains], above)
    correlation = error = np.full(len(energy), np.nan)
    if run.has_states:
        correlation, error = across_chains(run, correlations_with_first(run)[:, chains], 2.0 / n_units)
        error[0] = 0.0  # of a state with itself
    return Relaxation(beta, run.times, energy / n_units, energy_error / n_units, correlation, error)


def as_rows(run: Samples) -> list[Mapping[str, Any]]:
    """Return the relaxation at every temperature as rows of plain numbers."""
    found = [relaxation(run, float(beta)) for beta in np.unique(run.beta)]
    columns = [one._replace(beta=np.full(len(one.time), one.beta))._asdict() for one in found]  # type: ignore[arg-type]
    return [dict(zip(table, row, strict=True)) for table in columns for row in zip(*table.values(), strict=True)]
