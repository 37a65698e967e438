"""The inverse of a symmetric positive definite matrix in place, tile by tile.

A = L L^T, X = L^-1, A^-1 = X^T X (Bientinesi, Gunter and van de Geijn, ACM Trans. Math. Softw. 35, 3 (2008),
doi:10.1145/1377603.1377606). LAPACK does the same in one call, which takes minutes at 16,384 units and cannot be left;
here no product takes longer than some hundredths of a second. Tiles are of one size and BLAS is held to a thread, so
that bits do not depend on threads.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..couplings.protocol import row_blocks
from ..threads import fan_out, single_threaded_blas

SMALLEST_CONDITION = 1e-10  # reciprocal condition number, in the 1-norm, below which a matrix counts as singular
TILE = 256


def invert(matrix: np.ndarray, threads: int = 1) -> np.ndarray | None:
    """Overwrite a symmetric matrix (C order) with its inverse and return it; None, and nothing sensible in the matrix,
    where it is not positive definite or nearly singular.
    """
    n = len(matrix)
    tiles = [slice(first, min(first + TILE, n)) for first in range(0, n, TILE)]
    norm = _norm(matrix)
    if not np.isfinite(norm):
        return None
    with single_threaded_blas():
        for k, own in enumerate(tiles):
            if not _invert_factor(matrix[own, own]):
                return None
            fan_out(partial(_column, matrix, own), tiles[k + 1 :], threads)
            fan_out(partial(_subtract, matrix, own), tiles[k + 1 :], threads)
        for k, own in enumerate(tiles):
            fan_out(partial(_invert_tile, matrix, own, matrix[own, : own.start].copy()), tiles[:k], threads)
        for k, own in enumerate(tiles):
            fan_out(partial(_multiply, matrix, own, matrix[own.start :, own].copy()), tiles[: k + 1], threads)
    for own in tiles:  # only the lower triangle has been made
        matrix[: own.start, own] = matrix[own, : own.start].T
        square = np.tril(matrix[own, own])
        matrix[own, own] = square + np.tril(square, -1).T
    return matrix if norm * _norm(matrix) < 1.0 / SMALLEST_CONDITION else None


def _norm(matrix: np.ndarray) -> float:
    n = len(matrix)
    return max((float(np.abs(matrix[rows]).sum(axis=1).max()) for rows in row_blocks(n, n)), default=0.0)


def _invert_factor(tile: np.ndarray) -> bool:
    """Overwrite A_kk with X_kk, which is all that the rest needs of it; whether it is positive definite."""
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(tile, lower=1)
    if not failed:
        tile[:], failed = lapack.dtrtri(factor, lower=1)
    return not failed


def _column(matrix: np.ndarray, own: slice, rows: slice) -> None:
    """L_ik = A_ik X_kk^T."""
    matrix[rows, own] = matrix[rows, own] @ matrix[own, own].T


def _subtract(matrix: np.ndarray, own: slice, rows: slice) -> None:
    """A_ij -= L_ik L_jk^T for k < j <= i."""
    columns = slice(own.stop, rows.stop)
    matrix[rows, columns] -= matrix[rows, own] @ matrix[columns, own].T


def _invert_tile(matrix: np.ndarray, own: slice, left: np.ndarray, columns: slice) -> None:
    """X_ij = -X_ii sum_(j <= k < i) L_ik X_kj; `left` holds L_ik."""
    between = slice(columns.start, own.start)
    matrix[own, columns] = -matrix[own, own] @ (left[:, between] @ matrix[between, columns])


def _multiply(matrix: np.ndarray, own: slice, right: np.ndarray, columns: slice) -> None:
    """(X^T X)_ij = sum_(k >= i) X_ki^T X_kj, j <= i; `right` holds X_ki."""
    matrix[own, columns] = right.T @ matrix[own.start :, columns]
