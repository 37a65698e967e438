"""Error bars of averages where nothing varied among the samples: by Laplace's rule of succession, not 0.

What was not seen in so many effective samples has a probability of about 1 / (ess + 2), known to as much. A state of
that probability lies log(ess + 2) / beta above those that were seen, and no further than the energies of the machine
reach.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import diagnostics
from ...diagnostics.autocorrelation import standard_errors
from ...sampling.unseen import rarely, unseen
from .samples import Samples


def energy_error(run: Samples, energy: np.ndarray, beta: float | None = None, error: float | None = None) -> float:
    """Return the standard error of the mean of energies, (n_samples, n_chains) of chains at one temperature.

    `error` is that of energies that varied, where it is known.
    """
    error = float(diagnostics.standard_error(energy)) if error is None else error
    if error > 0.0:
        return error
    coldest = float(np.max(run.beta)) if beta is None else beta
    return float(rarely(energy.size) * unseen(run._start, coldest, energy.size).energy)


def observable_error(values: np.ndarray, scale: float | None = None) -> float:
    """Return the standard error of the mean of an observable.

    `scale` is what an unseen state would differ by: the value itself, or 1 where that is 0, unless given.
    """
    error = float(diagnostics.standard_error(values))
    if error > 0.0:
        return error
    size = abs(float(values.flat[0])) or 1.0
    return unseen_error(values.size, size if scale is None else scale)


def observable_errors(series: Sequence[np.ndarray], scales: Sequence[float]) -> list[float]:
    """Return what `observable_error` does of each of many series and scales."""
    errors = zip(standard_errors(*series), series, scales, strict=True)
    return [error if error > 0.0 else unseen_error(values.size, scale) for error, values, scale in errors]


def across_chains(values: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return means over chains at each time, and their standard errors, of values (n_samples, n_chains).

    `scale` is what an unseen state would differ by. Errors are NaN for one chain.
    """
    n_chains = values.shape[1]
    if n_chains == 1:
        return values[:, 0], np.full(len(values), np.nan)
    error = values.std(axis=1, ddof=1) / np.sqrt(n_chains)
    return values.mean(axis=1), np.where(error > 0.0, error, unseen_error(n_chains, scale))


def unseen_error(n: int, scale: float) -> float:
    """Return the standard error of the mean of n values that did not vary, where an unseen one is off by `scale`."""
    return float(rarely(n)) * scale


def heat_error(run: Samples, energy: np.ndarray, beta: float) -> float:
    """Return the standard error of a specific heat per unit of energies that did not vary."""
    height = beta * float(unseen(run._start, beta, energy.size).energy)
    return float(rarely(energy.size)) * height * height / run._start.n_units


def floored(estimate: diagnostics.Estimate, floor: float) -> diagnostics.Estimate:
    """Return an estimate with `floor` in place of an error of 0; an error that is NaN stays so."""
    return estimate._replace(error=floor) if estimate.error == 0.0 else estimate
