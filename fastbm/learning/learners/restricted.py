"""Contrastive divergence on restricted machines of binary units by mini-batch steps, in whole passes over lanes.

Chains, or rows of data, stand side by side in lanes, their bits in words of 32 units (`Block`). One mini-batch is three
products with bits: hidden fields of rows and of chains, visible fields of chains; and one for <v h> of both phases.
Weights are kept in float64; fields, hidden means and gradients are float32, whose rounding is far below the noise of
the samples. All products look sums of rows up or add them in one order, so that bits depend on neither threads nor
processor.

Hinton, Neural Comput. 14, 1771 (2002), doi:10.1162/089976602760128018; Tieleman, ICML (2008), p. 1064,
doi:10.1145/1390156.1390290.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..._base import arrays, rng
from ..._base.threads import fan_out
from ...data.rows import Rows, pack
from ...kernels.bits import MASKS, add_plainly, add_with_rows
from ...kernels.learning.contrastive import (
    draw_words,
    step_couplings,
    sum_lanes,
    sum_words,
    turn_words,
    unpack_words,
    write_means,
)
from ...kernels.vectors import has_look_up
from ...machine.machine import BoltzmannMachine
from ...sampling.engine.lanes import LANES, Lanes
from ..minibatches import order_of_rows
from ..moments import Parameters, with_prefix, without_prefix
from ..optimise.centring import Offsets
from ..optimise.sgd import rate
from ..phases.noise import MomentNoise
from ..phases.phase import OWN_CHAINS
from ..settings import FitSettings
from ..training_set import Sample

WORD = 32
TILE = 64  # lanes: whole tiles of products are as fast as one and a half narrow ones
ROWS_A_STEP = 128  # hidden units whose couplings a thread moves at a time
THREADS_WORK = 1 << 23  # batch rows times couplings from which on a second thread is worth its call
CALL_WORK = 1 << 29  # batch rows times couplings a call: about a tenth of a second, so that a stop is prompt


class Asked(Protocol):
    """The settings that decide whether `RestrictedSteps` can be used."""

    @property
    def clamped(self) -> str:
        """Name of the clamped phase."""

    @property
    def free(self) -> str:
        """Name of the free phase."""

    @property
    def optimizer(self) -> str:
        """Name of the optimiser."""


def serves(like: BoltzmannMachine, settings: Asked) -> bool:
    """Return whether `RestrictedSteps` is the learner that the settings ask for."""
    return (
        like.is_layered
        and len(like.couplings.sizes) == 2
        and like.units == "binary"
        and like.n_hidden == like.couplings.sizes[1]
        and (settings.clamped, settings.optimizer) == ("exact", "sgd")
        and settings.free in ("gibbs", "contrastive", "auto")
    )


class Block:
    """A block of chains, or of rows of a batch: their bits in words, and room for their fields."""

    def __init__(self, lanes: Lanes, k: int, first: int, n_visible: int, n_hidden: int) -> None:
        width = lanes.widths[k]
        self.n_chains, self.first, self.streams = lanes.used(k), first, lanes.streams[k]
        self.visible = arrays.zeros((n_visible // WORD, width), np.uint32)
        self.hidden = arrays.zeros((n_hidden // WORD, width), np.uint32)
        self.visible_fields = arrays.zeros((n_visible, width), np.float32)
        self.hidden_fields = arrays.zeros((n_hidden, width), np.float32)


def to_words(up: np.ndarray) -> np.ndarray:
    """Pack bits (m, n) into words, (m, ceil(n / 32))."""
    return in_words(pack(up))


def in_words(packed: np.ndarray) -> np.ndarray:
    """Return bits that are packed into bytes as words of 32."""
    n_bytes = packed.shape[1]
    if n_bytes % 4:
        packed = np.pad(packed, ((0, 0), (0, -n_bytes % 4)))
    return np.ascontiguousarray(packed).view("<u4")


def add_bits(fields: np.ndarray, weights: np.ndarray, words: np.ndarray) -> None:
    """Add to `fields` (m, lanes) the rows of `weights` (32 n_words, m) whose bits are set; m is a multiple of 4."""
    if has_look_up():
        add_with_rows(fields, weights, words, MASKS)
    else:
        bits = np.empty((WORD * len(words), words.shape[1]), np.float32)
        unpack_words(bits, words)
        add_plainly(fields, weights, bits, 0)


class RestrictedSteps:
    """The learner by steps of contrastive divergence, mini-batches in a new order every epoch.

    Rows that fill no batch are left out of the epoch.

    The moment error is the root mean square, over coupled pairs, of <v h>_clamped - <v h>_free averaged over an epoch;
    its noise is told by `fastbm.learning.phases.noise`.
    """

    metric_names = ("moment_error", "moment_noise")
    done = False
    converged = verdict = None

    def __init__(
        self,
        like: BoltzmannMachine,
        up: Rows | np.ndarray,
        settings: FitSettings,
        threads: int,
        weights: np.ndarray | None = None,
    ) -> None:
        self._like, self._settings, self._row_weights = like, settings, weights
        n, m = like.couplings.sizes
        work = settings.batch_size * n * m
        self._threads = threads if work >= THREADS_WORK else 1
        self._n, self._m = n, m
        padded_n, padded_m = (-(-size // WORD) * WORD for size in (n, m))
        self._rows = Rows.of(up)
        self._words = in_words(self._rows.packed()) if self._rows.in_memory else None
        self._single = arrays.zeros((padded_m, padded_n), np.float32)
        self._slope = arrays.zeros((padded_m, padded_n), np.float32)
        self._velocity = [np.zeros((m, n)), np.zeros(n + m)]
        self._gap = np.zeros((m, n), np.float32)
        own_chains = settings.free in OWN_CHAINS
        sample = Sample(like, self._rows, weights=weights)
        self._noise = MomentNoise(like, settings.seed, sample.n_rows, own_chains=own_chains)
        self._noisy = self._noise.pairs.units - np.array([[0], [n]])
        self._offsets = Offsets(like, sample.mean)
        self._take(Parameters.of(like))
        self._batch = 0
        self._n_batches = len(up) // settings.batch_size
        self._make_lanes(padded_n, padded_m)
        self._batches_a_call = max(1, CALL_WORK // work)

    def _make_lanes(self, n: int, m: int) -> None:
        """Make the lanes of the batch's rows, and those of chains, in their first states."""
        settings = self._settings
        self._persistent = settings.free == "gibbs"
        n_chains = settings.n_chains if self._persistent else settings.batch_size
        self._data: list[Block] = []
        self._chains: list[Block] = []
        first = 0
        for total, blocks in ((settings.batch_size, self._data), (n_chains, self._chains)):
            # few blocks, as each makes tables of its own, but one for every thread
            size = max(-(-total // self._threads // TILE) * TILE, TILE)
            lanes = Lanes(total, size, LANES if total <= TILE else TILE)
            for k in range(len(lanes.blocks)):
                blocks.append(Block(lanes, k, first, n, m))
                first += -(-blocks[-1].n_chains // WORD) * WORD
        self._lanes = lanes  # of the chains
        self._turned = np.zeros((first // WORD, n), np.uint32)
        self._means = arrays.zeros((m, first), np.float32)
        self._free_from = self._chains[0].first
        up = rng.keyed(settings.seed, rng.INITIAL).integers(0, 2, (n_chains, self._n + self._m), dtype=np.uint8)
        self._place(up, rng.streams(settings.seed, n_chains))

    @property
    def parameters(self) -> Parameters:
        """The parameters as they are learned so far, copied: steps change them in place."""
        return Parameters((np.array(self._weights.T, order="C"),), self._bias.copy())

    def _take(self, parameters: Parameters) -> None:
        self._weights = np.array(parameters.weights[0].T, np.float64, order="C")
        self._bias = np.array(parameters.bias)
        self._single[: self._m, : self._n] = self._settings.beta * self._weights

    @property
    def chain_noise(self) -> float:
        """The chains' part of the last epoch's moment noise."""
        return self._noise.of_chains

    def judge(self, number: int) -> None:
        """Do nothing: steps by mini-batches come to no rest that could be tested."""

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Do some mini-batches of an epoch; return its row of metrics when it is over, and nothing before."""
        settings = self._settings
        self._rate = rate(settings.schedule, settings.learning_rate, number, settings.epochs)
        last = min(self._batch + self._batches_a_call, self._n_batches)
        places = slice(self._batch * settings.batch_size, last * settings.batch_size)
        order = order_of_rows(len(self._rows), settings.seed, number, self._row_weights, places)
        for chosen in order.reshape(-1, settings.batch_size):
            self._step(chosen)
            self._batch += 1
        if self._batch < self._n_batches:
            return []
        error = float(np.sqrt(np.mean(np.square(self._gap, dtype=np.float64)))) / self._n_batches
        self._batch = 0
        gap = self._noise.pairs.pick([self._gap.T]) / self._n_batches
        self._gap[:] = 0.0
        return [{"moment_error": error, "moment_noise": self._noise.take(gap)}]

    def _step(self, chosen: np.ndarray) -> None:
        """Do one mini-batch: both phases, then a step."""
        tasks = [(self._clamp, k, chosen) for k in range(len(self._data))]
        if self._persistent:
            tasks += [(self._run, k, chosen) for k in range(len(self._chains))]
        else:
            tasks = [(self._reconstruct, k, chosen) for k in range(len(self._data))]
        bias = (self._settings.beta * self._bias).astype(np.float32)[:, None]
        self._visible_bias, self._hidden_bias = bias[: self._n], bias[self._n :]
        fan_out(lambda task: task[0](task[1], task[2]), tasks, self._threads)
        n_chains = self._settings.n_chains if self._persistent else len(chosen)
        free = self._turned[self._free_from // WORD :]
        self._noise.add_means(free, self._means, self._noisy, self._free_from, n_chains)
        self._move(len(chosen))

    def _clamp(self, k: int, chosen: np.ndarray) -> None:
        """Compute hidden means given some rows of the batch, for the clamped phase."""
        block = self._data[k]
        mine = chosen[block.first : block.first + block.n_chains]
        words = in_words(self._rows.packed(mine)) if self._words is None else self._words[mine]
        block.visible[:, : block.n_chains] = words.T
        self._infer(block)
        self._write(block, 1.0 / len(chosen))

    def _run(self, k: int, chosen: np.ndarray) -> None:
        """Do the sweeps of some persistent chains, for the free phase."""
        block = self._chains[k]
        for _ in range(self._settings.n_sweeps):
            self._draw_visible(block)
            self._infer(block)
            draw_words(block.hidden, block.hidden_fields, block.streams, self._m)
        self._write(block, -1.0 / self._settings.n_chains)

    def _reconstruct(self, k: int, chosen: np.ndarray) -> None:
        """Do the sweeps of chains that start at rows of the batch, for both phases."""
        self._clamp(k, chosen)
        data, block = self._data[k], self._chains[k]
        block.hidden_fields[:] = data.hidden_fields
        for _ in range(self._settings.n_sweeps):
            draw_words(block.hidden, block.hidden_fields, block.streams, self._m)
            self._draw_visible(block)
            self._infer(block)
        self._write(block, -1.0 / len(chosen))

    def _draw_visible(self, block: Block) -> None:
        block.visible_fields[: self._n] = self._visible_bias
        add_bits(block.visible_fields, self._single, block.hidden)
        draw_words(block.visible, block.visible_fields, block.streams, self._n)

    def _infer(self, block: Block) -> None:
        """Compute log-odds of hidden units given the visible ones."""
        block.hidden_fields[: self._m] = self._hidden_bias
        add_bits(block.hidden_fields, self._single.T, block.visible)

    def _write(self, block: Block, part: float) -> None:
        """Write visible bits and hidden means, times `part`, where the sums of both phases read them."""
        first = block.first
        write_means(self._means, block.hidden_fields, first, block.n_chains, part)
        turn_words(self._turned[first // WORD : -(-(first + block.n_chains) // WORD)], block.visible, block.n_chains)

    def _move(self, n_rows: int) -> None:
        """Compute <v h> of both phases, and take a step along their difference."""
        s = self._settings
        clamped, free = np.zeros(self._n, np.int64), np.zeros(self._n, np.int64)
        sum_words(clamped, self._turned[: self._free_from // WORD])
        sum_words(free, self._turned[self._free_from // WORD :])
        n_chains = s.n_chains if self._persistent else n_rows
        hidden_sums = np.empty((2, self._m))
        sum_lanes(hidden_sums, self._means, self._free_from)
        visible_gap, hidden_gap = clamped / n_rows - free / n_chains, hidden_sums[0] + hidden_sums[1]
        visible_centre, hidden_centre = self._offsets.values[: self._n], self._offsets.values[self._n :]
        taken = np.zeros(self._m)
        numbers = (s.beta, self._rate, s.momentum, s.l2, s.centring)

        def some(first: int) -> np.ndarray:
            slope = self._slope[first : first + ROWS_A_STEP]
            slope[:] = 0.0
            add_bits(slope, self._means[first : first + ROWS_A_STEP].T, self._turned)
            rows = slice(first, min(first + ROWS_A_STEP, self._m))
            here = (self._weights, self._velocity[0], self._single, self._gap)
            centres = (hidden_centre[rows], visible_centre, hidden_gap[rows], visible_gap, taken[rows])
            found: np.ndarray = step_couplings(*(array[rows] for array in here), slope, centres, numbers)
            return found

        visible_taken = sum(fan_out(some, range(0, self._m, ROWS_A_STEP), self._threads))
        gap = np.concatenate([visible_gap - visible_taken, hidden_gap - taken])
        velocity = self._velocity[1]
        velocity *= s.momentum
        velocity += self._rate * (s.beta * gap - s.l2_bias * self._bias)
        self._bias += velocity
        if s.centring:
            self._offsets.follow(hidden_sums[0])

    def samples(self) -> np.ndarray | None:
        """Return packed states of the chains, or None where they do not persist."""
        return self.packed() if self._persistent else None

    def packed(self) -> np.ndarray:
        """Return the states of the chains, (n_chains, ceil(n_units / 8)) uint8; unit 0 in the lowest bit."""
        bits = np.concatenate([self._bits(block) for block in self._chains])
        return np.packbits(bits, axis=1, bitorder="little")

    def _bits(self, block: Block) -> np.ndarray:
        layers = []
        for words, n_units in ((block.visible, self._n), (block.hidden, self._m)):
            rows = np.ascontiguousarray(words[:, : block.n_chains].T).view(np.uint8)
            layers.append(np.unpackbits(rows, axis=1, bitorder="little")[:, :n_units])
        return np.concatenate(layers, axis=1)

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit."""
        return {
            **self.parameters.to_state(),
            "velocity/weights": self._velocity[0],
            "velocity/bias": self._velocity[1],
            "offsets": self._offsets.values,
            **with_prefix("noise", self._noise.state()),
            "epoch/gap": self._gap,
            "epoch/batch": np.array(self._batch),
            "chains/up": self.packed(),
            "chains/streams": self._lanes.gather(self._lanes.streams),
        }

    def as_steps(self) -> dict[str, np.ndarray]:
        """Return the part of the state, between two epochs, from which `Steps` on the same machine continue."""
        velocity = {
            "optimizer/velocity/0": self._velocity[0].T.copy(),
            "optimizer/velocity/1": self._velocity[1],
        }
        return {**self.parameters.to_state(), **velocity, "offsets": self._offsets.values}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._noise.restore(without_prefix("noise", state))
        self._take(Parameters.from_state(state))
        self._velocity = [np.array(state["velocity/weights"]), np.array(state["velocity/bias"])]
        self._offsets.values = np.array(state["offsets"])
        self._gap, self._batch = np.array(state["epoch/gap"]), int(state["epoch/batch"])
        self._place(np.unpackbits(state["chains/up"], axis=1, bitorder="little"), state["chains/streams"])

    def _place(self, up: np.ndarray, streams: np.ndarray) -> None:
        """Set the chains to states (n_chains, at least n_units) of 0 and 1, with their streams."""
        self._lanes.set_streams(streams)
        visible, hidden = to_words(up[:, : self._n]), to_words(up[:, self._n : self._n + self._m])
        for k, (block, mine) in enumerate(zip(self._chains, self._lanes.blocks, strict=True)):
            self._lanes.write(k, block.visible, visible[mine])
            self._lanes.write(k, block.hidden, hidden[mine])
