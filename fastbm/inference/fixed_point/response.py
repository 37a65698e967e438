"""Covariances by linear response: the inverse of the matrix of second derivatives at a fixed point.

The matrix is M = D^1/2 C^-1 D^1/2 with D = 1 - m^2, so that C = D^1/2 M^-1 D^1/2 and units that are frozen (D = 0) do
no harm. M has an entry for each coupled pair and its diagonal; at a stable fixed point it is positive definite. Whether
sparse factors of it can be had is told by how wide the machine's graph is, from a search in breadth.

A dense matrix is inverted in place, tile by tile: A = L L^T, X = L^-1, A^-1 = X^T X (Bientinesi, Gunter and van de
Geijn, ACM Trans. Math. Softw. 35, 3 (2008), doi:10.1145/1377603.1377606). LAPACK does the same in one call, which takes
minutes at 16,384 units and cannot be left; here no product takes longer than some hundredths of a second. Tiles are of
one size and BLAS is held to a thread, so that bits do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..._base.threads import fan_out, single_threaded_blas
from ...kernels.inference.selected_inverse import selected_inverse
from ...machine.couplings import Couplings
from ...machine.couplings.protocol import DENSE_LIMIT, row_blocks

SMALLEST_CONDITION = 1e-10  # reciprocal condition number, in the 1-norm, below which a matrix counts as singular
TILE = 256
SMALL = 48  # units up to which calls cost more than what they do
Entries = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
SECONDS = 60.0  # that the factors may take, about
SEPARATOR_SECONDS = 2e-8  # for the cube of the widest level


def invert(matrix: np.ndarray, threads: int = 1) -> np.ndarray | None:
    """Overwrite a symmetric matrix (C order) with its inverse and return it.

    Return None, and leave nothing sensible in the matrix, where it is not positive definite or nearly singular.
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


def invert_all(matrices: np.ndarray) -> np.ndarray | None:
    """Invert many symmetric matrices (m, n, n), as `invert` does each; small ones in one call. May overwrite them."""
    if matrices.shape[1] > SMALL:
        return matrices if all(invert(one) is not None for one in matrices) else None
    try:
        with single_threaded_blas():
            roots = np.linalg.inv(np.linalg.cholesky(matrices))
            inverses = roots.transpose(0, 2, 1) @ roots
    except np.linalg.LinAlgError:
        return None
    first, second = (np.abs(some).sum(axis=2).max(axis=1, initial=0.0) for some in (matrices, inverses))
    return inverses if np.all(first * second < 1.0 / SMALLEST_CONDITION) else None


def _norm(matrix: np.ndarray) -> float:
    n = len(matrix)
    return max((float(np.abs(matrix[rows]).sum(axis=1).max()) for rows in row_blocks(n, n)), default=0.0)


def _invert_factor(tile: np.ndarray) -> bool:
    """Overwrite the tile A_kk with X_kk, all that the rest needs of it; return whether it is positive definite."""
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(tile, lower=1)
    if not failed:
        tile[:], failed = lapack.dtrtri(factor, lower=1)
    return not failed


def _column(matrix: np.ndarray, own: slice, rows: slice) -> None:
    """Compute the tile L_ik = A_ik X_kk^T in place."""
    matrix[rows, own] = matrix[rows, own] @ matrix[own, own].T


def _subtract(matrix: np.ndarray, own: slice, rows: slice) -> None:
    """Subtract L_ik L_jk^T from the tiles A_ij, k < j <= i, in place."""
    columns = slice(own.stop, rows.stop)
    matrix[rows, columns] -= matrix[rows, own] @ matrix[columns, own].T


def _invert_tile(matrix: np.ndarray, own: slice, left: np.ndarray, columns: slice) -> None:
    """Compute the tile X_ij = -X_ii sum_(j <= k < i) L_ik X_kj; `left` holds L_ik."""
    between = slice(columns.start, own.start)
    matrix[own, columns] = -matrix[own, own] @ (left[:, between] @ matrix[between, columns])


def _multiply(matrix: np.ndarray, own: slice, right: np.ndarray, columns: slice) -> None:
    """Compute the tile (X^T X)_ij = sum_(k >= i) X_ki^T X_kj, j <= i; `right` holds X_ki."""
    matrix[own, columns] = right.T @ matrix[own.start :, columns]


def sech(arguments: np.ndarray) -> np.ndarray:
    """Return 1 / cosh, the root of 1 - tanh^2, without cancellation or overflow."""
    x = np.abs(arguments)
    root: np.ndarray = 2 * np.exp(-x) / (1 + np.exp(-2 * x))
    return root


@dataclass(frozen=True)
class ResponseMatrix:
    """The matrix M of linear response, by its diagonal and its entries.

    `entries(couplings, i, j)` of coupled pairs takes arrays that go together.
    """

    couplings: Couplings
    diagonal: np.ndarray
    entries: Entries

    def dense(self) -> np.ndarray:
        """Return the whole matrix."""
        n = self.couplings.n_units
        if self.couplings.kind == "dense":
            weights, units = self.couplings.matrix(), np.arange(n)
            matrix: np.ndarray = np.empty((n, n))
            for rows in row_blocks(n, 16 * n):
                matrix[rows] = self.entries(weights[rows], units[rows, None], units)
        else:
            matrix = np.zeros((n, n))
            i, indices, values = self._slots()
            matrix[i, indices] = self.entries(values, i, indices)
        np.fill_diagonal(matrix, self.diagonal)
        return matrix

    def _slots(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        indptr, indices, values = self.couplings.csr()
        return np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr)), indices, values

    def sparse(self) -> Any:
        """Return the matrix as a scipy.sparse.csc_array."""
        from scipy.sparse import csc_array

        n = self.couplings.n_units
        i, j, values = self._slots()
        own = np.arange(n, dtype=np.int32)
        data = np.concatenate([self.entries(values, i, j), self.diagonal])
        return csc_array((data, (np.concatenate([i, own]), np.concatenate([j, own]))), shape=(n, n))

    def covariance(self, root: np.ndarray, threads: int = 1) -> Any:
        """Return root_i (M^-1)_ij root_j, or None where M is not positive definite or nearly singular.

        A matrix; for sparse couplings of more than `DENSE_LIMIT` units a scipy.sparse.csr_array of the coupled pairs
        and the diagonal.
        """
        if self.couplings.n_units > DENSE_LIMIT:
            return _sparse_covariance(self.sparse(), root)
        inverse = invert(self.dense(), threads)
        if inverse is None:
            return None
        inverse *= root[:, None]
        inverse *= root[None, :]
        return inverse


def _sparse_covariance(matrix: Any, root: np.ndarray) -> Any:
    """Return the entries of root M^-1 root in the places of those of M, from the sparse factors of M.

    Which entries its factors have is taken from those of a matrix of the same places in which nothing can cancel: the
    order depends on the places alone.
    """
    from scipy.sparse import csc_array, csr_array, diags_array

    n = len(root)
    places = csc_array((np.full(matrix.nnz, -1.0), matrix.indices, matrix.indptr), shape=matrix.shape)
    pattern = _factors(places + diags_array(np.diff(matrix.indptr) + 1.0, format="csc"))
    factors = _factors(matrix)
    if pattern is None or factors is None or not np.array_equal(pattern.perm_c, factors.perm_c):
        return None
    pivots = factors.U.diagonal()
    if not np.array_equal(factors.perm_r, factors.perm_c) or not np.all(pivots > SMALLEST_CONDITION * pivots.max()):
        return None
    filled, lower = (factor.L.tocsc() for factor in (pattern, factors))
    filled.sort_indices()
    keys, found = (np.repeat(np.arange(n), np.diff(f.indptr)) * n + f.indices for f in (filled, lower))
    values = np.zeros(filled.nnz)
    values[np.searchsorted(keys, found)] = lower.data
    place, rows = factors.perm_c.astype(np.int64), matrix.tocsr()
    i, j = np.repeat(np.arange(n), np.diff(rows.indptr)), rows.indices
    inverse = np.empty(len(j))
    columns = filled.indptr.astype(np.int64), filled.indices.astype(np.int32)
    selected_inverse(values, pivots, columns, (place[i], place[j]), inverse)
    return csr_array((inverse * root[i] * root[j], j, rows.indptr), shape=(n, n))


def _factors(matrix: Any) -> Any:
    """Return factors L U of a symmetric matrix with pivots on the diagonal; None where it is singular."""
    from scipy.sparse.linalg import splu

    try:
        return splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True, "Equil": False}
        )
    except RuntimeError:
        return None


def widest_level(couplings: Couplings) -> int:
    """Return the size of the widest level of the largest connected part, without the trees that hang from it.

    A level is the units at one distance from a unit at the edge.

    Such a level separates the part; factors are dense on a separator, which is what they cost at least on lattices, and
    on graphs that are wider than these. Trees cost nothing, however wide they are: their leaves go first.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    indptr, indices, _ = couplings.csr()
    n = couplings.n_units
    graph = csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(n, n))
    if (kept := _without_trees(indptr, indices)).size < n:
        graph, n = graph[kept][:, kept], kept.size
    if not n:
        return 1
    _, label = connected_components(graph, directed=False)
    start = int(np.flatnonzero(label == np.bincount(label).argmax())[0])
    for _ in range(2):  # from anywhere, and from the unit that is farthest from there
        order, before = breadth_first_order(graph, start, directed=False)
        start = int(order[-1])
    level = [0] * n
    for unit, parent in zip(order[1:].tolist(), before[order[1:]].tolist(), strict=True):
        level[unit] = level[parent] + 1
    return int(np.bincount(np.array(level)[order]).max())


def _without_trees(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return the units that are left when leaves are taken away until there are none."""
    left = np.diff(indptr)
    leaves = np.flatnonzero(left <= 1).tolist()
    degrees = left.tolist()
    for unit in leaves:  # which grows
        degrees[unit] = 0
        for other in indices[indptr[unit] : indptr[unit + 1]].tolist():
            degrees[other] -= 1
            if degrees[other] == 1:
                leaves.append(other)
    kept = np.ones(len(left), bool)
    kept[leaves] = False
    return np.flatnonzero(kept)


def refuse_wide(couplings: Couplings) -> None:
    """Refuse covariances by linear response where the sparse factors would be too dense."""
    if couplings.n_units <= DENSE_LIMIT:
        return
    seconds = SEPARATOR_SECONDS * float(widest_level(couplings)) ** 3
    if seconds > SECONDS:
        raise ValueError(
            f"covariances of {couplings.n_units} units by linear response would take about {seconds:.2g} s and cannot "
            'be stopped: these couplings have no narrow separators. Pass moments=False, or use "bethe" or "gibbs".'
        )
