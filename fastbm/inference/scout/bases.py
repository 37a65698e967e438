"""Product models f_0 from which a machine is reached: the log-odds of every unit, one for each guess of its weight.

"uniform": all units free. "biases": visible units by their own biases (all units, where none is hidden). "data":
visible units by the base rates of the rows that the machine learned from (Salakhutdinov and Murray, ICML (2008),
doi:10.1145/1390156.1390266). "mean-field": means by naive mean field. "tempering": means that a short tempering saw.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._base import checks
from ..._base.threads import single_threaded_blas
from ...machine.machine import BoltzmannMachine
from ...sampling.unseen import rarely
from .bounds import RELAXATIONS, STEEPEST, certain, relaxed
from .scout import Scout, visible_biases

STARTS = ("uniform", "biases", "data", "mean-field", "tempering")
FAINTEST = 0.01  # probabilities of the mean-field base are kept this far from 0 and 1, unless a bias makes them certain
FAINTEST_SEEN = 0.002  # those of means that were observed


def check_start(model: BoltzmannMachine, start: Any, argument: str = "start") -> None:
    """Refuse a base that is unknown, or that this machine does not have."""
    if start is None:
        return
    if isinstance(start, str):
        checks.choice(argument, start, STARTS)
        if start == "data" and model.base_rates is None:
            raise ValueError(
                f'{argument}="data" needs the base rates of the data, which this machine does not carry (nor '
                f"does one with clamped units). Give it some by model.with_base_rates(bm.smoothed_rates(rows, model)), "
                f"or pass {argument}=means."
            )
        return
    means = checks.finite_array(argument, start)
    if means.shape not in ((model.n_units,), (model.n_visible,)):
        raise ValueError(
            f"{argument} must be a name or means of shape ({model.n_visible},) or ({model.n_units},); got "
            f"{means.shape}."
        )
    units = model.convention
    if means.min() < units.lo or means.max() > units.hi:
        raise ValueError(
            f"{argument} holds means of units between {units.lo} and {units.hi}; got {means.min():g} to "
            f"{means.max():g}."
        )


def plain_start(model: BoltzmannMachine, start: Any, argument: str) -> str | list[float] | None:
    """Check a base and return it as a plain value, for the spec of a run."""
    check_start(model, start, argument)
    if start is None or isinstance(start, str):
        return start
    means: list[float] = np.asarray(start, np.float64).tolist()
    return means


def has_field(model: BoltzmannMachine) -> bool:
    """Return whether the biases of visible units say anything."""
    return bool(np.any(model.flat_bias[: model.n_visible]))


def names(model: BoltzmannMachine, scout: Scout | None) -> list[str]:
    """Return the names of the bases that a machine has."""
    found = ["uniform", "mean-field"]
    if has_field(model):
        found.insert(1, "biases")
    if model.base_rates is not None:
        found.append("data")
    if scout is not None and scout.up is not None:
        found.append("tempering")
    return found


def log_odds(model: BoltzmannMachine, beta: float, start: Any, scout: Scout | None = None) -> np.ndarray:
    """Return log-odds (n_units,) of a checked base; for "tempering" from what a scout saw."""
    found = np.zeros(model.n_units)
    if not isinstance(start, str):
        units, means = model.convention, np.asarray(start, np.float64)
        sure = certain(model, beta)[: len(means)]
        found[: len(means)] = _logit_of_means((means - units.lo) / units.span, sure)
    elif start == "biases":
        found = visible_biases(model, beta)
    elif start == "data":
        assert model.base_rates is not None
        found[: model.n_visible] = _logit(model.base_rates, 1e-12)
    elif start == "mean-field":
        found = _mean_field(model, beta)
    elif start == "tempering":
        assert scout is not None and scout.up is not None
        found = _logit_of_means(scout.up.mean(axis=0), certain(model, beta))
    return np.clip(found, -STEEPEST, STEEPEST)


def unseen_starts(
    model: BoltzmannMachine, beta: float, base: np.ndarray, n_walks: int, step: float, units: np.ndarray
) -> float:
    """Return the relative standard error of Z that comes of what no walk from a product model has met.

    Walks that are all alike have no spread; yet a unit that stood the other way, as it would in one of `n_walks` by
    Laplace's rule, would have changed a weight.

    Parameters
    ----------
    base : (n_units,) array
        Log-odds of the product model.
    step : float
        The longest of the path, from 0 to 1.
    units : int array
        Those that weights depend on.

    Notes
    -----
    A flip changes log f - log f_0 by at most the `jump` here, and a weight by that times `step`. What is certain of a
    unit bounds how often it flips.
    """
    spin = model.to_units("spin")
    own, reach = 2.0 * beta * spin.flat_bias, 2.0 * beta * spin.couplings.absolute_sums()
    jump = step * (np.abs(own - base) + reach)
    sure = np.where(own * base > 0.0, np.minimum(np.abs(base), np.abs(certain(model, beta))), 0.0)
    chance = np.minimum(rarely(n_walks), np.sqrt(np.exp(-sure) / n_walks))
    return float((chance * -np.expm1(-jump))[units].max(initial=0.0))


def _logit(p: np.ndarray, faintest: float) -> np.ndarray:
    p = np.clip(p, faintest, 1.0 - faintest)
    found: np.ndarray = np.log(p) - np.log1p(-p)
    return found


def _logit_of_means(p: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """Return log-odds of means that were observed, kept from 0 and 1 as far as a bias does not make them certain."""
    found, extreme = _logit(p, FAINTEST_SEEN), np.minimum(p, 1.0 - p) <= FAINTEST_SEEN
    return np.where(extreme & (found * sure > 0.0) & (np.abs(sure) > np.abs(found)), sure, found)


def _mean_field(model: BoltzmannMachine, beta: float) -> np.ndarray:
    """Return the log-odds of mean field, rounded to be the same whatever BLAS does."""
    spin = model.to_units("spin")
    with single_threaded_blas():
        arguments = relaxed(spin, beta, np.zeros((1, model.n_units)), RELAXATIONS)[0]
    most = np.maximum(math.log((1 - FAINTEST) / FAINTEST), np.abs(certain(model, beta)))
    return np.clip(2 * arguments, -most, most)
