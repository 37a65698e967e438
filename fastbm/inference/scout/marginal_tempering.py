"""Parallel tempering of one side of a layered machine, from a product model to the machine.

Levels t_k of the path f_t = f_0^(1 - t) f^t, the other side summed out; the states x, x' of neighbours swap with
probability min(1, f_t(x') f_t'(x) / (f_t(x) f_t'(x'))).

Hukushima and Nemoto, J. Phys. Soc. Jpn. 65, 1604 (1996), doi:10.1143/JPSJ.65.1604.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ..._base import arrays, rng
from ..._base.steps import tell
from ..._base.threads import fan_out
from ...kernels.inference.marginal import follow_marginal
from .marginal import LANES, PAIR_SECONDS, PIECE_SECONDS, Marginal


@dataclass(frozen=True)
class Tempered:
    """The states that the ladders visited at the machine, t = 1.

    Attributes
    ----------
    up : (n_ladders, n_rounds, n_kept) uint8 array
        States of the kept units.
    round_trips : (n_ladders,) int array
        Of replicas, from the machine to the product model and back.
    """

    up: np.ndarray
    round_trips: np.ndarray


def temper_seconds(machine: Marginal, n_ladders: int, n_levels: int, n_rounds: int) -> float:
    """Estimate how long `temper` takes on one thread."""
    lanes = -(-n_levels // LANES) * LANES
    return PAIR_SECONDS * n_ladders * n_rounds * lanes * (machine.weights.size + 2 * len(machine.summed))


def temper(
    machine: Marginal,
    base: np.ndarray,
    ladder: np.ndarray,
    *,
    n_ladders: int,
    n_rounds: int,
    burn_in: int,
    seed: int,
    threads: int,
) -> Tempered:
    """Run independent ladders from states of the product model with log-odds `base` (n_units,).

    A round is a sweep and one attempt to swap; `burn_in` rounds go unseen.
    """
    n_levels, (m, n) = len(ladder), machine.weights.shape
    lanes = -(-n_levels // LANES) * LANES
    piece = max(1, int(PIECE_SECONDS / temper_seconds(machine, 1, n_levels, 1)))
    numbers = machine.arrays(base)
    streams, swaps = rng.streams(seed, n_ladders * lanes), rng.streams(seed, n_ladders, purpose=rng.SWAPS)

    def climb(c: int) -> tuple[np.ndarray, int]:
        generator = rng.keyed(seed, rng.INITIAL, c)
        up = arrays.copy((generator.random((m, lanes)) < expit(base[machine.kept])[:, None]).astype(np.uint8))
        up[:, 1::4], up[:, 3::4] = (
            1,
            0,
        )  # some replicas begin in the corners, where a mode may lie that no path leads to
        fields, sums, log_w = arrays.zeros((n, lanes), numbers[0].dtype), np.zeros(lanes), np.zeros(lanes)
        level = np.where(np.arange(lanes) < n_levels, np.arange(lanes), 0)
        mine = np.ascontiguousarray(streams[c * lanes : (c + 1) * lanes].T)
        own, ends = np.ascontiguousarray(swaps[c : c + 1].T), np.zeros(lanes, np.uint8)
        visited, trips = np.empty((burn_in + n_rounds, m), np.uint8), 0
        for first in range(0, len(visited), piece):
            tell("round of tempering", c * len(visited) + first, n_ladders * len(visited))
            rows = visited[first : first + piece]
            trips += follow_marginal(
                up, fields, sums, log_w, numbers, ladder, level, ends, mine, own, rows, len(rows), first
            )
        return visited[burn_in:], trips

    found = fan_out(climb, range(n_ladders), threads)
    return Tempered(np.stack([part[0] for part in found]), np.array([part[1] for part in found]))
