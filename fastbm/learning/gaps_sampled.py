"""The clamped phase where rows lack entries, sampled: missing and hidden units turn, known ones are held.

One chain for each row holds all units. A known unit has, in place of its bias, one so strong that no random number
there is can turn it, so that rows that lack different entries share the products with the couplings.
"""

from __future__ import annotations

import numpy as np

from .. import rng
from ..couplings import Layered
from ..model import BoltzmannMachine
from ..sampling.chains import couple_chains
from .clamped import HOTTEST
from .moments import PhaseMoments, from_values, hidden_means
from .phase import Phase

HELD = 40.0  # log-odds at which a known unit stays, at least; those of random numbers are below 23


class GapsGibbs(Phase):
    """Chains start anew for every batch; `clamped_sweeps` sweeps are thrown away and as many are averaged."""

    name = "gibbs"
    cooled = False

    _streams: np.ndarray

    def __init__(self, settings: object) -> None:
        super().__init__(settings)
        self._n_calls = 0

    def prepare(self, model: BoltzmannMachine) -> None:
        seed = rng.derive(self.settings.seed, rng.CLAMPED)
        self._streams = rng.streams(seed, self.settings.batch_size)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        s, n, units = self.settings, model.n_visible, model.convention
        known = ~np.isnan(rows)
        start = rng.keyed(s.seed, rng.CLAMPED, self._n_calls)
        self._n_calls += 1
        up = start.integers(0, 2, (len(rows), model.n_units), dtype=np.uint8)
        np.copyto(up[:, :n], rows == units.hi, where=known)
        hottest = HOTTEST * s.beta if self.cooled else s.beta
        chains = couple_chains(
            model.couplings, held_bias(model, up, known, hottest), units, up, self._streams[: len(rows)],
            beta=s.beta, rule="gibbs", order="sequential", seed=s.seed, threads=s.threads,
        )  # fmt: skip
        if self.cooled:
            for beta in np.linspace(hottest, s.beta, s.clamped_sweeps + 1)[:-1]:
                chains.set_beta(np.full(len(rows), beta))
                chains.sweep(1)
            chains.set_beta(np.full(len(rows), s.beta))
        else:
            chains.sweep(s.clamped_sweeps)
        mean = np.zeros(model.n_units)
        pairs = [np.zeros_like(array) for array in model.couplings.arrays]
        restricted = isinstance(model.couplings, Layered) and len(model.couplings.sizes) == 2
        for _ in range(s.clamped_sweeps):
            chains.sweep(1)
            values = units.values(chains.bits(), rows.dtype.type)
            if restricted:
                values[:, n:] = hidden_means(model, values[:, :n], s.beta)
            one = from_values(model.couplings, values)
            mean += one.mean / s.clamped_sweeps
            for total, part in zip(pairs, one.pairs, strict=True):
                total += part / s.clamped_sweeps
        self._streams[: len(rows)] = chains.state()["streams"]
        return PhaseMoments(mean, tuple(pairs))

    def state(self) -> dict[str, np.ndarray]:
        return {"n_calls": np.array(self._n_calls), "streams": self._streams}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._n_calls, self._streams = int(state["n_calls"]), np.array(state["streams"])


class GapsAnnealed(GapsGibbs):
    """Cooled for `clamped_sweeps` sweeps from a tenth of beta, then averaged for as many."""

    name = "annealed"
    cooled = True


def held_bias(model: BoltzmannMachine, up: np.ndarray, known: np.ndarray, beta: float) -> np.ndarray:
    """Biases (n_rows, n_units) that hold known visible units at their bits in `up`, in any state of the others, at
    `beta` and below it in temperature.
    """
    strongest = model.couplings.absolute_sums() + HELD / (beta * model.convention.span)
    held = np.zeros(up.shape, bool)
    held[:, : model.n_visible] = known
    bias: np.ndarray = np.where(held, np.where(up == 1, strongest, -strongest), model.flat_bias)
    return bias
