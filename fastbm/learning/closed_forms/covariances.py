"""Inversion of a covariance, with errors that name the units or pairs for which it fails."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SMALLEST_CONDITION = 1e-10  # reciprocal condition number, in the 1-norm, below which a matrix counts as singular


class Couplings(NamedTuple):
    """The result of an inversion, for spins at beta = 1.

    `diagonal` holds W_ii where the rule gives them: they are constants of the energy, -1/2 sum_i W_ii.
    """

    weights: np.ndarray
    bias: np.ndarray
    diagonal: np.ndarray | None = None


def inverse(covariance: np.ndarray) -> np.ndarray:
    """Return C^-1, symmetric.

    Raises
    ------
    numpy.linalg.LinAlgError
        If C is not positive definite, or nearly singular.
    """
    np.linalg.cholesky(covariance)
    found = np.linalg.inv(covariance)
    if np.linalg.norm(covariance, 1) * np.linalg.norm(found, 1) > 1.0 / SMALLEST_CONDITION:
        raise np.linalg.LinAlgError("nearly singular")
    return found


def symmetric(matrix: np.ndarray) -> np.ndarray:
    """Return the symmetric half of a matrix, without its diagonal."""
    half = (matrix + matrix.T) / 2
    np.fill_diagonal(half, 0.0)
    return half


def entropy(mean: np.ndarray) -> float:
    """Return the entropy of independent spins, in nats."""
    p = (1.0 + mean) / 2.0
    return float(-(p * np.log(p) + (1 - p) * np.log1p(-p)).sum())


def refuse_pairs(method: str, wrong: np.ndarray, why: str) -> None:
    """Raise an error that names the first pair for which `wrong` holds, if there is one."""
    pairs = np.argwhere(np.triu(wrong, 1))
    if len(pairs):
        i, j = pairs[0]
        raise ValueError(
            f'method "{method}" has no real solution for units {i} and {j}: {why}. There are {len(pairs)} such pairs '
            'in all. Raise flip_noise, or use another method: "naive-mean-field" has a solution wherever the '
            "covariance can be inverted."
        )
