"""Starts of learning with hidden units, with couplings large enough for these to break their symmetry.

Where hidden units have no couplings, or units of one layer the same ones, the likelihood has a saddle at best; where
data have no correlations of pairs, as the rows of XOR, it is flat there to third order, and learning that starts near
it ends on it. So couplings to hidden units are drawn about as large as makes the fields of units vary by 1, and there
are several draws, of several sizes.
"""

from __future__ import annotations

import numpy as np

from ..._base import rng
from ...machine.machine import BoltzmannMachine
from ..errors.statistics import Statistics
from ..moments import Parameters
from ..optimise.centring import Centring

BROKEN = ("exact", "monte-carlo", "mean-field")  # methods that start from such draws; others grow from small couplings
SIZES = (1.0, 0.3, 2.0)  # of a unit's field, in turn


def hidden_pairs(like: BoltzmannMachine) -> np.ndarray:
    """Return which coupled pairs, in the order of `Couplings.to_vector`, have a hidden unit."""
    statistics = Statistics(like)
    return np.asarray(np.maximum(statistics.i, statistics.j) >= like.n_visible)


def drawn(like: BoltzmannMachine, centring: Centring, seed: int, number: int) -> np.ndarray:
    """Return start `number` as the optimiser's vector: `like` with other couplings to hidden units.

    Fields of units whose neighbours are at their means stay as they are.
    """
    pairs = np.flatnonzero(hidden_pairs(like))
    vector = centring.vector(Parameters.of(like))
    scale = SIZES[number % len(SIZES)] / np.sqrt(max(len(pairs) / like.n_hidden, 1.0))
    vector[pairs] = rng.keyed(seed, rng.MODEL, 1 + number).normal(scale=scale, size=len(pairs))
    return vector


def broken_symmetry(
    start: BoltzmannMachine, mean: np.ndarray, spread: np.ndarray, seed: int, beta: float
) -> BoltzmannMachine:
    """Return `start` with the first draw of couplings to hidden units.

    `mean` and `spread` are those of the visible units.
    """
    centring = Centring(start, mean, spread, beta)
    return centring.parameters(drawn(start, centring, seed, 0)).machine(start)
