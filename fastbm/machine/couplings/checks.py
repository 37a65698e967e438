"""Couplings out of what a user passed, checked once, and out of trusted arrays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._base import checks
from .dense import Dense
from .layered import Layered
from .protocol import Couplings, check_indices, check_size
from .sparse import Sparse

ROUNDING = 1e-12  # an asymmetry below this part of the largest coupling is rounding, and is averaged away
TILE = 256  # rows and columns that are compared at a time, in the cache
MOST_NAMED = 5  # units that a refusal names


def of_arrays(
    arrays: Sequence[np.ndarray], kind: str, *, n_units: int | None = None, edges: np.ndarray | None = None
) -> Couplings:
    """Make couplings of trusted arrays, those of a conditioned machine included, whose layers may be empty.

    `kind` is "dense", "layered" or "sparse"; sparse ones need `n_units` and `edges` too.
    """
    if kind == "layered":
        return Layered(arrays)
    if kind == "dense":
        return Dense(arrays[0])
    assert kind == "sparse" and n_units is not None and edges is not None
    return Sparse(n_units, edges, arrays[0])


def check(weights: Any) -> Couplings:
    """Check what a user passed as `weights` and return its couplings.

    A list or tuple of two-dimensional blocks is layered, a scipy.sparse matrix is sparse, anything else is one matrix.
    """
    if isinstance(weights, (Dense, Layered, Sparse)):
        return weights
    if _is_list_of_blocks(weights):
        return _check_layered(weights)
    if hasattr(weights, "tocsr"):
        return _check_sparse(weights)
    check_size(len(weights) if hasattr(weights, "__len__") and getattr(weights, "ndim", 1) > 0 else 0)
    matrix = checks.finite_array("weights", weights)
    _check_square(matrix.shape)
    return Dense(matrix if _check_symmetric(matrix) == 0.0 else (matrix + matrix.T) / 2)


def _is_list_of_blocks(weights: Any) -> bool:
    if not isinstance(weights, (list, tuple)):
        return False
    blocks = [
        block if hasattr(block, "ndim") else checks.any_array(f"weights[{k}]", block) for k, block in enumerate(weights)
    ]
    return len(blocks) > 0 and all(block.ndim == 2 for block in blocks)


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(
            f"weights must be a square matrix; got shape {shape}. For a layered machine pass a list of blocks."
        )
    if not shape[0]:
        raise ValueError("weights must couple at least one unit; got an empty matrix.")


def _check_symmetric(matrix: np.ndarray) -> float:
    """Check a matrix, tile by tile, and return its largest |W - W.T|, which may be rounding."""
    _refuse_diagonal(np.diagonal(matrix))
    gap, largest, place = 0.0, 0.0, (0, 0)
    firsts = range(0, len(matrix), TILE)
    for a, b in itertools.combinations_with_replacement(firsts, 2):
        tile, other = matrix[a : a + TILE, b : b + TILE], matrix[b : b + TILE, a : a + TILE].T
        if np.array_equal(tile, other):
            continue
        differences = np.abs(tile - other)
        i, j = divmod(int(differences.argmax()), tile.shape[1])
        largest = max(largest, float(np.abs(tile).max()), float(np.abs(other).max()))
        if differences[i, j] > gap:
            gap, place = float(differences[i, j]), (a + i, b + j)
    if gap > ROUNDING * largest and gap > ROUNDING * (largest := float(np.abs(matrix).max())):
        _refuse_asymmetry(gap, *place, not (np.triu(matrix).any() and np.tril(matrix).any()))
    return gap


def _refuse_diagonal(diagonal: np.ndarray) -> None:
    units = np.flatnonzero(diagonal)
    if units.size:
        i = int(units[0])
        named = ", ".join(map(str, units[:MOST_NAMED])) + (", ..." if len(units) > MOST_NAMED else "")
        raise ValueError(
            f"weights must have a zero diagonal; got {diagonal[i]:g} at ({i}, {i}), {len(units)} such entries in all "
            f"(units {named}). A unit's pull on itself belongs to the bias (binary units) or to the offset (spins)."
        )


def _refuse_asymmetry(gap: float, i: int, j: int, triangular: bool) -> None:
    """Say what to write; of a `triangular` matrix, which names each pair once, the mean would halve every coupling."""
    way_out = "Pass (W + W.T) / 2 to symmetrise"
    if triangular:
        way_out = "It is triangular: pass W + W.T, so that each coupling stands on both sides"
    raise ValueError(
        f"weights must be symmetric: max |W - W.T| = {gap:.3g} at ({min(i, j)}, {max(i, j)}). {way_out}; for a layered "
        "machine pass a list of blocks."
    )


def _check_sparse(weights: Any) -> Sparse:
    """Check a matrix at the cost of its entries; entries that name the same place add up, as in scipy."""
    _check_square(weights.shape)
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"weights must be a matrix of real numbers; got dtype {weights.dtype}.")
    from scipy.sparse import csr_array, tril, triu

    check_indices("weights", weights.shape[0])
    whole = csr_array(_wide(weights))
    whole.sum_duplicates()
    bad = np.flatnonzero(~np.isfinite(whole.data))
    if bad.size:
        raise ValueError(
            f"weights must be finite; {whole.data[bad[0]]} at {_place(whole, int(bad[0]))}, {len(bad)} such entries in "
            "all."
        )
    whole.eliminate_zeros()
    _refuse_diagonal(whole.diagonal())
    gap = abs(whole - whole.T)
    if gap.nnz:
        worst, largest = int(np.argmax(gap.data)), float(np.abs(whole.data).max())
        if gap.data[worst] > ROUNDING * largest:
            triangular = not (triu(whole).nnz and tril(whole).nnz)
            _refuse_asymmetry(float(gap.data[worst]), *_place(gap, worst), triangular)
        whole = (whole + whole.T) / 2
    upper = triu(whole, 1, format="csr")
    upper.sort_indices()
    return Sparse.of_upper(upper)


def _wide(matrix: Any) -> Any:
    """Return a copy of a sparse matrix in float64, before entries of one place are added up in a narrow type."""
    return matrix.astype(np.float64) if matrix.dtype.kind in "biuf" else matrix


def _place(matrix: Any, entry: int) -> tuple[int, int]:
    """Row and column of a stored entry."""
    return int(np.searchsorted(matrix.indptr, entry, side="right")) - 1, int(matrix.indices[entry])


def _check_layered(blocks: Sequence[Any]) -> Layered:
    blocks = [_wide(block).toarray() if hasattr(block, "toarray") else block for block in blocks]
    checked = [checks.finite_array(f"weights[{k}]", block) for k, block in enumerate(blocks)]
    for k, (upper, lower) in enumerate(itertools.pairwise(checked)):
        if upper.shape[1] != lower.shape[0]:
            raise ValueError(
                f"weights must be blocks between neighbouring layers: weights[{k}] has shape {upper.shape}, so "
                f"weights[{k + 1}] must have {upper.shape[1]} rows; it has shape {lower.shape}."
            )
    if any(0 in block.shape for block in checked):
        raise ValueError(f"weights must couple layers of at least one unit; got blocks {[b.shape for b in checked]}.")
    return Layered(checked)
