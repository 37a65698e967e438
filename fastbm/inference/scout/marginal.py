"""The marginal of one side of a layered machine, the other side summed out.

The layers of even number are coupled to those of odd number alone, so that given the units of one side those of the
other are independent: log f(x) = c x + sum_i log(1 + exp(b_i + sum_j x_j w_ji)) is known for states x of one side, at
the cost of a sum over the other. The side with fewer units is kept.

Salakhutdinov and Murray, ICML (2008), p. 872, doi:10.1145/1390156.1390266.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from ..._base.threads import fan_out
from ...machine.couplings import Layered
from ...machine.machine import BoltzmannMachine
from ...machine.up_form import up_form
from ...sampling.engine.layered import LOG_ODDS_ERROR

LANES = 16  # chains of a block: their fields stay in the cache
PAIR_SECONDS = 1e-9  # that the draw of a kept unit takes for every summed one in a lane, about
PIECE_SECONDS = 0.05  # work of a thread between two returns to Python, where an interruption takes effect
ROWS = 1 << 19  # numbers that a block of states, which a thread takes at once, may have
PAIRS = 1 << 26  # couplings of the two sides that are held as one matrix


@dataclass(frozen=True)
class Marginal:
    """A layered machine in terms of units that are up, with the factor beta in all numbers.

    Attributes
    ----------
    kept, summed : int arrays
        Units of the smaller side and of the other.
    weights : (n_kept, n_summed) array
    bias : (n_units,) array
        Log-odds of every unit where all others are down.
    constant : float
        -beta E of the state in which all are down.
    """

    n_units: int
    kept: np.ndarray
    summed: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    constant: float

    @classmethod
    def of(cls, model: BoltzmannMachine, beta: float) -> Marginal:
        """Take the sides of a layered machine apart."""
        assert isinstance(model.couplings, Layered)
        form, field = up_form(model.couplings, model.flat_bias, model.convention)
        layers, sides = layers_of(model), sides_of(model)
        kept, summed = sorted(sides, key=len)
        place = np.empty(model.n_units, np.int64)
        place[kept], place[summed] = np.arange(len(kept)), np.arange(len(summed))
        weights = np.zeros((len(kept), len(summed)))
        for k, block in enumerate(form.arrays):
            above, below = layers[k], layers[k + 1]
            if kept is sides[k % 2]:
                weights[np.ix_(place[above], place[below])] = beta * block
            else:
                weights[np.ix_(place[below], place[above])] = beta * block.T
        down = np.full((1, model.n_units), model.convention.lo)
        return cls(model.n_units, kept, summed, weights, beta * field, -beta * float(model.energy(down)[0]))

    @cached_property
    def worst(self) -> float:
        """The largest log-odds that a unit can have."""
        own = np.abs(self.bias)
        return float(max(
            (own[self.kept] + np.abs(self.weights).sum(axis=1)).max(initial=0.0),
            (own[self.summed] + np.abs(self.weights).sum(axis=0)).max(initial=0.0),
        ))  # fmt: skip

    def arrays(self, base: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return what the kernels take on a path from log-odds `base` (n_units,).

        These are weights, bias of the summed units, and pulls of `sweep_marginal`; float32 where that is fine enough.
        """
        kind = np.dtype(np.float32 if self.worst * 2.0**-22 <= LOG_ODDS_ERROR else np.float64)
        pulls = (
            np.ascontiguousarray(base[self.kept], np.float64),
            np.ascontiguousarray(self.bias[self.kept]),
            np.ascontiguousarray(base[self.summed], kind),
        )
        return np.ascontiguousarray(self.weights, kind), np.ascontiguousarray(self.bias[self.summed], kind), pulls

    def fields(self, up: np.ndarray) -> np.ndarray:
        """Return log-odds of the summed units given states of the kept ones (n_states, n_kept)."""
        found: np.ndarray = up @ self.weights + self.bias[self.summed]
        return found

    def log_f(self, up: np.ndarray, threads: int = 1) -> np.ndarray:
        """Return log of the sum of exp(-beta E) over the summed units, (n_states,)."""
        found: np.ndarray = self.constant + up @ self.bias[self.kept]

        def add(some: slice) -> None:
            found[some] += np.logaddexp(0.0, self.fields(up[some])).sum(axis=1)

        fan_out(add, self.blocks(len(up)), threads)
        return found

    def complete(self, up: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Draw the summed units; bits of all units, (n_states, n_units)."""
        bits = np.empty((len(up), self.n_units), np.uint8)
        bits[:, self.kept] = up
        for some in self.blocks(len(up)):
            p = expit(self.fields(up[some]))
            bits[some, self.summed] = generator.random(p.shape) < p
        return bits

    def blocks(self, n_states: int) -> list[slice]:
        """Cut states into blocks that are worked on together."""
        step = max(1, ROWS // len(self.summed))
        return [slice(first, min(first + step, n_states)) for first in range(0, n_states, step)]


def layers_of(model: BoltzmannMachine) -> list[np.ndarray]:
    """Return the units of every layer."""
    assert isinstance(model.couplings, Layered)
    return [np.arange(rows.start, rows.stop) for rows in model.couplings.layers]


def sides_of(model: BoltzmannMachine) -> tuple[np.ndarray, np.ndarray]:
    """Return the units of layers of even number, and those of the others."""
    layers = layers_of(model)
    return np.concatenate(layers[0::2]), np.concatenate(layers[1::2])


def has_marginal(model: BoltzmannMachine) -> bool:
    """Return whether a machine has two sides, whose couplings fit into one matrix."""
    return model.is_layered and 0 < n_pairs(model) <= PAIRS


def n_pairs(model: BoltzmannMachine) -> int:
    """Return the units of one side of a layered machine times those of the other."""
    assert isinstance(model.couplings, Layered)
    sizes = model.couplings.sizes
    return sum(sizes[0::2]) * sum(sizes[1::2])
