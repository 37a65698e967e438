"""Isoenergetic cluster moves between two ladders of replicas, at every level where they pay.

At equal beta the product of two Boltzmann distributions depends on the sum of the energies alone, which an exchange of
clusters keeps, with fields as without them: `fastbm.kernels.sampling.houdayer`.

Houdayer, Eur. Phys. J. B 22, 479 (2001), doi:10.1007/PL00011151; Zhu, Ochoa and Katzgraber, Phys. Rev. Lett. 115,
077201 (2015), doi:10.1103/PhysRevLett.115.077201.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .._base import rng
from .._base.halting import Halted, never
from .._base.threads import fan_out
from ..kernels.sampling.houdayer import houdayer_pairs
from ..machine.couplings import Couplings
from ..machine.units import Units
from .engine.lanes import PIECE_SECONDS, WORTH_A_THREAD

PLANAR_DEGREE = 4.0  # mean number of neighbours up to which half of the units do not percolate
FEW_UNITS = 64
UNIT_SECONDS = 1e-8  # about what a move takes for each unit
NO_FIELD = 1e-14  # of the largest coupling


class HoudayerMoves:
    """Moves between ladders 2k and 2k + 1, each pair and level with a random stream of its own.

    Parameters
    ----------
    couplings : Couplings
    bias : (1, n_units) or (n_ladders, n_units) array
    betas : (n_betas,) array
    seed, first_ladder, threads : int

    Attributes
    ----------
    levels : (n_levels,) array
        Where moves are made: at beta >= 1 / J, J the root mean square of the couplings (of spins), as clusters
        percolate at higher temperatures and a move is then little but a change of names; everywhere where units have at
        most 4 neighbours on average, as half of a planar lattice does not percolate.
    streams : (n_pairs, n_levels, 4) uint32 array

    Raises
    ------
    ValueError
        If ladders do not come in pairs of equal biases, or most units are coupled to each other.

    Notes
    -----
    Where no unit has a field, the states of both replicas and their negatives are alike. A pair with a negative overlap
    is then moved as that of one replica and the other's negative (Zhu et al. turn the replica for good, which would
    leave overlaps positive), so that clusters are those of the minority.
    """

    def __init__(
        self,
        couplings: Couplings,
        bias: np.ndarray,
        units: Units,
        betas: np.ndarray,
        *,
        n_ladders: int,
        seed: int,
        first_ladder: int,
        threads: int,
    ) -> None:
        indptr, indices, values = couplings.csr()
        _check(couplings.n_units, len(values), bias)
        self._indptr, self._indices, self._threads = indptr, indices, threads
        spin_values = values * (units.span**2 / 4.0)
        pull = couplings.field(np.ones((1, couplings.n_units)))[0]
        spin_bias = bias / 2.0 + pull / 4.0 if units.lo == 0 else bias
        largest = float(np.abs(spin_values).max(initial=0.0))
        self._symmetric = bool(np.abs(spin_bias).max(initial=0.0) <= NO_FIELD * largest)
        self.levels = levels_that_pay(couplings, units, betas)
        n_pairs = n_ladders // 2
        first = first_ladder // 2 * len(betas)
        own = rng.derive(seed, rng.SWAPS)
        streams = rng.streams(own, n_pairs * len(betas), first=first, purpose=rng.SWAPS)
        self.streams = np.ascontiguousarray(streams.reshape(n_pairs, len(betas), 4)[:, self.levels])
        self.halt: Callable[[], bool] = never

    @property
    def seconds(self) -> float:
        """About how many seconds a move of all pairs takes."""
        return UNIT_SECONDS * (len(self._indptr) - 1) * self.streams.size / (4 * self._threads)

    def move(self, up: np.ndarray, lanes: np.ndarray) -> None:
        """Make one move for every pair of ladders at every level. Mutates `up` (n_lanes, n_units) uint8.

        `lanes` (n_ladders, n_betas) says which row of `up` stands at which level.
        """
        held = lanes[:, self.levels]
        rows = np.stack([held[::2].ravel(), held[1::2].ravel()], axis=1)
        n_units, streams = up.shape[1], self.streams.reshape(-1, 4)
        threads = self._threads if len(rows) * n_units * UNIT_SECONDS >= WORTH_A_THREAD else 1
        longest = max(1, int(PIECE_SECONDS / (UNIT_SECONDS * n_units)))  # pairs between two looks for a stop
        long = len(rows) > longest
        step = max(1, min(longest, -(-len(rows) // threads)))

        def run(first: int) -> bool:
            if long and self.halt():
                return False
            some = slice(first, first + step)
            self._move_some(up, rows[some], streams[some])
            return True

        if not all(fan_out(run, range(0, len(rows), step), threads)):
            raise Halted

    def _move_some(self, up: np.ndarray, rows: np.ndarray, streams: np.ndarray) -> None:
        """Make moves for some pairs of rows of `up`.

        They work on copies that lie one after the other, so that the units of a lane are adjacent in memory.
        """
        pair = up[rows]
        turned = np.zeros((len(rows), 1), np.uint8)
        if self._symmetric:
            n_different = np.count_nonzero(pair[:, 0] != pair[:, 1], axis=1)
            turned[:, 0] = 2 * n_different > up.shape[1]
        pair[:, 1] ^= turned
        work = pair.reshape(2 * len(rows), -1)
        houdayer_pairs(work.T, self._indptr, self._indices, np.arange(len(work)).reshape(-1, 2), streams.T)
        pair[:, 1] ^= turned
        up[rows] = pair


def levels_that_pay(couplings: Couplings, units: Units, betas: np.ndarray) -> np.ndarray:
    """Return the entries of `betas` at which clusters do not percolate."""
    spin_values = couplings.csr()[2] * (units.span**2 / 4.0)
    if len(spin_values) <= PLANAR_DEGREE * couplings.n_units:
        return np.arange(len(betas))
    strength = math.sqrt(float(np.mean(spin_values**2)))
    return np.flatnonzero(betas * strength >= 1.0)


def check_pairs(n_ladders: int, first_ladder: int) -> None:
    """Refuse ladders that are no whole pairs."""
    if n_ladders % 2 or first_ladder % 2:
        raise ValueError(
            f"cluster=True exchanges clusters between chains 2k and 2k + 1: n_chains and first_chain must be even; got "
            f"n_chains = {n_ladders}, first_chain = {first_ladder}."
        )


def _check(n_units: int, n_entries: int, bias: np.ndarray) -> None:
    if n_units > FEW_UNITS and n_entries > n_units * (n_units - 1) / 2:
        raise ValueError(
            f"cluster=True needs sparse couplings; here a unit has {n_entries / n_units:.0f} neighbours of "
            f"{n_units - 1}, and clusters are everything or nothing. Leave cluster out."
        )
    if len(bias) > 1 and not np.array_equal(bias[::2], bias[1::2]):
        raise ValueError(
            "cluster=True needs chains 2k and 2k + 1 with the same biases; here clamped values differ between them. "
            "Take twice as many chains, or leave cluster out."
        )
