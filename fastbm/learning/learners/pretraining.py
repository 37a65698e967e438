"""Layer-wise pretraining of deep machines: restricted machines from below, each learned from the one before it.

In the whole machine a layer is driven from both sides. So the lowest restricted machine has two copies of the visible
layer, the highest two copies of the top layer, with the same couplings, and those between have couplings that are twice
what the whole machine takes from them: every layer is driven as strongly as in the whole machine, whose couplings the
restricted ones then are. A layer's bias is the mean of what the machines below and above it have learned.
Salakhutdinov and Hinton, AISTATS (2009), PMLR 5, 448, sect. 3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..._base import rng
from ..._base.threads import single_threaded_blas
from ...data.packing import Growing
from ...data.rows import Rows, pack
from ...machine.couplings import Layered, row_blocks
from ...machine.machine import BoltzmannMachine
from ..moments import Parameters, PhaseMoments, hidden_means, with_prefix, without_prefix
from ..monitor.moment_test import Verdict
from ..phases.phase import SAMPLED, Phase
from ..settings import FitSettings
from ..training_set import Sample
from .steps import Steps

Phases = Callable[[BoltzmannMachine, Sample, FitSettings], tuple[Phase, Phase]]


class Copies(NamedTuple):
    """How many copies of its lower and of its upper layer a restricted machine has."""

    lower: int
    upper: int

    def spread(self, pair: BoltzmannMachine) -> BoltzmannMachine:
        """Return the restricted machine with all copies of the layers of `pair`."""
        bias = np.concatenate([np.tile(b, n) for b, n in zip(pair.bias, self, strict=True)])
        blocks = Layered([np.tile(pair.couplings.arrays[0], self)])
        return pair.trusted(blocks, bias, pair.convention, blocks.sizes[1], 0.0)

    def fold(self, found: PhaseMoments, pair: BoltzmannMachine) -> PhaseMoments:
        """Average moments of the machine with copies over the copies."""
        n, m = pair.couplings.sizes
        ends = self.lower * n
        means = found.mean[:ends].reshape(self.lower, n), found.mean[ends:].reshape(self.upper, m)
        products = found.pairs[0].reshape(self.lower, n, self.upper, m).mean(axis=(0, 2))
        return PhaseMoments(np.concatenate([mean.mean(axis=0) for mean in means]), (products,))


class Tied(Phase):
    """A phase of a restricted machine with copies of its layers, whose moments are averaged over the copies."""

    def __init__(self, phase: Phase, copies: Copies) -> None:
        super().__init__(phase.settings)
        self.name, self._phase, self._copies = phase.name, phase, copies

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments of `model`, from the machine with copies of its layers."""
        found = self._phase.moments(self._copies.spread(model), np.tile(rows, (1, self._copies.lower)))
        return self._copies.fold(found, model)

    def state(self) -> dict[str, np.ndarray]:
        """Return the state of the phase, for a checkpoint."""
        return self._phase.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._phase.restore(state)


class Pretraining:
    """`pretrain_epochs` epochs of contrastive divergence for each two neighbouring layers, then the whole machine.

    Restricted machines start from what the whole one starts from. The parameters are at any time those of the machine
    that is made of what was learned so far.
    """

    metric_names = Steps.metric_names

    def __init__(self, like: BoltzmannMachine, sample: Sample, settings: FitSettings, phases: Phases) -> None:
        self._like, self._sample, self._settings, self._phases = like, sample, settings, phases
        self._n_pairs = len(like.couplings.arrays)
        self._learned: list[Parameters] = []  # of the pairs of layers that are done
        self._whole = Steps(like, sample, settings, *phases(like, sample, settings))
        self._pair: Steps | None = self._next_pair(sample.rows)

    def _next_pair(self, up: Rows) -> Steps:
        """Return the steps of the next restricted machine, which learns rows of its lower layer."""
        k = len(self._learned)
        layers = self._like.couplings.layers[k : k + 2]  # type: ignore[attr-defined]
        block = Layered([self._factor(k) * self._like.couplings.arrays[k]])
        lower, upper = (self._like.flat_bias[layer] for layer in layers)
        if k:
            lower = self._learned[-1].bias[-len(lower) :]  # as the restricted machine below has it
        bias = np.concatenate([lower, upper])
        self._start = pair = self._like.trusted(block, bias, self._like.convention, block.sizes[1], 0.0)
        self._rows: Rows | None = up
        seed = rng.derive(self._settings.seed, rng.MODEL, k)
        settings = replace(self._settings, clamped="exact", free="contrastive", seed=seed)
        copies = self._copies(k)
        sample = replace(self._sample, like=pair, up=up)
        clamped, free = (Tied(phase, copies) for phase in self._phases(pair, sample, settings))
        return Steps(pair, sample, settings, clamped, free)

    def _copies(self, k: int) -> Copies:
        return Copies(1 + (k == 0), 1 + (k == self._n_pairs - 1))

    def _factor(self, k: int) -> float:
        """Return the factor from the whole machine's couplings to those of the restricted machine."""
        return 1.0 if max(self._copies(k)) > 1 else 2.0

    def _climb(self, pair: BoltzmannMachine, rows: Rows) -> Rows:
        """Draw bits of the upper layer of a learned restricted machine, given rows of its lower one."""
        copies = self._copies(len(self._learned) - 1)
        spread = copies.spread(pair)
        n_upper = pair.couplings.sizes[1]
        found = Growing(keep=rows.in_memory)
        generator = rng.keyed(rng.derive(self._settings.seed, rng.MODEL, len(self._learned)), rng.STARTS)
        with single_threaded_blas():
            for some in row_blocks(len(rows), spread.n_units):
                values = np.tile(pair.convention.values(rows[some], SAMPLED), (1, copies.lower))
                means = hidden_means(spread, values, self._settings.beta)[:, :n_upper]
                p = (means - pair.convention.lo) / pair.convention.span
                found.append(pack(generator.random(p.shape, np.float32) < p))
        return Rows(found.table(), n_upper)

    @property
    def parameters(self) -> Parameters:
        """Parameters of the whole machine."""
        if self._pair is None:
            return self._whole.parameters
        return self._composed([*self._learned, self._pair.parameters])

    def _composed(self, pairs: list[Parameters]) -> Parameters:
        weights = list(self._like.couplings.arrays)
        layers = self._like.couplings.layers  # type: ignore[attr-defined]
        bias = self._like.flat_bias.copy()
        for k, pair in enumerate(pairs):
            weights[k] = pair.weights[0] / self._factor(k)
            below = np.split(pair.bias, [layers[k].stop - layers[k].start])
            bias[layers[k]] = below[0] if k == 0 else 0.5 * (bias[layers[k]] + below[0])
            bias[layers[k + 1]] = below[1]
        return Parameters(tuple(weights), bias)

    @property
    def done(self) -> bool:
        """Whether there is nothing left to gain."""
        return self._pair is None and self._whole.done

    @property
    def converged(self) -> bool | None:
        """Whether moments of the whole machine are the data's; None where that was not tested."""
        return self._whole.converged

    @property
    def verdict(self) -> Verdict | None:
        """The last test of moments of the whole machine."""
        return self._whole.verdict

    @property
    def chain_noise(self) -> float:
        """The chains' part of the last epoch's moment noise."""
        return self._whole.chain_noise

    def judge(self, number: int) -> None:
        """Test whether moments are the data's, by the whole machine's steps."""
        self._whole.judge(number)

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Do some mini-batches of an epoch; return its row of metrics when it is over, and nothing before."""
        if self._pair is None:
            return self._whole.epoch(number)
        found = self._pair.epoch(number)
        if found and (number + 1) % self._settings.pretrain_epochs == 0:
            self._continue()
        return found

    def _continue(self) -> None:
        """Pass from a learned pair of layers to the next one, or to the whole machine."""
        assert self._pair is not None
        assert self._rows is not None
        self._learned.append(self._pair.parameters)
        pair = self._learned[-1].machine(self._start)
        if len(self._learned) < self._n_pairs:
            self._pair = self._next_pair(self._climb(pair, self._rows))
        else:
            self._whole.parameters = self._composed(self._learned)
            self._pair, self._rows = None, None

    def samples(self) -> np.ndarray | None:
        """Return packed states of the whole machine's free chains, which rest until it is learned."""
        return self._whole.samples()

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit."""
        found = self._whole.state()
        if self._pair is not None:
            found |= with_prefix("pretraining/pair", self._pair.state())
            for k, pair in enumerate(self._learned):
                found |= with_prefix(f"pretraining/learned/{k}", pair.to_state())
        return found

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._whole.restore(state)
        pair = without_prefix("pretraining/pair", state)
        if not pair:
            self._pair, self._rows = None, None
            return
        self._learned = []
        self._pair = self._next_pair(self._sample.rows)
        while learned := without_prefix(f"pretraining/learned/{len(self._learned)}", state):
            self._pair.parameters = Parameters.from_state(learned)
            self._continue()
        self._pair.restore(pair)
