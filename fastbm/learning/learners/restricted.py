"""Contrastive divergence on restricted machines of binary units by mini-batch steps, many of them in one call.

`fastbm.kernels.learning.batches` does them. While they are learned couplings are kept in float32, times beta, so that
those of 784 x 500 units stay in the cache; biases, and parameters as others see them, are float64. A step smaller than
half a unit in the last place of a coupling, 6e-8 of it, is lost. Bits depend on neither threads nor processor.

Hinton, Neural Comput. 14, 1771 (2002), doi:10.1162/089976602760128018; Tieleman, ICML (2008), p. 1064,
doi:10.1145/1390156.1390290.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol

import numpy as np

from ..._base import arrays, rng
from ..._base.threads import side_by_side
from ...data.rows import Rows, pack
from ...kernels.barrier import let_through
from ...kernels.bits import MASKS
from ...kernels.learning.batches import PIECE, run_batches
from ...kernels.learning.contrastive import VECTOR, WORD, room_of_hidden
from ...machine.machine import BoltzmannMachine
from ..minibatches import LISTED, order_of_rows
from ..moments import Parameters, with_prefix, without_prefix
from ..optimise.centring import Offsets
from ..optimise.sgd import rate
from ..phases.noise import MomentNoise
from ..phases.phase import OWN_CHAINS
from ..settings import FitSettings
from ..training_set import Sample

COLUMNS = 64  # hidden units come in so many, which loops over rows of weights take in whole vectors
THREADS_WORK = 1 << 21  # lanes of a batch times couplings from which on a second thread is worth two meetings
MOST_CHAINS = 128
CALL_WORK = 1 << 31  # the same of a call: less than a tenth of a second, so that a stop is prompt
AHEAD, FEW_ROWS = 8, 1 << 12  # epochs whose orders are made at once, and rows up to which fetching code takes longer


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


def chains_of_batch(batch_size: int) -> int:
    """Return how many chains to take where nobody says: as many as rows of a mini-batch, from 16 to 128.

    With more a step would cost more, and be hardly less noisy, as its rows are; fewer than 16 are not faster.
    """
    return min(max(batch_size, VECTOR), MOST_CHAINS)


def in_words(packed: np.ndarray) -> np.ndarray:
    """Return bits that are packed into bytes as words of 32, (m, ceil(n / 32)), which may be written to."""
    n_bytes = packed.shape[1]
    if n_bytes % 4:
        packed = np.pad(packed, ((0, 0), (0, -n_bytes % 4)))
    return np.require(packed, requirements=["C", "W"]).view("<u4")


class RestrictedSteps:
    """The learner by steps of contrastive divergence, mini-batches in a new order every epoch.

    Rows that fill no batch are left out of the epoch.

    The moment error is the root mean square, over coupled pairs, of <v h>_clamped - <v h>_free averaged over an epoch;
    its noise is told by `fastbm.learning.phases.noise`.
    """

    metric_names = ("moment_error", "moment_noise")
    detail: ClassVar[dict[str, str]] = {"couplings while they are learned": "float32"}
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
        n, m = self._n, self._m = like.couplings.sizes
        self._persistent = settings.free == "gibbs"
        n_chains = settings.n_chains if self._persistent else settings.batch_size
        work = (settings.batch_size + settings.n_sweeps * n_chains) * n * m
        self._threads = min(threads, work // THREADS_WORK + 1, -(-n_chains // VECTOR))
        self._batches_a_call = max(1, CALL_WORK // work)
        self._rows = Rows.of(up)
        self._words = in_words(self._rows.packed()) if self._rows.in_memory else None
        own_chains = settings.free in OWN_CHAINS
        sample = Sample(like, self._rows, weights=weights)
        self._noise = MomentNoise(like, settings.seed, sample.n_rows, own_chains=own_chains)
        self._noisy = self._noise.pairs.units - np.array([[0], [n]])
        self._offsets = Offsets(like, sample.mean)
        self._batch, self._n_batches = 0, len(up) // settings.batch_size
        self._orders: dict[int, np.ndarray] = {}
        shape = -(-n // WORD) * WORD, -(-m // COLUMNS) * COLUMNS
        self._weights, self._velocity, self._gap = (arrays.zeros(shape, np.float32) for _ in range(3))
        self._bias_velocity = np.zeros(n + m)
        self._take(Parameters.of(like))
        self._split = -(-settings.batch_size // VECTOR) * VECTOR
        n_lanes = self._split + -(-n_chains // VECTOR) * VECTOR
        self._turned = arrays.zeros((n_lanes // VECTOR, shape[0]), np.uint16)
        self._means = arrays.zeros((n_lanes, shape[1]), np.float32)
        self._taken = np.zeros(n), np.zeros((-(-n // PIECE), m))
        self._rooms: dict[tuple[int, int], Any] = {}  # of threads, by their number and how many there are
        up = rng.keyed(settings.seed, rng.INITIAL).integers(0, 2, (n_chains, n + m), dtype=np.uint8)
        self._place(up, rng.streams(settings.seed, n_chains))

    @property
    def parameters(self) -> Parameters:
        """The parameters as they are learned so far, copied: steps change them in place."""
        return Parameters((self._couplings(self._weights),), self._bias.copy())

    def _couplings(self, scaled: np.ndarray) -> np.ndarray:
        """Return what `scaled` is beta times of, (n_visible, n_hidden) float64."""
        return np.asarray(scaled[: self._n, : self._m] / np.float64(self._settings.beta))

    def _put(self, scaled: np.ndarray, couplings: np.ndarray) -> None:
        """Put beta times couplings, or their velocities, in place; what `_couplings` returned comes back as it was."""
        scaled[: self._n, : self._m] = self._settings.beta * couplings

    def _take(self, parameters: Parameters) -> None:
        self._put(self._weights, parameters.weights[0])
        self._bias = np.array(parameters.bias)

    @property
    def chain_noise(self) -> float:
        """The chains' part of the last epoch's moment noise."""
        return self._noise.of_chains

    def judge(self, number: int) -> None:
        """Do nothing: steps by mini-batches come to no rest that could be tested."""

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Do some mini-batches of an epoch; return its row of metrics when it is over, and nothing before."""
        settings, first = self._settings, self._batch
        self._batch = min(first + self._batches_a_call, self._n_batches)
        self._run(number, slice(first * settings.batch_size, self._batch * settings.batch_size))
        if self._batch < self._n_batches:
            return []
        self._batch = 0
        gap = self._gap[: self._n, : self._m]
        error = math.sqrt(np.square(gap, dtype=np.float64).sum() / gap.size) / self._n_batches
        of_pairs = self._noise.pairs.pick([gap]) / self._n_batches
        self._gap[:] = 0.0
        return [{"moment_error": error, "moment_noise": self._noise.take(of_pairs)}]

    def _run(self, number: int, places: slice) -> None:
        """Do the mini-batches of some places in the order of an epoch."""
        s = self._settings
        order, words = self._chosen(number, places), self._words
        if words is None:
            words, order = in_words(self._rows.packed(order)), np.arange(len(order))
        order = order.reshape(-1, s.batch_size)
        velocity = self._velocity if s.momentum else None
        machine = (self._weights, velocity, self._gap, self._bias, self._bias_velocity, self._offsets.values)
        counter = np.zeros(1, np.int64)
        lanes = (self._turned, self._means, self._taken if s.centring else None, counter, MASKS)
        pace = rate(s.schedule, s.learning_rate, number, s.epochs)
        numbers = tuple(map(float, (s.beta, pace, s.momentum, s.l2, s.l2_bias)))
        noise = self._noise.sums, self._noisy

        def one(shard: int, n_shards: int) -> None:
            if (shard, n_shards) not in self._rooms:
                self._rooms[shard, n_shards] = self._room(shard, n_shards)
            parts, chains, room = self._rooms[shard, n_shards]
            self._open(slice(*parts[1]), *chains)
            visible, plan = self._chains[0][slice(*parts[1])], (self._m, int(self._persistent), s.n_sweeps)
            run_batches(
                words, order, machine, (visible, *chains, len(self._chains[0])), lanes, noise, numbers, room,
                (*plan, shard, n_shards, *parts),
            )  # fmt: skip
            self._close(slice(*parts[1]), *chains)

        side_by_side(one, self._threads, lambda: let_through(counter))
        self._noise.count(len(self._chains[0]), len(order))

    def _open(self, part: slice, words: np.ndarray, states: np.ndarray) -> None:
        """Write hidden bits and streams of some chains as the kernel takes them; visible bits are ours."""
        _, hidden, streams = (array[part] for array in self._chains)
        words[:, : len(hidden)], states[:, : len(hidden)] = hidden.T, streams.T

    def _close(self, part: slice, words: np.ndarray, states: np.ndarray) -> None:
        """Write chains back."""
        _, hidden, streams = (array[part] for array in self._chains)
        hidden[:], streams[:] = words.T[: len(hidden)], states.T[: len(hidden)]

    def _room(self, shard: int, n_shards: int) -> tuple[Any, ...]:
        """Return a thread's parts of rows, chains and visible units, and room for its chains, and for its work."""
        (n, m), n_hidden, n_words = self._weights.shape, self._m, len(self._weights) // WORD
        sizes = (self._settings.batch_size, VECTOR), (len(self._chains[0]), VECTOR), (self._n, PIECE)
        parts = tuple(_part_of(n, step, shard, n_shards) for n, step in sizes)
        n_rows, n_lanes = (end - first for first, end in parts[:2])
        width = -(-n_lanes // VECTOR) * VECTOR
        chains = arrays.zeros((m // WORD, width), np.uint32), arrays.zeros((4, width), np.uint32)
        chains[1][:] = 1  # streams of lanes that no chain has
        of_lanes = (
            arrays.zeros((n, width), np.float32), arrays.zeros((n_words, width), np.uint32),
            arrays.zeros((width, m), np.float32), arrays.zeros((-(-n_hidden // VECTOR) * VECTOR, width), np.float32),
            arrays.zeros((width,), np.uint32), arrays.zeros(room_of_hidden(m // WORD, width), np.float32),
            arrays.zeros((max(n, len(self._means)) + VECTOR,), np.int32),
        )  # fmt: skip
        return parts, chains, (
            of_lanes, np.empty((n_rows, n_words), np.uint32),
            arrays.zeros((-(-n_rows // VECTOR) * VECTOR, m), np.float32),
            (np.zeros(self._n, np.float32), arrays.zeros((m,), np.float32)), (np.empty(self._n), np.empty(n_hidden)),
            np.empty(n_hidden), arrays.zeros((m,), np.float32),
        )  # fmt: skip

    def _chosen(self, number: int, places: slice) -> np.ndarray:
        """Return some places of the order in which an epoch takes the rows."""
        n_rows, seed, weights = len(self._rows), self._settings.seed, self._row_weights
        if n_rows > LISTED:
            return order_of_rows(n_rows, seed, number, weights, places)
        if number not in self._orders:
            last = number + (AHEAD if n_rows <= FEW_ROWS else 1)
            self._orders = {k: order_of_rows(n_rows, seed, k, weights, slice(None)) for k in range(number, last)}
        return self._orders[number][places]

    def samples(self) -> np.ndarray | None:
        """Return packed states of the chains, or None where they do not persist."""
        return self.packed() if self._persistent else None

    def packed(self) -> np.ndarray:
        """Return the states of the chains, (n_chains, ceil(n_units / 8)) uint8; unit 0 in the lowest bit."""
        layers = zip(self._chains, (self._n, self._m), strict=False)
        bits = [np.unpackbits(words.view(np.uint8), axis=1, count=n, bitorder="little") for words, n in layers]
        return np.packbits(np.concatenate(bits, axis=1), axis=1, bitorder="little")

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit."""
        return {
            **self.parameters.to_state(),
            "velocity/couplings": self._couplings(self._velocity),
            "velocity/bias": self._bias_velocity,
            "offsets": self._offsets.values,
            **with_prefix("noise", self._noise.state()),
            "epoch/couplings": self._gap[: self._n, : self._m],
            "epoch/batch": np.array(self._batch),
            "chains/up": self.packed(),
            "chains/streams": self._chains[2].copy(),
        }

    def as_steps(self) -> dict[str, np.ndarray]:
        """Return the part of the state, between two epochs, from which `Steps` on the same machine continue."""
        velocity = {
            "optimizer/velocity/0": self._couplings(self._velocity),
            "optimizer/velocity/1": self._bias_velocity,
        }
        return {**self.parameters.to_state(), **velocity, "offsets": self._offsets.values}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._noise.restore(without_prefix("noise", state))
        self._take(Parameters.from_state(state))
        self._put(self._velocity, state["velocity/couplings"])
        self._bias_velocity = np.array(state["velocity/bias"])
        self._offsets.values = np.array(state["offsets"])
        self._gap[: self._n, : self._m] = state["epoch/couplings"]
        self._batch = int(state["epoch/batch"])
        self._place(np.unpackbits(state["chains/up"], axis=1, bitorder="little"), state["chains/streams"])

    def _place(self, up: np.ndarray, streams: np.ndarray) -> None:
        """Set the chains to states (n_chains, at least n_units) of 0 and 1, with their streams."""
        n_words = -(-self._n // WORD), self._weights.shape[1] // WORD
        parts = up[:, : self._n], up[:, self._n : self._n + self._m]
        visible, hidden = (_padded(in_words(pack(part)), n) for part, n in zip(parts, n_words, strict=True))
        self._chains = visible, hidden, np.array(streams, np.uint32, order="C")


def _part_of(n: int, step: int, shard: int, n_shards: int) -> tuple[int, int]:
    """Return the first and the last of `n` things, in whole steps, that are a thread's."""
    n_steps = -(-n // step)
    return min(n, n_steps * shard // n_shards * step), min(n, n_steps * (shard + 1) // n_shards * step)


def _padded(words: np.ndarray, n: int) -> np.ndarray:
    """Return rows of `n` words, those that are missing 0."""
    return np.pad(words, ((0, 0), (0, n - words.shape[1])))
