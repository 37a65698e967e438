"""Differences of log Z between neighbours of a ladder of temperatures, by Bennett's acceptance ratio.

With u = (beta' - beta) E and f(x) = 1 / (1 + exp(x)), Delta = log Z(beta') - log Z(beta) solves, for as many samples
at beta as at beta',

    <f(u + Delta)>_beta = <f(-u - Delta)>_beta'.

Bennett, J. Comput. Phys. 22, 245 (1976), eqs. 12-13, doi:10.1016/0021-9991(76)90078-4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MOST_STEPS = 200


class LogRatios(NamedTuple):
    """log Z of every level of a ladder over that of the first, and where its errors come from.

    Attributes
    ----------
    log_z : (n_betas,) array
    terms : (n_samples, n_chains, n_betas) array
        What every sample of all levels adds to log_z - <log_z>, to first order: their mean is 0, and the standard
        error of their mean, autocorrelation and all, is that of `log_z`.
    floor : (n_betas,) array
        Error that the terms do not show.
    overlap : (n_betas - 1,) array
        2 int p p' / (p + p') of neighbours' distributions of the energy: 1 where they agree, 0 where no sample of one
        could be one of the other.
    detail : dict
    """

    log_z: np.ndarray
    terms: np.ndarray
    floor: np.ndarray
    overlap: np.ndarray
    detail: dict[str, Any]


def fermi(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(x)), to full relative accuracy in both tails."""
    return np.exp(-np.logaddexp(0.0, x))


def solve_pair(low: np.ndarray, high: np.ndarray) -> float:
    """Solve Bennett's equation for samples of u at beta (`low`) and at beta' (`high`), as many of each.

    The difference of the two sides falls as Delta grows, and changes sign between -max u and -min u: Newton's steps,
    halving where they leave the bracket.
    """
    left = -max(float(low.max()), float(high.max()))
    right = -min(float(low.min()), float(high.min()))
    delta = 0.5 * (left + right)
    for _ in range(MOST_STEPS):
        up, down = fermi(low + delta), fermi(-high - delta)
        excess = float(up.mean() - down.mean())
        slope = _slope(up, down)
        if excess == slope == 0.0:
            return delta  # inside a gap that no sample of either level comes near
        left, right = (delta, right) if excess > 0 else (left, delta)
        found = delta + excess / slope if slope > 0 else np.inf
        if not left <= found <= right:
            found = 0.5 * (left + right)
        if abs(found - delta) <= 1e-13 * (1.0 + abs(found)):
            return found
        delta = found
    return delta


def _slope(up: np.ndarray, down: np.ndarray) -> float:
    """Minus the derivative of <f(u + Delta)> - <f(-u - Delta)> by Delta."""
    return float((up * (1.0 - up)).mean() + (down * (1.0 - down)).mean())


def bennett(betas: np.ndarray, energies: np.ndarray) -> LogRatios:
    """Add up Bennett's differences along a ladder.

    Parameters
    ----------
    betas : (n_betas,) array
    energies : (n_samples, n_chains, n_betas) array

    Notes
    -----
    A sample of levels k and k + 1 adds (f(u_k + Delta) - f(-u_{k+1} - Delta)) / s to Delta, with s = <f (1 - f)>_k +
    <f (1 - f)>_{k+1}; summed over k before errors are told, as neighbours swap states and share samples. Where two
    levels have no sample in common s is 0 and Delta somewhere in the gap, whose half width is the `floor`.
    """
    n_betas = len(betas)
    terms = np.zeros(energies.shape)
    delta, gap, overlap = np.zeros(n_betas), np.zeros(n_betas), np.zeros(n_betas - 1)
    for k in range(n_betas - 1):
        centre = 0.5 * (energies[..., k].mean() + energies[..., k + 1].mean())
        step = betas[k + 1] - betas[k]
        low, high = step * (energies[..., k] - centre), step * (energies[..., k + 1] - centre)
        found = solve_pair(low, high)
        up, down = fermi(low + found), fermi(-high - found)
        slope = _slope(up, down)
        overlap[k] = 2.0 * slope
        terms[..., k + 1] = terms[..., k]
        if slope > np.finfo(np.float64).tiny:
            terms[..., k + 1] += (up - down) / slope
        else:
            gap[k + 1] = 0.5 * (max(low.max(), high.max()) - min(low.min(), high.min()))
        delta[k + 1] = found - step * centre
    return LogRatios(np.cumsum(delta), terms, np.sqrt(np.cumsum(gap**2)), overlap, {})
