"""Phases by Gibbs sampling: the free phase, and the clamped one of rows that are whole or lack entries.

Free chains go on from where they were, start at the data, or start anew for every update, at once at the machine's
temperature or cooled to it. Cooling is how free-running machines came to equilibrium first: Ackley, Hinton and
Sejnowski, Cognitive Science 9, 147 (1985), doi:10.1207/s15516709cog0901_7.

Where rows are whole, one chain for each holds its hidden units, and the row's pull on them is the chain's bias. Where
rows lack entries, missing and hidden units turn and known ones are held: a known unit has, in place of its bias, one so
strong that no random number there is can turn it, so that rows that lack different entries share the products with the
couplings.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

from ..._base import rng
from ...inference.chain_counts import EdgeCounts, PairCounts, added, shares_of_pairs
from ...machine.clamping import Clamped
from ...machine.couplings import Couplings, Sparse
from ...machine.machine import BoltzmannMachine
from ...machine.units import Units
from ...sampling import Chains
from ...sampling.chains import couple_chains, threads_for
from ...sampling.engine.layered import LayeredChains
from ..moments import PhaseMoments, from_values, hidden_means, put_odd_means
from .noise import MomentNoise
from .phase import SAMPLED, Phase, PhaseSettings

HOTTEST = 0.1  # of the machine's beta, where cooling begins
HELD = 40.0  # log-odds at which a known unit stays, at least; those of random numbers are below 23


def coupled(
    couplings: Couplings, bias: np.ndarray, units: Units, up: np.ndarray, streams: np.ndarray, s: PhaseSettings,
    seed: int,
) -> Chains:  # fmt: skip
    """Return chains at the bits `up` (n_chains, n_units), as all phases have them."""
    threads = s.threads
    if couplings.kind == "dense":
        sweeps = max(s.n_sweeps, s.clamped_sweeps) * len(up)
        threads = threads_for(sweeps, couplings.n_units, couplings.n_units**2, threads)
    return couple_chains(
        couplings, bias, units, up, streams, beta=s.beta, rule="gibbs", order="sequential", seed=seed, threads=threads
    )


class GibbsPhase(Phase):
    """The base of phases by chains that start anew for every call: some sweeps are discarded, and some are averaged.

    Attributes
    ----------
    cooled : bool
        Whether the sweeps that are discarded cool the chains, from `HOTTEST` of beta.
    """

    cooled = False

    def __init__(self, settings: object) -> None:
        super().__init__(settings)
        self._n_calls = 0

    def settle(self, chains: Chains, n_sweeps: int) -> None:
        """Do the sweeps that are discarded."""
        beta = self.settings.beta
        if not self.cooled:
            chains.sweep(n_sweeps)
            return
        for lower in np.linspace(HOTTEST * beta, beta, n_sweeps + 1)[:-1]:
            chains.set_beta(np.full(chains.n_chains, lower))
            chains.sweep(1)
        chains.set_beta(np.full(chains.n_chains, beta))

    def state(self) -> dict[str, np.ndarray]:
        """Return the number of calls, from which the streams of the next one follow."""
        return {"n_calls": np.array(self._n_calls)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._n_calls = int(state["n_calls"])


# The clamped phase


def averaged(
    model: BoltzmannMachine, chains: Chains, n_sweeps: int, values: Callable[[np.ndarray], np.ndarray]
) -> PhaseMoments:
    """Return moments averaged over the next sweeps of chains, whose bits `values` completes to (m, n_units)."""
    mean = np.zeros(model.n_units)
    pairs = [np.zeros_like(array) for array in model.couplings.arrays]
    for _ in range(n_sweeps):
        chains.sweep(1)
        one = from_values(model.couplings, values(chains.bits()))
        mean += one.mean / n_sweeps
        for total, part in zip(pairs, one.pairs, strict=True):
            total += part / n_sweeps
    return PhaseMoments(mean, tuple(pairs))


class ClampedGibbs(GibbsPhase):
    """Clamped phase, hidden units sampled: `clamped_sweeps` sweeps are discarded and as many are averaged."""

    name = "gibbs"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments averaged over `rows` and samples of the hidden units."""
        if model.n_hidden == 0:
            return from_values(model.couplings, rows)
        s, units = self.settings, model.convention
        clamped = Clamped.of(model, np.arange(model.n_visible), rows)
        seed = rng.derive(s.seed, rng.CLAMPED, self._n_calls)
        self._n_calls += 1
        up = rng.keyed(seed, rng.INITIAL).integers(0, 2, (len(rows), model.n_hidden), dtype=np.uint8)
        chains = coupled(clamped.couplings, clamped.bias, units, up, rng.streams(seed, len(rows)), s, seed)
        self.settle(chains, s.clamped_sweeps)
        n_averaged = 1 if model.layout == "restricted" else s.clamped_sweeps
        return averaged(
            model, chains, n_averaged, lambda bits: np.concatenate([rows, units.values(bits, np.float64)], axis=1)
        )


class ClampedAnnealed(ClampedGibbs):
    """Clamped phase, hidden units sampled after cooling for `clamped_sweeps` sweeps from a tenth of beta."""

    name = "annealed"
    cooled = True


class GapsGibbs(GibbsPhase):
    """Clamped phase of incomplete rows by sampling, with new chains for every batch.

    `clamped_sweeps` sweeps are discarded and as many are averaged.
    """

    name = "gibbs"

    _streams: np.ndarray

    def prepare(self, model: BoltzmannMachine) -> None:
        """Make the streams of random numbers, one for each row of a batch."""
        seed = rng.derive(self.settings.seed, rng.CLAMPED)
        self._streams = rng.streams(seed, self.settings.batch_size)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments averaged over `rows` and samples of missing entries and hidden units."""
        s, n, units = self.settings, model.n_visible, model.convention
        known = ~np.isnan(rows)
        start = rng.keyed(s.seed, rng.CLAMPED, self._n_calls)
        self._n_calls += 1
        up = start.integers(0, 2, (len(rows), model.n_units), dtype=np.uint8)
        np.copyto(up[:, :n], rows == units.hi, where=known)
        bias = held_bias(model, up, known, HOTTEST * s.beta if self.cooled else s.beta)
        chains = coupled(model.couplings, bias, units, up, self._streams[: len(rows)], s, s.seed)
        self.settle(chains, s.clamped_sweeps)

        def values(bits: np.ndarray) -> np.ndarray:
            found = units.values(bits, rows.dtype.type)
            if model.layout == "restricted":
                found[:, n:] = hidden_means(model, found[:, :n], s.beta)
            return found

        found = averaged(model, chains, s.clamped_sweeps, values)
        self._streams[: len(rows)] = chains.state()["streams"]
        return found

    def state(self) -> dict[str, np.ndarray]:
        """Return the number of calls and the streams of random numbers."""
        return {**super().state(), "streams": self._streams}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        super().restore(state)
        self._streams = np.array(state["streams"])


class GapsAnnealed(GapsGibbs):
    """Clamped phase of incomplete rows by sampling, chains cooled from a tenth of beta.

    Cooling takes `clamped_sweeps` sweeps, and as many are averaged.
    """

    name = "annealed"
    cooled = True


def held_bias(model: BoltzmannMachine, up: np.ndarray, known: np.ndarray, beta: float) -> np.ndarray:
    """Return biases (n_rows, n_units) that hold known visible units at their bits in `up`.

    They do so in any state of the others, at `beta` and at lower temperatures.
    """
    strongest = model.couplings.absolute_sums() + HELD / (beta * model.convention.span)
    held = np.zeros(up.shape, bool)
    held[:, : model.n_visible] = known
    bias: np.ndarray = np.where(held, np.where(up == 1, strongest, -strongest), model.flat_bias)
    return bias


def average_states(
    model: BoltzmannMachine, up: np.ndarray, beta: float, noise: MomentNoise | None = None
) -> PhaseMoments:
    """Return average moments of states (m, n_units) of 0 and 1, where layered by conditional means of the odd layers.

    The same values are added to `noise`.
    """
    values = model.convention.values(up, SAMPLED)
    if model.layout == "restricted":
        values[:, model.n_visible :] = hidden_means(model, values[:, : model.n_visible], beta)
    elif model.is_layered:
        put_odd_means(model, values, beta)
    if noise is not None:
        noise.add_values(values)
    return from_values(model.couplings, values)


def free_moments(model: BoltzmannMachine, chains: Chains, s: PhaseSettings, noise: MomentNoise | None) -> PhaseMoments:
    """Return average moments of free chains: over `n_sweeps` sweeps, or where layered after them."""
    if model.is_layered:
        chains.sweep(s.n_sweeps)
        return average_states(model, chains.bits(), s.beta, noise)
    couplings, n_threads = model.couplings, min(chains.threads, len(chains.blocks))
    halves: list[np.ndarray] = []
    shares: list[PairCounts] | list[EdgeCounts]
    if isinstance(couplings, Sparse):
        shares = [EdgeCounts(model.n_units, couplings.edges) for _ in range(n_threads)]
    else:
        shares = shares_of_pairs(model.n_units, n_threads)
    idle: SimpleQueue[PairCounts | EdgeCounts] = SimpleQueue()
    for share in shares:
        idle.put(share)

    def look(first: int, words: np.ndarray) -> None:
        if noise is not None:
            halves.append(noise.counted(first, words))
        share = idle.get()
        share.add_words(words)
        idle.put(share)

    chains.watch(s.n_sweeps, look)
    if noise is not None:
        noise.add_counts(np.sum(halves, axis=0), chains.n_chains, s.n_sweeps)
    total: PairCounts | EdgeCounts = added(shares)
    total.n = chains.n_chains * s.n_sweeps
    return PhaseMoments(*total.moments(model.convention, couplings))


class FreeGibbs(Phase):
    """Free phase by persistent chains, `n_sweeps` sweeps an update, which continue from one update to the next.

    Tieleman, ICML (2008), p. 1064, doi:10.1145/1390156.1390290; Younes, Stochastics 65, 177 (1999).
    """

    name = "gibbs"

    _chains: Chains

    def prepare(self, model: BoltzmannMachine) -> None:
        """Make the chains, in random states."""
        self._chains = random_chains(model, self.settings, self.settings.seed)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Sweep the chains and return their average moments; `rows` are ignored."""
        self._chains.couple(model.couplings, model.flat_bias)
        return free_moments(model, self._chains, self.settings, self.noise)

    def samples(self) -> np.ndarray | None:
        """Return packed states of the chains."""
        return self._chains.packed()

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the chains bit for bit."""
        return self._chains.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._chains.restore(state)


def random_chains(model: BoltzmannMachine, s: PhaseSettings, seed: int) -> Chains:
    """Return free chains in random states."""
    up = rng.keyed(seed, rng.INITIAL).integers(0, 2, (s.n_chains, model.n_units), dtype=np.uint8)
    streams = rng.streams(seed, s.n_chains)
    return coupled(model.couplings, model.flat_bias, model.convention, up, streams, s, seed)


class FreeContrastive(Phase):
    """Free phase of contrastive divergence: chains start at the mini-batch and run for `n_sweeps` sweeps only.

    The gradient is biased. Hinton, Neural Comput. 14, 1771 (2002), doi:10.1162/089976602760128018.
    """

    name = "contrastive"

    _streams: np.ndarray

    def prepare(self, model: BoltzmannMachine) -> None:
        """Make the streams of random numbers, one for each row of a batch."""
        self._streams = rng.streams(self.settings.seed, self.settings.batch_size)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments of chains that start at `rows`, after their sweeps."""
        s = self.settings
        up = np.zeros((len(rows), model.n_units), np.uint8)
        up[:, : model.n_visible] = rows == model.convention.hi
        chains = coupled(model.couplings, model.flat_bias, model.convention, up, self._streams[: len(rows)], s, s.seed)
        if isinstance(chains, LayeredChains):
            chains.draw_layer(1)
        chains.sweep(s.n_sweeps)
        self._streams[: len(rows)] = chains.state()["streams"]
        return average_states(model, chains.bits(), s.beta)

    def state(self) -> dict[str, np.ndarray]:
        """Return the streams of random numbers."""
        return {"streams": self._streams}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._streams = np.array(state["streams"])


class FreeRestarted(GibbsPhase):
    """Free phase by chains from random states: `n_sweeps` sweeps are discarded, and as many averaged."""

    name = "restarted"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return average moments of new chains; `rows` are ignored."""
        s = self.settings
        chains = random_chains(model, s, rng.derive(s.seed, rng.CHAINS, self._n_calls))
        self._n_calls += 1
        self.settle(chains, s.n_sweeps)
        return free_moments(model, chains, s, self.noise)


class FreeAnnealed(FreeRestarted):
    """Free phase by chains from random states that are cooled from a tenth of beta.

    Cooling takes `n_sweeps` sweeps, and as many are averaged.
    """

    name = "annealed"
    cooled = True
