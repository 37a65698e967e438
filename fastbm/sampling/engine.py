"""What all engines share: the machine in terms of units that are up, chains in lanes, blocks of lanes on threads.

With x = 1 where a unit is up and 0 where it is down, P(up) = sigmoid(beta (A x + a)) with A = span^2 W and
a = span (b + lo W 1), span = hi - lo. Engines know nothing else of the unit convention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .. import _checks, rng
from ..couplings import Couplings
from ..kernels.packing import pack_units
from ..threads import fan_out
from ..units import Units

LANES = 16  # chains in one vector
BLOCK = 64  # most chains that share one pass over the couplings: beyond it fields and states leave the cache


WORTH_A_THREAD = 1 << 15  # updates below which handing blocks to threads costs more than it saves

T = TypeVar("T")


def up_form(couplings: Couplings, bias: np.ndarray, units: Units) -> tuple[Couplings, np.ndarray]:
    """Return A and a; `bias` is (n_units,) or (n_chains, n_units)."""
    if units.lo == 0:  # binary units are 1 where they are up
        return couplings, bias
    pull = couplings.field(np.ones((1, couplings.n_units)))[0]
    return couplings.scaled(units.span**2), units.span * (bias + units.lo * pull)


def lanes_of(n_chains: int) -> int:
    """Round up to whole vectors."""
    return -(-n_chains // LANES) * LANES


class Engine:
    """Chains of one machine, each in a lane of its own with a stream of its own.

    Attributes
    ----------
    up : list of (n_units, lanes) uint8 arrays
        The bits, a block of up to 64 chains each; what lies in lanes beyond the chains has no meaning.
    n_swept : int
        Sweeps done since the start.
    """

    kernel: str
    detail: dict[str, Any]

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
    ) -> None:
        n_chains, n_units = up.shape
        self.units, self.rule, self.order, self.seed, self.threads = units, rule, order, seed, threads
        self.n_chains, self.n_units, self.n_swept = n_chains, n_units, 0
        size = self._block_size(n_chains, threads)
        self.blocks = [slice(start, min(start + size, n_chains)) for start in range(0, n_chains, size)]
        self.beta = np.broadcast_to(np.asarray(beta, np.float64), (n_chains,))
        self.streams = [np.ones((4, lanes_of(block.stop - block.start)), np.uint32) for block in self.blocks]
        self.up = [np.zeros((n_units, lanes_of(block.stop - block.start)), np.uint8) for block in self.blocks]
        self._load(up, streams)

    @staticmethod
    def _block_size(n_chains: int, threads: int) -> int:
        """Chains of a block: at most 64, and fewer where threads would have nothing to do. A path does not depend on
        it.
        """
        n_blocks = max(-(-n_chains // BLOCK), min(threads, -(-n_chains // LANES)))
        return lanes_of(-(-n_chains // n_blocks))

    def _load(self, up: np.ndarray, streams: np.ndarray) -> None:
        for block, lanes, stream in zip(self.blocks, self.up, self.streams, strict=True):
            size = block.stop - block.start
            lanes[:, :size] = up[block].T
            stream[:, :size] = streams[block].T

    def couple(self, couplings: Couplings, bias: np.ndarray) -> None:
        """Take other couplings and biases ((n_units,) or (n_chains, n_units)); the chains stay where they are."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """Make what blocks need before they run side by side."""

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        """Do sweeps `first` to `first + n_sweeps` of block `k`."""
        raise NotImplementedError

    def _energies_block(self, k: int) -> np.ndarray:
        """Energies without offset of block `k`, in float64 from the user's couplings."""
        raise NotImplementedError

    def _for_blocks(self, function: Callable[[int], T], n_sweeps: int) -> list[T]:
        """Apply `function` to every block; on threads if there are sweeps enough to be worth handing over."""
        worth = n_sweeps * self.n_units * self.n_chains >= WORTH_A_THREAD
        return fan_out(function, range(len(self.blocks)), self.threads if worth else 1)

    def sweep(self, n_sweeps: int) -> None:
        """Advance every chain by `n_sweeps` sweeps."""
        self._prepare()
        self._for_blocks(lambda k: self._sweep_block(k, self.n_swept, n_sweeps), n_sweeps)
        self.n_swept += n_sweeps

    def record(self, n_samples: int, thin: int) -> tuple[np.ndarray, np.ndarray]:
        """Advance by `n_samples` times `thin` sweeps, and keep the state after every `thin`.

        Returns the packed states (n_samples, n_chains, ceil(n_units / 8)) and their energies without offset (n_samples,
        n_chains). Each block goes its way without waiting for the others.
        """
        self._prepare()
        packed = np.empty((n_samples, self.n_chains, -(-self.n_units // 8)), np.uint8)
        energies = np.empty((n_samples, self.n_chains))

        def run(k: int) -> None:
            block = self.blocks[k]
            for t in range(n_samples):
                self._sweep_block(k, self.n_swept + t * thin, thin)
                pack_units(self.up[k], packed[t, block])
                energies[t, block] = self._energies_block(k)

        self._for_blocks(run, n_samples * thin)
        self.n_swept += n_samples * thin
        return packed, energies

    def energies(self) -> np.ndarray:
        """Energies without offset, (n_chains,), in float64 from the user's couplings."""
        return np.concatenate([self._energies_block(k) for k in range(len(self.blocks))])

    def bits(self) -> np.ndarray:
        """The bits of all chains, (n_chains, n_units) uint8."""
        return np.concatenate([up[:, : b.stop - b.start].T for b, up in zip(self.blocks, self.up, strict=True)])

    def packed(self) -> np.ndarray:
        """The bits of all chains, (n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit."""
        packed = np.empty((self.n_chains, -(-self.n_units // 8)), np.uint8)
        for block, lanes in zip(self.blocks, self.up, strict=True):
            pack_units(lanes, packed[block])
        return packed

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        streams = [s[:, : b.stop - b.start].T for b, s in zip(self.blocks, self.streams, strict=True)]
        return {"chains": self.packed(), "streams": np.concatenate(streams), "n_swept": np.array(self.n_swept)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        up = np.unpackbits(state["chains"], axis=1, count=self.n_units, bitorder="little")
        self._load(up, state["streams"])
        self.n_swept = int(state["n_swept"])


def start_bits(initial: Any, n_units: int, n_chains: int, seed: int, first_chain: int, units: Units) -> np.ndarray:
    """Return the bits that the chains start from: random, all up, or given states."""
    if isinstance(initial, str) and initial == "up":
        return np.ones((n_chains, n_units), np.uint8)
    if isinstance(initial, str) and initial == "random":
        rows = [rng.keyed(seed, rng.INITIAL, first_chain + c).bytes(-(-n_units // 8)) for c in range(n_chains)]
        packed = np.frombuffer(b"".join(rows), np.uint8).reshape(n_chains, -1)
        return np.unpackbits(packed, axis=1, count=n_units, bitorder="little")
    if isinstance(initial, str):
        raise ValueError(f'initial must be "random", "up" or an array of states; got {initial!r}.')
    states = _checks.any_array("initial", initial)
    if states.shape not in ((n_units,), (n_chains, n_units)):
        raise ValueError(f"initial must have shape ({n_chains}, {n_units}) or ({n_units},); got {states.shape}.")
    return np.broadcast_to(units.bits("initial", states), (n_chains, n_units))
