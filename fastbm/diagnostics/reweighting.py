"""Averages at one temperature from samples of another: single-histogram reweighting, in the log domain.

    <O>(beta') = sum_t w_t O_t / sum_t w_t,    log w_t = -(beta' - beta) E_t.

Good as long as the energies that matter at beta' were visited at beta: about one standard deviation of the energy.

Ferrenberg and Swendsen, Phys. Rev. Lett. 61, 2635 (1988), doi:10.1103/PhysRevLett.61.2635.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._base import checks
from .autocorrelation import ess, finite
from .jackknife import jackknife

FEWEST = 10.0  # effective samples; below, a few samples carry the average and their error bar means nothing
# of all weight that one sample carries; beyond it states that weigh more were missed, which effective samples alone do
# not show. On rings, lattices and glasses it tells 98 of 100 whose errors do not hold, FEWEST 69, and 3 others
LARGEST_SHARE = 0.05


class Reweighted(NamedTuple):
    """Averages at the new inverse temperatures, their standard errors, and the effective samples behind them."""

    value: Any
    error: Any
    ess: Any


def reweight(energy: Any, observable: Any, beta: float, new_beta: Any, *, n_blocks: int | None = None) -> Reweighted:
    """Return the mean of an observable at other inverse temperatures than that which was sampled.

    Parameters
    ----------
    energy : (n_samples, n_chains) array
        The model's energies E, not multiplied by beta, of samples of exp(-beta E).
    observable : (n_samples, n_chains, ...) array
        Of the same samples.
    beta : float
        The inverse temperature of the samples.
    new_beta : float or (n_new,) array
        The inverse temperatures that are asked for.
    n_blocks : int, optional
        Passed to `jackknife`.

    Returns
    -------
    Reweighted
        `value` and its jackknife `error`, (n_new, ...) or (...), and `ess`, (n_new,) or float: Kish's (sum w)^2 /
        sum w^2 times the part of the samples that is effective at beta.

    Raises
    ------
    ValueError
        If energy and observable are not of the same samples and chains.

    Warns
    -----
    ConvergenceWarning
        Where `ess` is below 10, or one sample carries more than a twentieth of all weight: the energies that matter at
        the new temperature were then hardly visited.

    References
    ----------
    Ferrenberg and Swendsen, Phys. Rev. Lett. 61, 2635 (1988), doi:10.1103/PhysRevLett.61.2635.
    """
    energies, observed = finite(energy), finite(observable)
    if energies.ndim != 2 or observed.shape[:2] != energies.shape:
        raise ValueError(
            "energy must have shape (n_samples, n_chains) and observable (n_samples, n_chains, ...); got "
            f"{energies.shape} and {observed.shape}."
        )
    old = checks.real("beta", beta)
    wanted = checks.finite_array("new_beta", new_beta)
    if wanted.ndim > 1:
        raise ValueError(f"new_beta must be a number or a vector; got shape {wanted.shape}.")
    effective = float(ess(energies)) / energies.size
    rows = [_one(energies, observed, old, float(b), effective, n_blocks) for b in np.atleast_1d(wanted)]
    value, error, left = (np.array([row[k] for row in rows]) for k in range(3))
    if wanted.ndim == 0:
        return Reweighted(value[0], error[0], float(left[0]))
    return Reweighted(value, error, left)


def _one(
    energy: np.ndarray, observable: np.ndarray, beta: float, new_beta: float, effective: float, n_blocks: int | None
) -> tuple[Any, Any, float]:
    log_weights = -(new_beta - beta) * (energy - energy.mean())
    weights = np.exp(log_weights - log_weights.max())
    left = effective * float(weights.sum() ** 2 / (weights**2).sum())
    share = 1.0 / float(weights.sum())  # of the heaviest sample, which weighs 1
    if left < FEWEST or share > max(LARGEST_SHARE, 2.0 / energy.size):
        checks.warn(
            f"reweighting from beta = {beta:g} to {new_beta:g} leaves {left:.3g} effective samples of {energy.size}, "
            f"one of which has {share:.2g} of all weight: do not trust the value or its error. Sample nearer to it.",
        )
    wide = weights.reshape(weights.shape + (1,) * (observable.ndim - 2))
    # from the plain mean on: what does not vary keeps its value, and large means keep their digits
    origin = observable.mean(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):  # where all the weight lies in one block
        ratio = jackknife(lambda top, bottom: top / bottom, wide * (observable - origin), wide, n_blocks=n_blocks)
    return origin + ratio.value, ratio.error, left
