"""Averages at one temperature from samples of another: single-histogram reweighting, in the log domain.

    <O>(beta') = sum_t w_t O_t / sum_t w_t,    log w_t = -(beta' - beta) E_t.

Good as long as the energies that matter at beta' were visited at beta: about one standard deviation of the energy.
Weights alone do not tell: where those energies were never seen, the few heaviest of the samples stand for them. Those
behind the error bar, by w_t^2, are those of 2 beta' - beta, and so twice as far from the samples' mean energy as the
average at beta': the way there must be at most half of that to the outermost sample.

Ferrenberg and Swendsen, Phys. Rev. Lett. 61, 2635 (1988), doi:10.1103/PhysRevLett.61.2635.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._base import checks
from .autocorrelation import ess, finite
from .jackknife import jackknife

FEWEST = 10.0  # effective samples; below, a few samples carry the average and their error bar means nothing
FARTHEST = 0.5  # of the way from the samples' mean energy to the outermost sample
FEWEST_AT_END = 5.0  # effective samples of the outermost energy, which then is where energies end, not samples
ALIKE = 0.99  # of the largest weight: samples of the outermost energy, but for rounding


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
        Where `ess` is below 10, or the mean energy moves more than half the way to the outermost sample. The latter
        does not count where 5 effective samples have that energy, as many a ground state has.

    Notes
    -----
    Measured at 324 distances on rings, square lattices and random machines, 200 to 20,000 samples, independent and not:
    two errors hold the energy in 94 % of the cases without a warning (89 % with that of `ess` alone), in less than
    85 % of them at 8 of the distances (54). Within a standard deviation of the energy one in 10,000 was too far.

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
    moved, outermost = float((weights * log_weights).sum() / weights.sum()), float(log_weights.max())
    doubt = ""
    if left < FEWEST:
        doubt = f"leaves {left:.3g} effective samples of {energy.size}"
    elif moved > FARTHEST * outermost and effective * (weights > ALIKE).sum() < FEWEST_AT_END:
        doubt = f"moves the mean energy {moved / outermost:.2g} of the way to the outermost of {energy.size} samples"
    if doubt:
        checks.warn(
            f"reweighting from beta = {beta:g} to {new_beta:g} {doubt}: do not trust the value or its error. "
            'Sample nearer to it, or all the way with sampler="tempering".'
        )
    wide = weights.reshape(weights.shape + (1,) * (observable.ndim - 2))
    # from the plain mean on: what does not vary keeps its value, and large means keep their digits
    origin = observable.mean(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):  # where all the weight lies in one block
        ratio = jackknife(lambda top, bottom: top / bottom, wide * (observable - origin), wide, n_blocks=n_blocks)
    return origin + ratio.value, ratio.error, left
