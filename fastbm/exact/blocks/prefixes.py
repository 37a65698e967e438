"""How many pieces a sum in three blocks has: it depends on the number of units and on what is wanted alone.

It imports no kernels, so that a sum can be settled where none is done.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ..plan import Speeds, Wanted

LARGE_SECONDS, PIECE_SECONDS = 1.0, 30.0  # sums that are cut by prefixes, and least of a piece, by the built-in speeds
BUILT_IN = Speeds()
FEWEST_PREFIX, MOST_PREFIX = 4, 15  # units of a prefix


def prefix(k: int, n_prefix: int) -> tuple[int, ...]:
    """Return the bits of piece `k`, the first unit's first."""
    return tuple(k >> unit & 1 for unit in reversed(range(n_prefix)))


def prefix_length(n_units: int, wanted: Wanted) -> int:
    """Return how many units tell the pieces of a sum apart; 0 where it is too small to be cut for others."""
    return _length(n_units, n_products(wanted))


@lru_cache(maxsize=256)
def _length(n_units: int, products: int) -> int:
    doublings = n_units + math.log2(products * BUILT_IN.product_term)  # of a second
    if doublings <= math.log2(LARGE_SECONDS):
        return 0
    return min(max(math.floor(doublings - math.log2(PIECE_SECONDS)), FEWEST_PREFIX), MOST_PREFIX)


def n_products(wanted: Wanted) -> int:
    """Return how many matrix products a sum takes."""
    if not wanted.moments:
        return 1
    return 5 if wanted.energy_variance else 3
