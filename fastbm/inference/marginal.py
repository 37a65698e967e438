"""One side of a layered machine, the other side summed out.

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

from .. import aligned
from ..couplings import Layered
from ..couplings.up import up_form
from ..kernels.marginal import set_fields, sum_out, sweep_marginal
from ..model import BoltzmannMachine
from ..threads import fan_out

LANES = 16  # chains of a block: their fields stay in the cache
FLOAT32_LIMIT = 1e-4  # what float32 fields may change a log-odds by before float64 is taken
REFRESH = 16  # sweeps after which fields are summed anew
ROWS = 1 << 22  # numbers that a block of states may take
PAIRS = 1 << 26  # couplings of the two sides that are held as one matrix


@dataclass(frozen=True)
class Marginal:
    """A layered machine in terms of units that are up, the factor beta in all numbers.

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
        layers = [np.arange(rows.start, rows.stop) for rows in model.couplings.layers]
        sides = [np.concatenate(layers[0::2]), np.concatenate(layers[1::2])]
        kept, summed = sorted(sides, key=len)
        place = np.empty(model.n_units, np.int64)
        place[kept], place[summed] = np.arange(len(kept)), np.arange(len(summed))
        weights = np.zeros((len(kept), len(summed)))
        for k, block in enumerate(form.arrays):
            above, below = layers[k], layers[k + 1]
            if above[0] in kept:
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

    def fields(self, up: np.ndarray) -> np.ndarray:
        """Log-odds of the summed units given states of the kept ones (n_states, n_kept)."""
        found: np.ndarray = up @ self.weights + self.bias[self.summed]
        return found

    def log_f(self, up: np.ndarray) -> np.ndarray:
        """log of the sum of exp(-beta E) over the summed units, (n_states,)."""
        found = self.constant + up @ self.bias[self.kept]
        for some in self.blocks(len(up)):
            found[some] += np.logaddexp(0.0, self.fields(up[some])).sum(axis=1)
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
        """States that are worked on together."""
        step = max(1, ROWS // len(self.summed))
        return [slice(first, min(first + step, n_states)) for first in range(0, n_states, step)]


def has_marginal(model: BoltzmannMachine) -> bool:
    """Whether a machine has two sides, and these one matrix of couplings."""
    if not model.is_layered:
        return False
    sizes = model.couplings.sizes  # type: ignore[attr-defined]
    return sum(sizes[0::2]) * sum(sizes[1::2]) <= PAIRS


class MarginalChains:
    """Chains of the kept units, each at a step t of its own between a product model, t = 0, and the machine, t = 1.

    Parameters
    ----------
    machine : Marginal
    base : (n_units,) array
        Log-odds of the product model.
    streams : (n_chains, 4) uint32 array
    threads : int

    Attributes
    ----------
    steps : (n_chains,) array
    """

    def __init__(self, machine: Marginal, base: np.ndarray, streams: np.ndarray, threads: int) -> None:
        self.machine, self.threads, self.n_chains = machine, threads, len(streams)
        kind = np.dtype(np.float32 if machine.worst * 2.0**-22 <= FLOAT32_LIMIT else np.float64)
        m, n = machine.weights.shape
        self.fields_dtype = kind.name
        self._weights = np.ascontiguousarray(machine.weights, kind)
        self._bias = np.ascontiguousarray(machine.bias[machine.summed], kind)
        self._kept = np.ascontiguousarray(base[machine.kept]), np.ascontiguousarray(machine.bias[machine.kept])
        self._pulls = (*self._kept, np.ascontiguousarray(base[machine.summed], kind))
        self.blocks = [slice(c, min(c + LANES, self.n_chains)) for c in range(0, self.n_chains, LANES)]
        self._streams = []
        for block in self.blocks:
            lanes = np.ones((4, LANES), np.uint32)
            lanes[:, : block.stop - block.start] = streams[block].T
            self._streams.append(lanes)
        count = range(len(self.blocks))
        self._up = [aligned.zeros((m, LANES), np.uint8) for _ in count]
        self._fields = [aligned.zeros((n, LANES), kind) for _ in count]
        self._sums = [np.zeros(LANES) for _ in count]
        self._steps = [np.zeros(LANES) for _ in count]
        self._age = 0

    @property
    def steps(self) -> np.ndarray:
        return np.concatenate([s[: b.stop - b.start] for b, s in zip(self.blocks, self._steps, strict=True)])

    def set_steps(self, steps: np.ndarray) -> None:
        """Take every chain to a step t (n_chains,) of its own."""
        for k, block in enumerate(self.blocks):
            self._steps[k][: block.stop - block.start] = steps[block]
        self._each(self._sum_out)

    def load(self, up: np.ndarray) -> None:
        """Take states (n_chains, n_kept) of 0 and 1."""
        for k, block in enumerate(self.blocks):
            self._up[k][:, : block.stop - block.start] = up[block].T
        self._refresh()

    def bits(self) -> np.ndarray:
        """States (n_chains, n_kept)."""
        parts = [up[:, : b.stop - b.start].T for b, up in zip(self.blocks, self._up, strict=True)]
        return np.ascontiguousarray(np.concatenate(parts))

    def sweep(self, n_sweeps: int = 1) -> None:
        """Draw every unit of every chain."""
        for _ in range(n_sweeps):
            self._age += 1
            if self._age % REFRESH == 0:
                self._refresh()
            self._each(self._sweep)

    def log_f(self, steps: np.ndarray | None = None) -> np.ndarray:
        """log f_t of every chain without the constant, at its own t or at those given."""
        if steps is None:
            steps, sums = self.steps, self._sums
        else:
            padded = np.zeros(LANES * len(self.blocks))
            padded[: self.n_chains] = steps
            sums = [np.zeros(LANES) for _ in self.blocks]
            self._each(lambda k: sum_out(self._fields[k], self._pulls[2], padded[LANES * k :][:LANES], sums[k]))
        up, (low, high) = self.bits(), self._kept
        return np.concatenate(sums)[: self.n_chains] + (1.0 - steps) * (up @ low) + steps * (up @ high)

    def _refresh(self) -> None:
        self._each(self._set_fields)

    def _each(self, function: object) -> None:
        fan_out(function, range(len(self.blocks)), self.threads)  # type: ignore[arg-type]

    def _set_fields(self, k: int) -> None:
        set_fields(self._fields[k], self._up[k], self._weights, self._bias)
        self._sum_out(k)

    def _sum_out(self, k: int) -> None:
        sum_out(self._fields[k], self._pulls[2], self._steps[k], self._sums[k])

    def _sweep(self, k: int) -> None:
        sweep_marginal(
            self._up[k], self._fields[k], self._sums[k], self._weights, self._pulls, self._steps[k], self._streams[k]
        )
