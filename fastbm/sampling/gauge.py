"""The gauge that turns couplings without frustration into a ferromagnet.

It is signs g_i with g_i g_j W_ij >= 0 (Mattis, Phys. Lett. A 56, 421 (1976), doi:10.1016/0375-9601(76)90396-0).
"""

from __future__ import annotations

import numpy as np

from ..kernels.graph import fix_gauge


def find_gauge(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray | None, tuple[int, int] | None]:
    """Find the signs that turn couplings into a ferromagnet, or an edge of a loop that forbids it.

    Parameters
    ----------
    indptr, indices, values : arrays
        The whole symmetric matrix by rows (CSR), without stored zeros.

    Returns
    -------
    signs : (n_units,) int8 array or None
        1 and -1, the first unit of every connected part being 1; None if a loop is frustrated.
    edge : (int, int) or None
        Two coupled units on a frustrated loop (one whose couplings have a negative product), the smaller first.

    Notes
    -----
    Breadth first along every connected part.  Cost O(n_units + edges).
    """
    n_units = len(indptr) - 1
    signs = np.zeros(n_units, np.int8)
    i, j = fix_gauge(signs, np.empty(n_units, np.int32), indptr, indices, values)
    return (signs, None) if i < 0 else (None, (min(i, j), max(i, j)))


def require_gauge(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, sampler: str) -> np.ndarray:
    """Return the signs of `find_gauge`.

    Raises
    ------
    ValueError
        If couplings are frustrated; the text names an edge of such a loop and the samplers to use.
    """
    signs, edge = find_gauge(indptr, indices, values)
    if signs is None:
        assert edge is not None
        raise ValueError(
            f'sampler="{sampler}" needs couplings without frustration; the loop through units {edge[0]} and {edge[1]} '
            'is frustrated (the product of its couplings is negative). Use sampler="tempering", which takes any '
            "couplings."
        )
    return signs
