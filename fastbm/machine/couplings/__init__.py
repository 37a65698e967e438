"""Couplings between units: dense, layered or sparse; frozen, and checked once when they are made."""

from .checks import check, of_arrays
from .dense import Dense
from .layered import Layered
from .protocol import DENSE_LIMIT, MOST_UNITS, Couplings, check_indices, check_size, row_blocks
from .sparse import Sparse

__all__ = [
    "DENSE_LIMIT",
    "MOST_UNITS",
    "Couplings",
    "Dense",
    "Layered",
    "Sparse",
    "check",
    "check_indices",
    "check_size",
    "of_arrays",
    "row_blocks",
]
