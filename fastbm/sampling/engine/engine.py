"""The base of all engines: the machine in terms of units that are up, chains in lanes, blocks of lanes on threads.

With x = 1 where a unit is up and 0 where it is down, P(up) = sigmoid(beta (A x + a)) with A = span^2 W and
a = span (b + lo W 1), span = hi - lo. Engines know nothing else of the unit convention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ..._base import arrays
from ..._base.halting import never
from ..._base.streams import Stream
from ...data.rows import pack_rows
from ...kernels.bits import pack_units
from ...machine.couplings import Couplings
from ...machine.units import Units
from .lanes import BLOCK, LANES, PIECE_SECONDS, Lanes, SharedWork, lanes_of, whole_groups
from .orders import hold_of, sites, visit_order

T = TypeVar("T")
COPIED = 0.02  # sweeps that copying all states takes as long as, about


class Engine(SharedWork):
    """Chains of one machine, each in a lane of its own with a stream of its own.

    Attributes
    ----------
    lanes : Lanes
        The blocks of chains, and their lanes.
    up : list of (n_units, lanes) uint8 arrays
        The bits, a block of chains each; what lies in lanes beyond the chains has no meaning.
    lane_streams : list of (4, lanes) uint32 arrays
        Their random streams.
    n_swept, n_flips : int
        Sweeps done, and flips made, since the start.
    halt : function
        True if a stop is wanted. Asked by all that takes longer than about `PIECE_SECONDS`, but for `state` and
        `restore`; `Halted` is then raised, and the chains are to be restored. What is shorter runs to its end.
    """

    kernel: str
    detail: dict[str, Any]
    block_lanes = BLOCK
    few = 0  # chains, up to which they are swept one after the other, in no more lanes than there are chains
    multiplies = True  # whether sweeps and samples may call BLAS
    _in_groups: int = False  # samples from which on `_record_group` is called, if there is one

    def __init__(
        self,
        units: Units,
        up: np.ndarray,
        streams: np.ndarray,
        *,
        beta: Any,
        rule: str,
        order: str,
        seed: int,
        threads: int,
        highest_beta: float | None = None,
        one_by_one: bool | None = None,
        together: int = 1,
        summed: bool = False,
    ) -> None:
        n_units = up.shape[1]
        n_chains = len(up) if np.ndim(beta) == 0 else len(beta)  # rows beyond them fill up a word
        self.summed = summed  # whether energies are sums of their terms though fields could tell them
        self.units, self.rule, self.order, self.seed, self.threads = units, rule, order, seed, threads
        self.n_chains, self.n_units, self.n_swept = n_chains, n_units, 0
        few = self.are_few(n_chains, order) if one_by_one is None else one_by_one
        self._hold, self._one_by_one = hold_of(rule, order), few or None  # as kernels take it
        size = self._block_size(n_chains, n_units, threads)
        if together > 1:  # consecutive chains that are to be in one block
            size = whole_groups(size, n_chains, together, threads)
        self.lanes = Lanes(n_chains, size, 1 if self._one_by_one else LANES)
        self.blocks = self.lanes.blocks
        self.beta = np.full(n_chains, beta, np.float64)
        self.highest_beta = float(self.beta.max(initial=0.0)) if highest_beta is None else float(highest_beta)
        self.halt: Callable[[], bool] = never
        self._broken, self._flips = False, [0] * len(self.blocks)
        self._since_check = [0] * len(self.blocks)
        self._allocate()
        self._load(up, streams)

    @classmethod
    def are_few(cls, n_chains: int, order: str) -> bool:
        """Return whether so many chains are swept one after the other."""
        return n_chains <= cls.few

    def _block_size(self, n_chains: int, n_units: int, threads: int) -> int:
        """Return the chains of a block: at most `block_lanes`, fewer where threads would have none, or not as many.

        A path does not depend on it.
        """
        if self._one_by_one:
            return -(-n_chains // min(threads, n_chains))
        n_blocks = lanes_of(max(-(-n_chains // self.block_lanes), min(threads, -(-n_chains // LANES))), threads)
        return lanes_of(-(-n_chains // n_blocks))

    def _allocate(self) -> None:
        """Make room for the chains and their streams."""
        self.lane_streams = self.lanes.streams
        self.up = self.lanes.room(self.n_units, np.uint8)

    def _load(self, up: np.ndarray, streams: np.ndarray) -> None:
        """Load streams (n_chains, 4) and bits (n_chains, n_units)."""
        self.lanes.set_streams(streams)
        self._set_bits(up, whole=True)

    def load_bits(self, up: np.ndarray) -> None:
        """Replace the states of all chains by (n_chains, n_units) of 0 and 1."""
        self._set_bits(up)

    def _set_bits(self, up: np.ndarray, *, whole: bool = False) -> None:
        self._for_blocks(lambda k: self._load_block(k, up[self.blocks[k]]), 1, whole=whole)
        self._forget()

    def _load_block(self, k: int, up: np.ndarray) -> None:
        """Replace the states of the chains of block `k` by (chains, n_units)."""
        self.lanes.write(k, self.up[k], up)

    def _forget(self) -> None:
        """Drop what was computed from the states."""

    def couple(self, couplings: Couplings, bias: np.ndarray) -> None:
        """Replace couplings and biases ((n_units,) or (n_chains, n_units)); states stay."""
        self.couplings, self.bias = couplings, np.atleast_2d(bias)
        self.visit = visit_order(self.order, couplings)
        self._couple()

    def _couple(self) -> None:
        """Convert couplings and biases to the form of the kernel, and describe it in `detail`."""
        raise NotImplementedError

    def set_beta(self, beta: np.ndarray) -> None:
        """Replace inverse temperatures (n_chains,), none above `highest_beta`."""
        self.beta = np.array(beta, np.float64)
        self._rescale()

    def _rescale(self) -> None:
        """Compute what depends on the temperatures."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """Allocate what blocks need before they run side by side."""

    def _prepare_energies(self) -> None:
        """Make what energies need of blocks that run side by side."""

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        """Do sweeps `first` to `first + n_sweeps` of block `k`, piece by piece as `_pieces` yields them."""
        raise NotImplementedError

    def _energies_block(self, k: int) -> np.ndarray:
        """Return energies without offset of block `k`, in float64 from the user's couplings."""
        raise NotImplementedError

    def _sample_energies(self, k: int) -> np.ndarray:
        """Return energies without offset of block `k` as its samples have them."""
        return self._energies_block(k)

    def _pack_block(self, k: int, packed: np.ndarray) -> None:
        """Write the bits of block `k` to `packed` (chains, ceil(n_units / 8))."""
        pack_units(self.up[k], packed)

    def _pieces(self, k: int, first: int, n_sweeps: int) -> Iterator[tuple[np.ndarray, int]]:
        """Yield (rows of units, number of rows) for block `k` to visit, until a stop is asked for."""
        for rows, count in sites(self.order, self.visit, self.seed, first, n_sweeps):
            for piece, n_rows in self._cut(rows, count):
                if self._must_stop(k, piece.shape[1] * n_rows):
                    return
                yield piece, n_rows

    def _cut(self, rows: np.ndarray, count: int) -> Iterator[tuple[np.ndarray, int]]:
        """Cut `count` sweeps into whole sweeps that fit into a piece, or sweeps that do not into pieces."""
        longest = self._longest_piece()
        if self.n_units > longest:
            for t in range(count):
                row = rows[t % len(rows)]
                for a in range(0, self.n_units, longest):
                    yield row[None, a : a + longest], 1
            return
        step = longest // self.n_units
        for start in range(0, count, step):
            n_rows = min(step, count - start)
            yield (rows if len(rows) == 1 else rows[start : start + n_rows]), n_rows

    def expect(self, n_sweeps: int) -> None:
        """Prepare for so many sweeps, about: a path does not depend on it."""

    def sweep(self, n_sweeps: int) -> None:
        """Advance every chain by `n_sweeps` sweeps."""
        self._prepare()
        self._since_check = [0] * len(self.blocks)
        self._for_blocks(lambda a, b, k: self._sweep_block(k, self.n_swept + a, b - a), n_sweeps, steps=n_sweeps)
        self.n_swept += n_sweeps

    def watch(self, n_sweeps: int, look: Callable[[int, np.ndarray], object]) -> None:
        """Advance every chain by `n_sweeps` sweeps, and show its states after each.

        `look` is called with the number of a block's first chain and what `words` returns of the block, after some
        sweeps, one beside the other, (n_units, m); by several threads at the same time.
        """
        self._prepare()
        self._since_check = [0] * len(self.blocks)

        def watch(begin: int, end: int, k: int) -> None:
            together = max(1, self._longest_piece() // self.n_units)
            for t in range(begin, end, together):
                words = self._words_of_sweeps(k, self.n_swept + t, min(together, end - t))
                if self._broken:
                    return
                look(self.blocks[k].start, words)

        self._for_blocks(watch, n_sweeps, steps=n_sweeps)
        self.n_swept += n_sweeps

    def _words_of_sweeps(self, k: int, first: int, n_sweeps: int) -> np.ndarray:
        """Return the words of block `k` after each sweep from number `first` on."""
        found = []
        for t in range(n_sweeps):
            self._sweep_block(k, first + t, 1)
            found.append(self.words(k))
        return np.concatenate(found, axis=1)

    def resample(self, parents: np.ndarray | None, n_sweeps: int) -> np.ndarray:
        """Give chain c the state of chain parents[c], if there are any, and sweep; return the energies then."""
        if parents is not None:
            self.gather(parents)
        if n_sweeps:
            self.sweep(n_sweeps)
        return self.energies()

    def together(self, work: Callable[[], T], n_sweeps: int) -> T:
        """Do work that calls `resample` for so many sweeps again and again."""
        return work()

    def record(self, n_samples: int, thin: int) -> dict[str, np.ndarray]:
        """Advance by `n_samples` times `thin` sweeps, and keep the state after every `thin`.

        Each block goes its way; before a single sample that takes long they may wait for one another.

        Returns
        -------
        dict
            ``samples/states`` (n_samples, n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit, and
            ``samples/energy`` (n_samples, n_chains), without offset.
        """
        if n_samples == 1 and self._seconds(thin) > PIECE_SECONDS and self._n_turns(thin - 1, thin) > 1:
            Engine.sweep(self, thin - 1)  # in which blocks take turns
            thin = 1
        self._prepare()
        self._prepare_energies()
        self._since_check = [0] * len(self.blocks)
        packed = arrays.empty((n_samples, self.n_chains, -(-self.n_units // 8)), np.uint8)
        energies = arrays.empty((n_samples, self.n_chains), np.float64)
        self._for_blocks(partial(self._record_block, thin, packed, energies), n_samples * thin, steps=n_samples)
        self.n_swept += n_samples * thin
        return {"samples/states": packed, "samples/energy": energies}

    def _record_block(self, thin: int, packed: np.ndarray, energies: np.ndarray, begin: int, end: int, k: int) -> None:
        """Take samples of block `k` from number `begin` on, before `end`, short ones many in one call.

        Mutates its part of `packed`, `energies`.
        """
        block = self.blocks[k]
        together = self._longest_piece() // (self.n_units * thin)
        for t in range(begin, end, max(1, together)):
            some = slice(t, min(t + max(1, together), end))
            if 0 < self._in_groups <= together:
                n_sweeps = (some.stop - t) * thin
                sites = self._rows_of(self.n_swept + t * thin, n_sweeps)
                if self._must_stop(k, self.n_units * n_sweeps):
                    return
                self._record_group(k, sites, thin, packed[some], energies[some])
            else:
                for one in range(t, some.stop):
                    self._sweep_block(k, self.n_swept + one * thin, thin)
                    if self._broken:
                        return
                    self._pack_block(k, packed[one, block])
                    if not together and self._stopped():
                        return
                    energies[one, block] = self._sample_energies(k)

    def _rows_of(self, first: int, n_sweeps: int) -> np.ndarray:
        """Return rows of units to visit: one for all sweeps, or one for each; one where there are none."""
        found = [rows[:count] for rows, count in sites(self.order, self.visit, self.seed, first, max(1, n_sweeps))]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _record_group(self, k: int, sites: np.ndarray, thin: int, packed: np.ndarray, energies: np.ndarray) -> None:
        """Take samples of block `k` in one call; rows of `sites` are as `_rows_of` has them.

        Mutates its part of `packed` (n_samples, n_chains, ceil(n_units / 8)), `energies` (n_samples, n_chains).
        """
        raise NotImplementedError

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that `record` returns beside states and energies: none."""
        return {}

    @property
    def n_flips(self) -> int:
        """Flips of all chains since the start."""
        return sum(self._flips)

    @property
    def sweep_seconds(self) -> float:
        """About how many seconds a sweep of all chains takes."""
        lanes = sum(up.shape[1] for up in self.up)
        return float(self.attempt_seconds * self.n_units * lanes / min(self.threads, len(self.blocks)))

    def energies(self) -> np.ndarray:
        """Return energies without offset, (n_chains,), in float64 from the user's couplings."""
        self._prepare_energies()
        return np.concatenate(self._for_blocks(self._energies_block, 1))

    def quick_energies(self) -> np.ndarray:
        """Return energies without offset, (n_chains,), as precise as the kernel's fields where these are at hand."""
        return self.energies()

    def gather(self, index: np.ndarray) -> None:
        """Give chain c the state of chain index[c]; streams and temperatures stay."""
        self.load_bits(self.bits()[index])

    def bits(self) -> np.ndarray:
        """Return the bits of all chains, (n_chains, n_units) uint8."""
        bits = np.empty((self.n_chains, self.n_units), np.uint8)

        def copy(k: int) -> None:
            bits[self.blocks[k]] = self.up[k][:, : self.lanes.used(k)].T

        self._for_blocks(copy, COPIED)
        return bits

    def packed(self, chains: np.ndarray | None = None) -> np.ndarray:
        """Return the bits of all or some chains, (n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit."""
        return self._pack() if chains is None else self._pack(np.bincount(chains, minlength=self.n_chains))[chains]

    def _pack(self, asked: np.ndarray | None = None, *, whole: bool = False) -> np.ndarray:
        packed = np.empty((self.n_chains, -(-self.n_units // 8)), np.uint8)
        parts = [packed[block if asked is None or asked[block].any() else slice(0)] for block in self.blocks]
        self._for_blocks(lambda k: self._pack_block(k, parts[k]) if len(parts[k]) else None, 1, whole=whole)
        return packed

    def words(self, k: int) -> np.ndarray:
        """Return the bits of block `k`, 64 chains a word, chain 0 in the lowest bit.

        They are (n_units, ceil(chains / 64)) uint64.
        """
        return pack_rows(self.up[k][:, : self.lanes.used(k)].T)

    def _stream_rows(self) -> np.ndarray:
        """Return the streams of random numbers, one row each."""
        return self.lanes.gather(self.lane_streams)

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the chains bit for bit."""
        return {
            "chains": self._pack_state(),
            "streams": self._stream_rows(),
            "n_swept": np.array(self.n_swept),
            "n_flips": np.array(self.n_flips),
        }

    def _pack_state(self) -> np.ndarray:
        """Return the bits of all chains that have a state."""
        return self._pack(whole=True)

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        up = np.unpackbits(state["chains"], axis=1, count=self.n_units, bitorder="little")
        self._load(up, state["streams"])
        self.n_swept = int(state["n_swept"])
        self._flips = [int(state["n_flips"])] + [0] * (len(self.blocks) - 1)
