"""Few chains on sparse couplings, whose units are drawn side by side: see `fastbm.kernels.sampling.levels`.

Groups of units are made once so many sweeps are asked for that they pay: bits are the same with them and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...kernels.ahead import COMPILED, leaps
from ...kernels.groups import SIDE, SPARE
from ...kernels.sampling.levels import PIECE, fill_slots, rank_units, spread_bits
from .fixed_point import Edges

WORTH, WORTH_ATTEMPTS = 8, 1 << 18  # sweeps, and attempts of all chains, that cost more than to make the groups
ORDERS = ("sequential", "coloured")  # the same in every sweep
GROUP, SLOT, UNIT, EDGE = 6.0, 4.0, 3.0, 0.4  # nanoseconds, about, of groups and of units one after the other


class Levels(NamedTuple):
    """Units in groups, in whose order bits lie.

    Attributes
    ----------
    ranks : (n_units,) int32 array
    pieces : (pieces + 1,) int32 array
        The groups of each piece of a sweep.
    slots : tuple of arrays
        As `fastbm.kernels.groups.draw_group` has them: bounds, bases, neighbours, rises.
    starts : (1 or n_chains, groups, SIDE) array
        Fields with all units down.
    limits : tuple of arrays
        Where each group's limits are: first_limit, places.
    """

    ranks: np.ndarray
    pieces: np.ndarray
    slots: tuple[np.ndarray, ...]
    starts: np.ndarray
    limits: tuple[np.ndarray, np.ndarray]

    def spread(self, up: np.ndarray) -> np.ndarray:
        """Return bits (n_units, chains) in the order of the groups, (chains, bytes)."""
        bits = np.zeros((up.shape[1], int(self.starts[0].size) + 2 * SPARE), np.uint8)
        spread_bits(up, self.ranks, bits)
        return bits

    def of_chains(self, chains: slice) -> tuple[Any, ...]:
        """Return what kernels take."""
        starts = self.starts if len(self.starts) == 1 else self.starts[chains]
        return self.pieces, self.slots, starts, *self.limits, leaps(), len(self.ranks)


def arrange(edges: Edges, start: np.ndarray, visit: np.ndarray, order: str) -> Levels | None:
    """Return the groups of units that are visited in this order, or None where they are no gain.

    `edges` (indptr, indices, rises) and `start` (1 or n_chains, n_units) are integers as kernels take them.
    """
    if not COMPILED or order not in ORDERS:
        return None
    indptr, indices, rises = edges
    n_units, in_order = len(visit), order == "coloured"
    ranks, pieces = np.empty(n_units, np.int32), np.empty(-(-n_units // PIECE) + 1, np.int32)
    n_groups = rank_units(indptr, indices, visit, in_order, ranks, pieces)
    units = np.full((n_groups, SIDE), -1, np.int32)
    units.reshape(-1)[ranks] = np.arange(n_units, dtype=np.int32)
    degrees = np.append(np.diff(indptr), 0).astype(np.int32)
    n_slots = int(degrees[units].max(axis=1).sum())
    if GROUP * n_groups + SLOT * n_slots > UNIT * n_units + EDGE * len(indices):
        return None
    starts = np.full((len(start), units.size), np.iinfo(rises.dtype).min, rises.dtype)  # no unit, nothing that goes up
    starts[:, ranks] = start
    slots = _slots(edges, ranks, units, 2 * n_slots)
    limits = _limits(visit, ranks, n_groups, in_order=in_order)
    return Levels(ranks, pieces, slots, starts.reshape(len(start), n_groups, SIDE), limits)


def _slots(edges: Edges, ranks: np.ndarray, units: np.ndarray, room: int) -> tuple[np.ndarray, ...]:
    bounds, bases = np.empty(len(units) + 1, np.int32), np.empty(room, np.int32)
    neighbours, rises = np.empty((room, SIDE), np.int32), np.empty((room, SIDE), edges[2].dtype)
    n_slots = fill_slots(*edges, ranks, units, bounds, bases, neighbours, rises)
    return bounds, bases[:n_slots], neighbours[:n_slots], rises[:n_slots]


def _limits(visit: np.ndarray, ranks: np.ndarray, n_groups: int, *, in_order: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return where a group's limits begin in those of its piece, or -1 and the place of each of them."""
    places = np.zeros((n_groups, SIDE), np.int32)
    places.reshape(-1)[ranks[visit]] = np.arange(len(visit), dtype=np.int32) % PIECE
    if in_order:
        return np.ascontiguousarray(places[:, 0]), places[:1]
    return np.full(n_groups, -1, np.int32), places


def cut(n_units: int, n_sweeps: int, longest: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield (first piece, last one + 1) and a number of sweeps, of about `longest` attempts at most."""
    n_pieces = -(-n_units // PIECE)
    if n_units > longest:
        step = max(1, longest // PIECE)
        for _ in range(n_sweeps):
            for a in range(0, n_pieces, step):
                yield (a, min(a + step, n_pieces)), 1
        return
    step = longest // n_units
    for first in range(0, n_sweeps, step):
        yield (0, n_pieces), min(step, n_sweeps - first)
