"""log Z of all levels of a ladder at once: the multistate Bennett acceptance ratio, solved by pymbar.

Every sample n of every level is held against all levels, p_k(n) = N_k exp(-beta_k E_n) / Z_k / sum_l of these, and the
Z_k solve sum_n p_k(n) = N_k.

Shirts and Chodera, J. Chem. Phys. 129, 124105 (2008), doi:10.1063/1.2978177.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

import numpy as np

from .bennett import LogRatios, bennett

MOST_BYTES = 1e9  # of the energies of all samples at all levels, of which pymbar makes some copies


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


def mbar(betas: np.ndarray, energies: np.ndarray) -> LogRatios:
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
        return bennett(betas, energies)
    needed = 8.0 * n_betas * energies.size
    if needed > MOST_BYTES:
        raise ValueError(
            f'engine="mbar" holds every sample against every level, here {needed / 1e9:.3g} GB; the limit is '
            f'{MOST_BYTES / 1e9:g}. Raise thin, or use engine="bennett".'
        )
    centre = float(energies.mean())
    pooled = np.moveaxis(energies, 2, 0).reshape(-1) - centre
    counts = np.full(n_betas, n_samples * n_chains)
    neighbours = bennett(betas, energies)
    start = -(neighbours.log_z + (betas - betas[0]) * centre)
    found = solver(betas[:, None] * pooled, counts, initial_f_k=start, solver_protocol="robust")
    log_z = -(found.f_k - found.f_k[0])
    terms = _terms(betas, energies - centre, log_z)
    return LogRatios(log_z - (betas - betas[0]) * centre, terms, neighbours.floor, neighbours.overlap, {})


def _terms(betas: np.ndarray, energies: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """What each sweep of each ladder adds to log Z, (n_samples, n_chains, n_betas)."""
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
