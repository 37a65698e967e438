"""The noise that steps leave in what they learn, beside the maximum, which rows do not take away.

With a slope whose noise of an update is a matrix Q, and F minus the Hessian, steps of a rate r leave the variance V
that F V + V F = r Q asks for: r / 2 times c where Q = c F. The data's part of c is 1 / batch_size - 1 / n_rows; that
of chains which persist is measured, as their memory adds up: the variance of long averages of moments, times their
length, over that of a row. Momentum counts 1 / (1 - momentum) times. Centred steps r G (slope) leave r / 2 c G, where
G_ii of a bias is 1 + sum_j mu_j^2 over the units it is coupled to. Adam's, r (slope) / sqrt(its variance), leave r / 2
(c / F_ii)^(1/2).

Mandt, Hoffman and Blei, J. Mach. Learn. Res. 18 (134), 1 (2017), arXiv:1704.04289, section 3.2; memory as in Flyvbjerg
and Petersen, J. Chem. Phys. 91, 461 (1989), doi:10.1063/1.457480.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..machine.machine import BoltzmannMachine
from .errors.errors import Errors
from .errors.statistics import Statistics
from .make import phases
from .moments import Parameters
from .optimise.sgd import PLAIN, SCHEDULES
from .settings import FitSettings
from .training_set import Sample

PERSISTENT = ("gibbs", "tempering", "auto")  # free phases whose chains remember
NOISELESS = ("exact", "mean-field", "tap")
STRETCHES, CALLS = 16, 32  # whose averages are compared, and updates in each
FORGOTTEN = 128  # updates before, in which chains come to rest
NO_ROWS = np.zeros((0, 0))


def variance_of_steps(
    model: BoltzmannMachine, sample: Sample, settings: FitSettings, found: Errors, threads: int
) -> np.ndarray | None:
    """Return the variance that steps leave in each parameter of a machine, in the order of `Statistics`.

    Parameters
    ----------
    model : BoltzmannMachine
        As learned.
    sample : Sample
        What it was learned from.
    settings : FitSettings
    found : Errors
        By the Fisher information, whose diagonal, with the means of the statistics, stands in its `detail`.
    threads : int

    Returns
    -------
    (n_parameters,) array, or None where the steps leave none

    Notes
    -----
    Without hidden units it is an upper estimate of the data's part: the mini-batches of an epoch have no rows in
    common, so that their noise in part cancels.
    """
    s = settings
    rate = s.learning_rate * SCHEDULES[s.schedule](1.0)
    if s.optimizer not in PLAIN or not rate:
        return None
    statistics, information = Statistics(model), found.detail["information"]
    noise = _noise_of_chains(model, sample, s, statistics, information, threads)
    if sample.up is not None and sample.n_rows:  # else moments, of which no part is drawn
        noise += max(0.0, 1.0 / s.batch_size - 1.0 / sample.n_rows)
    if s.optimizer == "adam":
        variance = 0.5 * rate * np.sqrt(_over(noise, information))
    else:
        variance = 0.5 * rate / (1.0 - s.momentum) * noise
    return variance * _stretch_of_centring(statistics, found.detail["mean"]) if s.centring else variance


def _noise_of_chains(
    model: BoltzmannMachine, sample: Sample, s: FitSettings, statistics: Statistics, information: np.ndarray,
    threads: int,
) -> np.ndarray:  # fmt: skip
    """Return the noise of free moments over updates, in units of the information of a row; no less than 1 / n_chains.

    Chains of their own run at the learned parameters.
    """
    least = np.full(len(statistics), 0.0 if s.free in NOISELESS else 1.0 / s.n_chains)
    if s.free not in PERSISTENT:
        return least
    free = phases(model, sample, replace(s, free="gibbs") if s.free == "auto" else s, threads)[1]
    averages = np.zeros((STRETCHES, len(statistics)))
    for k in range(-FORGOTTEN, STRETCHES * CALLS):
        one = free.moments(model, NO_ROWS)
        if k >= 0:
            averages[k // CALLS] += statistics.vector(Parameters(one.pairs, one.mean)) / CALLS
    of_chains = s.beta**2 * CALLS * averages.var(axis=0, ddof=1)
    return np.maximum(_over(of_chains, information), least)


def _over(noise: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Return noise over information; 0 where there is no information, and errors are infinite."""
    return np.divide(noise, information, out=np.zeros(len(noise)), where=information > 0.0)


def _stretch_of_centring(statistics: Statistics, mean: np.ndarray) -> np.ndarray:
    """Return the factors by which centring stretches steps: 1 of couplings, and of biases as the module says."""
    n, i, j = statistics.n_units, statistics.i, statistics.j
    squares = mean[statistics.n_pairs :] ** 2
    pulled = np.bincount(i, squares[j], minlength=n) + np.bincount(j, squares[i], minlength=n)
    return np.concatenate([np.ones(statistics.n_pairs), 1.0 + pulled])
