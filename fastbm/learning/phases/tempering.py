"""The free phase by parallel tempering: every chain is the cold end of a persistent ladder of replicas.

Desjardins, Courville, Bengio, Vincent and Delalleau, AISTATS (2010), p. 145; Salakhutdinov, NeurIPS 22 (2009).
"""

from __future__ import annotations

import numpy as np

from ...machine.machine import BoltzmannMachine
from ...sampling.tempering import TemperedChains
from ..moments import PhaseMoments, from_values
from .gibbs import average_states
from .phase import SAMPLED, Phase


class FreeTempering(Phase):
    """Free phase by persistent ladders of `n_betas` replicas, equally spaced from beta 0 to the machine's.

    An update takes `n_sweeps` sweeps of all replicas, with swaps after each.
    """

    name = "tempering"

    _chains: TemperedChains

    def prepare(self, model: BoltzmannMachine) -> None:
        """Make the ladders, in random states."""
        s = self.settings
        self._chains = TemperedChains(
            model,
            s.n_chains,
            np.linspace(0.0, s.beta, s.n_betas),
            order="sequential",
            seed=s.seed,
            threads=s.threads,
            at_once=s.n_sweeps if model.is_layered else 1,
        )

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Sweep the ladders and return the average moments of their cold ends; `rows` are ignored."""
        self._chains.engine.couple(model.couplings, model.flat_bias)
        if model.is_layered:
            self._chains.sweep(self.settings.n_sweeps)
            return average_states(model, self._chains.bits(), self.settings.beta, self.noise)
        states = []
        for _ in range(self.settings.n_sweeps):
            self._chains.sweep(1)
            states.append(model.convention.values(self._chains.bits(), SAMPLED))
            if self.noise is not None:
                self.noise.add_values(states[-1])
        return from_values(model.couplings, np.concatenate(states))

    def begin_at(self, packed: np.ndarray) -> None:
        """Set all replicas of ladder c to row c of packed states (n_chains, ceil(n_units / 8))."""
        up = np.unpackbits(packed, axis=1, count=self._chains.n_units, bitorder="little")
        self._chains.engine.load_bits(np.repeat(up, self.settings.n_betas, axis=0))

    @property
    def swap_rates(self) -> np.ndarray:
        """Fraction of swaps that were accepted, (n_betas - 1,), between neighbouring temperatures."""
        rates: np.ndarray = self._chains.accepted / np.maximum(self._chains.attempted, 1)
        return rates

    def samples(self) -> np.ndarray | None:
        """Return packed states of the cold ends."""
        return self._chains.packed()

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the ladders bit for bit."""
        return self._chains.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._chains.restore(state)
