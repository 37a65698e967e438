"""The free phase, moments of the machine with nothing clamped; and, sampled, the clamped phase of incomplete rows.

Each way is one class with `moments(model, rows)`: a sum over all states, mean field, or chains. Free chains go on from
where they were, start at the data, or start anew for every update, at once at the machine's temperature or cooled to
it. Cooling is how free-running machines came to equilibrium first: Ackley, Hinton and Sejnowski, Cognitive Science 9,
147 (1985), doi:10.1207/s15516709cog0901_7.

Where rows lack entries, missing and hidden units turn and known ones are held. One chain for each row holds all units.
A known unit has, in place of its bias, one so strong that no random number there is can turn it, so that rows that lack
different entries share the products with the couplings.
"""

from __future__ import annotations

import numpy as np

from ..._base import rng
from ..._base.checks import Diverged
from ...inference.exact.method import usual_engine
from ...inference.fixed_point.mean_field import MeanField
from ...inference.methods import run_method
from ...inference.monte_carlo import PairCounts
from ...inference.result import moments_from_up
from ...machine.couplings import Layered
from ...machine.machine import BoltzmannMachine
from ...sampling import Chains
from ...sampling.chains import couple_chains
from ...sampling.engine.layered import LayeredChains
from ..moments import PhaseMoments, from_matrix, from_values, hidden_means, learned_pairs, put_odd_means
from .exact import HOTTEST
from .noise import MomentNoise
from .phase import SAMPLED, Phase

HELD = 40.0  # log-odds at which a known unit stays, at least; those of random numbers are below 23


class GapsGibbs(Phase):
    """Clamped phase of incomplete rows by sampling: chains start anew for every batch; `clamped_sweeps` sweeps are
    thrown away and as many are averaged.
    """

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
    """Clamped phase of incomplete rows, chains cooled for `clamped_sweeps` sweeps from a tenth of beta, then averaged
    for as many.
    """

    name = "annealed"
    cooled = True


def held_bias(model: BoltzmannMachine, up: np.ndarray, known: np.ndarray, beta: float) -> np.ndarray:
    """Return biases (n_rows, n_units) that hold known visible units at their bits in `up`, in any state of the others,
    at `beta` and below it in temperature.
    """
    strongest = model.couplings.absolute_sums() + HELD / (beta * model.convention.span)
    held = np.zeros(up.shape, bool)
    held[:, : model.n_visible] = known
    bias: np.ndarray = np.where(held, np.where(up == 1, strongest, -strongest), model.flat_bias)
    return bias


class FreeExact(Phase):
    """Free phase by a sum over all states."""

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
    """Free phase by mean field with linear response: the deterministic machine.

    Peterson and Anderson, Complex Systems 1, 995 (1987); Kappen and Rodriguez, Neural Comput. 10, 1137 (1998),
    doi:10.1162/089976698300017386.
    """

    name = "mean-field"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        s = self.settings
        found = MeanField(n_starts=1, tolerance=1e-8).run(model, beta=s.beta, moments=True, seed=s.seed, threads=1)
        if found.second_moment is None:
            raise Diverged("the free phase has no finite linear response.")
        return from_matrix(model.couplings, found.mean, found.second_moment)


def average_states(
    model: BoltzmannMachine, up: np.ndarray, beta: float, noise: MomentNoise | None = None
) -> PhaseMoments:
    """Average moments of states (m, n_units) of 0 and 1, units of odd layers by their conditional means where there are
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
    """Free phase by persistent chains, `n_sweeps` sweeps an update: they go on where the update before left them.

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
    """Free phase of contrastive divergence: chains start at the mini-batch and run for `n_sweeps` sweeps only.

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


class FreeRestarted(Phase):
    """Free phase by chains from random states: `n_sweeps` sweeps thrown away, and as many averaged."""

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
    """Free phase by chains from random states, cooled for `n_sweeps` sweeps from a tenth of beta; as many more are
    averaged.
    """

    name = "annealed"
    cooled = True
