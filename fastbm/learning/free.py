"""The free phase: moments of the machine itself, nothing clamped.

Each way is one class with `moments(model, rows)`.
"""

from __future__ import annotations

import numpy as np

from .. import rng
from .._checks import Diverged
from ..inference.exact import usual_engine
from ..inference.mean_field import mean_field
from ..inference.methods import run_method
from ..inference.monte_carlo import PairCounts
from ..inference.result import moments_from_up
from ..model import BoltzmannMachine
from ..sampling import Chains
from ..sampling.chains import couple_chains
from ..sampling.layered import LayeredChains
from .layer_averages import put_odd_means
from .moments import PhaseMoments, from_matrix, from_values, hidden_means, learned_pairs
from .noise import MomentNoise
from .phase import SAMPLED, Phase


class FreeExact(Phase):
    """All states summed."""

    name = "exact"

    _engine: str | None = None

    def prepare(self, model: BoltzmannMachine) -> None:
        self._engine = usual_engine(model, moments=True)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        s = self.settings
        exact = run_method(
            model, "exact", beta=s.beta, clamp=None, moments=True, seed=s.seed, threads=s.threads,
            energy_variance=False, pairs=learned_pairs(model.couplings), engine=self._engine,
        )  # fmt: skip
        return from_matrix(model.couplings, exact.mean, exact.second_moment, exact.log_z)


class FreeMeanField(Phase):
    """Mean field with linear response: the deterministic machine.

    Peterson and Anderson, Complex Systems 1, 995 (1987); Kappen and Rodriguez, Neural Comput. 10, 1137 (1998),
    doi:10.1162/089976698300017386.
    """

    name = "mean-field"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        s = self.settings
        found = mean_field(model, beta=s.beta, moments=True, seed=s.seed, n_starts=1, tolerance=1e-8)
        if found.second_moment is None:
            raise Diverged("the free phase has no finite linear response.")
        return from_matrix(model.couplings, found.mean, found.second_moment)


def average_states(
    model: BoltzmannMachine, up: np.ndarray, beta: float, noise: MomentNoise | None = None
) -> PhaseMoments:
    """Moments of states (m, n_units) of 0 and 1, units of odd layers by their conditional means where there are
    layers; `noise` takes the same values in.
    """
    values = model.convention.values(up, SAMPLED)
    if model.is_layered and len(model.couplings.sizes) == 2:
        values[:, model.n_visible :] = hidden_means(model, values[:, : model.n_visible], beta)
    elif model.is_layered:
        put_odd_means(model, values, beta)
    if noise is not None:
        noise.add_values(values)
    return from_values(model.couplings, values)


class FreeGibbs(Phase):
    """Persistent chains, `n_sweeps` sweeps an update: they go on where the update before left them.

    Tieleman, ICML (2008), p. 1064, doi:10.1145/1390156.1390290; Younes, Stochastics 65, 177 (1999).
    """

    name = "gibbs"

    _chains: Chains

    def prepare(self, model: BoltzmannMachine) -> None:
        s = self.settings
        up = rng.keyed(s.seed, rng.INITIAL).integers(0, 2, (s.n_chains, model.n_units), dtype=np.uint8)
        self._chains = couple_chains(
            model.couplings,
            model.flat_bias,
            model.convention,
            up,
            rng.streams(s.seed, s.n_chains),
            beta=s.beta,
            rule="gibbs",
            order="sequential",
            seed=s.seed,
            threads=s.threads,
        )

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        self._chains.couple(model.couplings, model.flat_bias)
        if isinstance(self._chains, LayeredChains):
            self._chains.sweep(self.settings.n_sweeps)
            return average_states(model, self._chains.bits(), self.settings.beta, self.noise)
        pairs = PairCounts(model.n_units)
        for _ in range(self.settings.n_sweeps):
            self._chains.sweep(1)
            pairs.add(self._chains)
            if self.noise is not None:
                self.noise.add_chains(self._chains)
        found = moments_from_up(model.convention, pairs.up())
        return from_matrix(model.couplings, found["mean"], found["second_moment"])

    def samples(self) -> np.ndarray | None:
        return self._chains.packed()

    def state(self) -> dict[str, np.ndarray]:
        return self._chains.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._chains.restore(state)


class FreeContrastive(Phase):
    """Contrastive divergence: chains start at the mini-batch and run for `n_sweeps` sweeps only.

    The gradient is biased. Hinton, Neural Comput. 14, 1771 (2002), doi:10.1162/089976602760128018.
    """

    name = "contrastive"

    _streams: np.ndarray

    def prepare(self, model: BoltzmannMachine) -> None:
        self._streams = rng.streams(self.settings.seed, self.settings.batch_size)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        s = self.settings
        up = np.zeros((len(rows), model.n_units), np.uint8)
        up[:, : model.n_visible] = rows == model.convention.hi
        chains = couple_chains(
            model.couplings,
            model.flat_bias,
            model.convention,
            up,
            self._streams[: len(rows)],
            beta=s.beta,
            rule="gibbs",
            order="sequential",
            seed=s.seed,
            threads=s.threads,
        )
        if isinstance(chains, LayeredChains):
            chains.draw_layer(1)
        chains.sweep(s.n_sweeps)
        self._streams[: len(rows)] = chains.state()["streams"]
        return average_states(model, chains.bits(), s.beta)

    def state(self) -> dict[str, np.ndarray]:
        return {"streams": self._streams}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._streams = np.array(state["streams"])
