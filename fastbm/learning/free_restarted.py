"""The free phase by chains that start anew for every update, at once at the machine's temperature or cooled to it.

Cooling is how free-running machines came to equilibrium first: Ackley, Hinton and Sejnowski, Cognitive Science 9, 147
(1985), doi:10.1207/s15516709cog0901_7.
"""

from __future__ import annotations

import numpy as np

from .. import rng
from ..inference.monte_carlo import PairCounts
from ..inference.result import moments_from_up
from ..model import BoltzmannMachine
from ..sampling.chains import couple_chains
from .clamped import HOTTEST
from .free import average_states
from .moments import PhaseMoments, from_matrix
from .phase import Phase


class FreeRestarted(Phase):
    """Chains from random states: `n_sweeps` sweeps thrown away, and as many averaged."""

    name = "restarted"
    cooled = False

    def __init__(self, settings: object) -> None:
        super().__init__(settings)
        self._n_calls = 0

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        s = self.settings
        seed = rng.derive(s.seed, rng.CHAINS, self._n_calls)
        self._n_calls += 1
        up = rng.keyed(seed, rng.INITIAL).integers(0, 2, (s.n_chains, model.n_units), dtype=np.uint8)
        chains = couple_chains(
            model.couplings, model.flat_bias, model.convention, up, rng.streams(seed, s.n_chains),
            beta=s.beta, rule="gibbs", order="sequential", seed=seed, threads=s.threads,
        )  # fmt: skip
        if self.cooled:
            for beta in np.linspace(HOTTEST * s.beta, s.beta, s.n_sweeps + 1)[:-1]:
                chains.set_beta(np.full(s.n_chains, beta))
                chains.sweep(1)
            chains.set_beta(np.full(s.n_chains, s.beta))
        else:
            chains.sweep(s.n_sweeps)
        if model.is_layered:
            chains.sweep(s.n_sweeps)
            return average_states(model, chains.bits(), s.beta, self.noise)
        pairs = PairCounts(model.n_units)
        for _ in range(s.n_sweeps):
            chains.sweep(1)
            pairs.add(chains)
            if self.noise is not None:
                self.noise.add_chains(chains)
        found = moments_from_up(model.convention, pairs.up())
        return from_matrix(model.couplings, found["mean"], found["second_moment"])

    def state(self) -> dict[str, np.ndarray]:
        return {"n_calls": np.array(self._n_calls)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._n_calls = int(state["n_calls"])


class FreeAnnealed(FreeRestarted):
    """Chains from random states, cooled for `n_sweeps` sweeps from a tenth of beta; as many more are averaged."""

    name = "annealed"
    cooled = True
