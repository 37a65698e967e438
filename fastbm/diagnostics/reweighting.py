"""Averages at one temperature from samples of another: single-histogram reweighting, in the log domain.

    <O>(beta') = sum_t w_t O_t / sum_t w_t,    log w_t = -(beta' - beta) E_t.

Good as long as the energies that matter at beta' were visited at beta: about one standard deviation of the energy.
Weights alone do not tell: where those energies were never seen, the few heaviest of the samples stand for them. Those
behind the error bar, by w_t^2, are those of 2 beta' - beta, and so twice as far from the samples' mean energy as the
average at beta': the way there must be at most half of that to the outermost sample. Towards hotter temperatures the
outermost energy that was seen is no end, whatever number of samples has it: states are more numerous above it.

Ferrenberg and Swendsen, Phys. Rev. Lett. 61, 2635 (1988), doi:10.1103/PhysRevLett.61.2635.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._base import checks
from .autocorrelation import ess, finite
from .jackknife import jackknife

FEWEST = 10.0  # effective samples; below, a few samples carry the average and their error bar means nothing
FARTHEST = 0.5  # of the way from the samples' mean energy to the outermost sample
FEWEST_AT_END = 5.0  # effective samples of the outermost energy, which then is where energies end, not samples
ALIKE = 0.99  # of the largest weight: samples of the outermost energy, but for rounding
# towards hotter temperatures, where energies that were not seen come to weigh
FEW = 0.1  # of the effective samples, below which what may be unseen must not count
UNSEEN = 0.1  # of the error of the energy, which energies that were not seen may add
ALONE = 0.7  # of beta, down to which samples of one energy tell of others


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
        sum w^2 times the part of the samples that is effective at beta. If the observable is the energy, the error
        has what states may add that were just not seen: s samples miss energies of log(s) / beta above the lowest.

    Raises
    ------
    ValueError
        If energy and observable are not of the same samples and chains.

    Warns
    -----
    ConvergenceWarning
        Where `ess` is below 10, or the mean energy moves more than half the way to the outermost sample. The latter
        does not count at a larger beta where 5 effective samples have that energy, as many a ground state has. At a
        smaller one also where `ess` is less than a tenth of the samples and unseen energies may add a tenth of the
        error, and below 0.7 beta where all samples have one energy.

    Notes
    -----
    Measured at 4,500 temperatures of 0.1 to 1.6 times beta, on 18 lattices, glasses and random machines of 6 to 16
    units, 200 to 64,000 samples: two errors hold the energy in 95 % of the 3,521 cases without a warning, five in
    all but 9 of them.

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
    samples = _Samples(energies, old, float(ess(energies)), observable is energy)
    rows = [_one(samples, observed, float(b), n_blocks) for b in np.atleast_1d(wanted)]
    value, error, left = (np.array([row[k] for row in rows]) for k in range(3))
    if wanted.ndim == 0:
        return Reweighted(value[0], error[0], float(left[0]))
    return Reweighted(value, error, left)


@dataclass(frozen=True)
class _Samples:
    """Energies (n_samples, n_chains) that were sampled at `beta`, and how many of them are effective there."""

    energy: np.ndarray
    beta: float
    ess: float
    is_observed: bool  # the energy itself is asked for

    def log_weights(self, beta: float) -> np.ndarray:
        """Return log weights at another temperature."""
        return -(beta - self.beta) * (self.energy - self.energy.mean())

    def unseen(self, beta: float, log_mean: float) -> float:
        """Return what states may add to the mean energy that just were not seen; `log_mean` is that of the weights.

        One of probability 1 / s lies log(s) / beta above the lowest, but not beyond twice the energies that were seen.
        """
        lowest, log_s = float(self.energy.min()), math.log(max(self.ess, 2.0))
        reach = min(log_s / self.beta if self.beta > 0.0 else math.inf, 2.0 * float(np.ptp(self.energy)) or math.inf)
        if not math.isfinite(reach):
            return 0.0
        log_weight = -(beta - self.beta) * (lowest + reach - float(self.energy.mean()))
        return reach * math.exp(min(log_weight - log_s - log_mean, 0.0))


def _one(samples: _Samples, observable: np.ndarray, beta: float, n_blocks: int | None) -> tuple[Any, Any, float]:
    log_weights = samples.log_weights(beta)
    weights = np.exp(log_weights - log_weights.max())
    left = samples.ess / weights.size * float(weights.sum() ** 2 / (weights**2).sum())
    unseen = samples.unseen(beta, float(log_weights.max()) + math.log(float(weights.mean())))
    if doubt := _doubt(samples, beta, log_weights, weights, left, unseen):
        checks.warn(
            f"reweighting from beta = {samples.beta:g} to {beta:g} {doubt}: do not trust the value or its error. "
            'Sample nearer to it, or all the way with sampler="tempering".'
        )
    wide = weights.reshape(weights.shape + (1,) * (observable.ndim - 2))
    # from the plain mean on: what does not vary keeps its value, and large means keep their digits
    origin = observable.mean(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):  # where all the weight lies in one block
        ratio = jackknife(lambda top, bottom: top / bottom, wide * (observable - origin), wide, n_blocks=n_blocks)
    error = np.hypot(ratio.error, unseen) if samples.is_observed else ratio.error
    return origin + ratio.value, error, left


def _doubt(
    samples: _Samples, beta: float, log_weights: np.ndarray, weights: np.ndarray, left: float, unseen: float
) -> str:
    """Return why averages at another temperature are not to be trusted; empty where nothing speaks against them."""
    n, is_hotter = weights.size, beta < samples.beta
    if left < FEWEST:
        return f"leaves {left:.3g} effective samples of {n}"
    shares, outermost = weights / weights.sum(), float(log_weights.max())
    moved = float((shares * log_weights).sum())
    ends = not is_hotter and samples.ess / n * (weights > ALIKE).sum() >= FEWEST_AT_END
    if moved > FARTHEST * outermost and not ends:
        return f"moves the mean energy {moved / outermost:.2g} of the way to the outermost of {n} samples"
    if not is_hotter:
        return ""
    if not outermost and beta < ALONE * samples.beta:
        return f"goes far from {n} samples, all of one energy"
    energies = samples.energy - samples.energy.mean()
    variance = float((shares * energies**2).sum() - (shares * energies).sum() ** 2)
    if left < FEW * samples.ess and unseen**2 > UNSEEN**2 * variance / left:
        return f"leaves {left:.3g} effective samples of {samples.ess:.3g}, and what was not seen comes to weigh"
    return ""
