"""log Z along a ladder of temperatures: Bennett's acceptance ratio, its multistate form, thermodynamic integration.

Bennett's ratio gives differences between neighbours of the ladder. With u = (beta' - beta) E and f(x) = 1 / (1 +
exp(x)), Delta = log Z(beta') - log Z(beta) solves, for as many samples at beta as at beta',

    <f(u + Delta)>_beta = <f(-u - Delta)>_beta'.

The multistate ratio, solved by pymbar, gives log Z of all levels at once: every sample n of every level is held against
all levels, p_k(n) = N_k exp(-beta_k E_n) / Z_k / sum_l of these, and the Z_k solve sum_n p_k(n) = N_k.

Thermodynamic integration is log Z(beta) = log Z(0) - int_0^beta <E> db. Between neighbours, h apart, Hermite's rule
takes the slope of <E>, which is minus the variance v of E,

    int <E> = h/2 (E_0 + E_1) + h^2/12 (v_1 - v_0) + O(h^5),

and the rule of next order the third cumulant c as well, d^2 <E> / dbeta^2 = c,

    int <E> = h/2 (E_0 + E_1) + h^2/10 (v_1 - v_0) + h^3/120 (c_0 + c_1) + O(h^7).

Bennett, J. Comput. Phys. 22, 245 (1976), eqs. 12-13, doi:10.1016/0021-9991(76)90078-4; Shirts and Chodera, J. Chem.
Phys. 129, 124105 (2008), doi:10.1063/1.2978177; Davis and Rabinowitz, Methods of Numerical Integration (1984), sec. 2.7
(rules with derivatives).
"""

from __future__ import annotations

import importlib
import logging
from typing import Any, NamedTuple

import numpy as np

from ..._base.arrays import near_one
from ..._base.threads import fan_out
from ...machine.magnitude import MOST

MOST_STEPS = 200
MOST_BYTES = 1e9  # of the energies of all samples at all levels, of which pymbar makes some copies


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

    def last(self) -> LogRatios:
        """Return the ratios of the last level alone."""
        return self._replace(log_z=self.log_z[-1:], terms=self.terms[..., -1:], floor=self.floor[-1:])


def fermi(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(x)), to full relative accuracy in both tails; 0 where that is below 1e-308."""
    with np.errstate(over="ignore"):
        found = np.exp(x)
    found += 1.0
    return np.reciprocal(found, out=found)


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
    """Return minus the derivative of <f(u + Delta)> - <f(-u - Delta)> by Delta."""
    return float((up * (1.0 - up)).mean() + (down * (1.0 - down)).mean())


def bennett(betas: np.ndarray, energies: np.ndarray, threads: int = 1) -> LogRatios:
    """Add up Bennett's differences along a ladder.

    Parameters
    ----------
    betas : (n_betas,) array
    energies : (n_samples, n_chains, n_betas) array
    threads : int

    Notes
    -----
    A sample of levels k and k + 1 adds (f(u_k + Delta) - f(-u_{k+1} - Delta)) / s to Delta, with s = <f (1 - f)>_k +
    <f (1 - f)>_{k+1}; summed over k before errors are told, as neighbours swap states and share samples. Where two
    levels have no sample in common s is 0 and Delta somewhere in the gap, whose half width is the `floor`.
    """
    n_betas = len(betas)
    terms = np.zeros_like(energies)
    delta, gap, overlap = np.zeros(n_betas), np.zeros(n_betas), np.zeros(n_betas - 1)

    def solve(k: int) -> None:
        centre = 0.5 * (energies[..., k].mean() + energies[..., k + 1].mean())
        step = betas[k + 1] - betas[k]
        low, high = step * (energies[..., k] - centre), step * (energies[..., k + 1] - centre)
        found = solve_pair(low, high)
        up, down = fermi(low + found), fermi(-high - found)
        slope = _slope(up, down)
        overlap[k] = 2.0 * slope
        if slope > np.finfo(np.float64).tiny:
            terms[..., k + 1] = (up - down) / slope
        else:
            gap[k + 1] = 0.5 * (max(low.max(), high.max()) - min(low.min(), high.min()))
        delta[k + 1] = found - step * centre

    fan_out(solve, range(n_betas - 1), threads)
    np.cumsum(terms, axis=-1, out=terms)
    return LogRatios(np.cumsum(delta), terms, np.sqrt(np.cumsum(gap**2)), overlap, {})


def pymbar_solver() -> Any:
    """Import pymbar, which is optional."""
    logger = logging.getLogger("pymbar")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # it tells at length, when it is imported, that JAX is not there
        return importlib.import_module("pymbar").MBAR
    except ImportError:
        raise ImportError(
            'engine="mbar" needs the package pymbar: pip install "fastbm[mbar]". engine="bennett" needs nothing '
            "and is nearly as precise where levels overlap."
        ) from None
    finally:
        logger.setLevel(level)


def mbar(betas: np.ndarray, energies: np.ndarray, threads: int = 1) -> LogRatios:
    """Solve for all levels of a ladder; (n_samples, n_chains, n_betas) energies.

    Notes
    -----
    pymbar's own errors take samples to be independent. Here errors come from the terms of the likelihood: with
    H = sum_n diag(p(n)) - p(n) p(n)^T, a sample of level l adds H^-1 (e_l - p(n)) to -log Z, and those of one sweep of
    a ladder are added up before their autocorrelation is taken.
    """
    solver = pymbar_solver()
    n_samples, n_chains, n_betas = energies.shape
    if n_betas == 1:
        return bennett(betas, energies, threads)
    needed = 8.0 * n_betas * energies.size
    if needed > MOST_BYTES:
        raise ValueError(
            f'engine="mbar" holds every sample against every level, here {needed / 1e9:.3g} GB; the limit is '
            f'{MOST_BYTES / 1e9:g}. Raise thin, or use engine="bennett".'
        )
    centre = float(energies.mean())
    pooled = np.moveaxis(energies, 2, 0).reshape(-1) - centre
    counts = np.full(n_betas, n_samples * n_chains)
    neighbours = bennett(betas, energies, threads)
    start = -(neighbours.log_z + (betas - betas[0]) * centre)
    found = solver(betas[:, None] * pooled, counts, initial_f_k=start, solver_protocol="robust")
    log_z = -(found.f_k - found.f_k[0])
    terms = _terms(betas, energies - centre, log_z)
    return LogRatios(log_z - (betas - betas[0]) * centre, terms, neighbours.floor, neighbours.overlap, {})


def _terms(betas: np.ndarray, energies: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """Return what each sweep of each ladder adds to log Z, (n_samples, n_chains, n_betas)."""
    n_betas = len(betas)
    score = np.zeros(energies.shape)
    curvature = np.zeros((n_betas, n_betas))
    for level in range(n_betas):
        exponent = -betas * energies[..., level, None] - log_z
        p = np.exp(exponent - exponent.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        score += p
        score[..., level] -= 1.0
        flat = p.reshape(-1, n_betas)
        curvature += np.diag(flat.sum(axis=0)) - flat.T @ flat
    # the first level is held at 0: the sum over levels is no constraint
    solved = np.linalg.lstsq(curvature[1:, 1:], score[..., 1:].reshape(-1, n_betas - 1).T, rcond=None)[0]
    terms = np.zeros(energies.shape)
    terms[..., 1:] = solved.T.reshape(*energies.shape[:2], n_betas - 1) * (energies.shape[0] * energies.shape[1])
    return terms


def integrate(betas: np.ndarray, energies: np.ndarray, threads: int = 1) -> LogRatios:
    """Integrate the mean energy up a ladder; (n_samples, n_chains, n_betas) energies.

    Notes
    -----
    `detail["discretisation_error"]` is by how much the two rules differ from the first level on, at the target: an
    estimate of the error that more samples do not cure but more betas do. It is the `floor`, by level.
    """
    energies, exponent = near_one(energies)
    betas = np.ldexp(betas, exponent)
    step = np.diff(betas)
    mean = energies.mean(axis=(0, 1))
    off = energies - mean
    variance, third = (off**2).mean(axis=(0, 1)), (off**3).mean(axis=(0, 1))
    trapezium = 0.5 * step * (mean[1:] + mean[:-1])
    curved = step**2 * np.diff(variance)
    hermite = trapezium + curved / 12.0
    with np.errstate(over="ignore"):  # of steps so long that the error is as good as infinite
        skewed = np.clip(step * (step * (step * (third[1:] + third[:-1]))) / 120.0, -MOST, MOST)
    next_order = trapezium + curved / 10.0 + skewed
    squares = off**2 - variance
    added = -0.5 * step * (off[..., 1:] + off[..., :-1]) - step**2 / 12.0 * np.diff(squares, axis=-1)
    terms = np.zeros(energies.shape)
    np.cumsum(added, axis=-1, out=terms[..., 1:])
    log_z, floor = np.zeros((2, len(betas)))
    log_z[1:] = -np.cumsum(hermite)
    floor[1:] = np.abs(np.cumsum(next_order - hermite))
    detail = {"discretisation_error": float(floor[-1])}
    return LogRatios(log_z, terms, floor, bennett(betas, energies, threads).overlap, detail)
