"""What all engines share: the machine in terms of units that are up, chains in lanes, blocks of lanes on threads.

With x = 1 where a unit is up and 0 where it is down, P(up) = sigmoid(beta (A x + a)) with A = span^2 W and
a = span (b + lo W 1), span = hi - lo. Engines know nothing else of the unit convention.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import rng
from ..couplings import Couplings
from ..kernels.packing import pack_units
from ..threads import fan_out
from ..units import Units

BLOCK = 64  # chains that share one pass over the couplings; fixed, so that bits do not depend on threads


def up_form(couplings: Couplings, bias: np.ndarray, units: Units) -> tuple[Couplings, np.ndarray]:
    """Return A and a; `bias` is (n_units,) or (n_chains, n_units)."""
    pull = couplings.field(np.ones((1, couplings.n_units)))[0]
    return couplings.scaled(units.span**2), units.span * (bias + units.lo * pull)


def lanes_of(n_chains: int) -> int:
    """Round up to whole vectors of 16 lanes."""
    return -(-n_chains // 16) * 16


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
        self.blocks = [slice(start, min(start + BLOCK, n_chains)) for start in range(0, n_chains, BLOCK)]
        self.beta = np.broadcast_to(np.asarray(beta, np.float64), (n_chains,))
        self.streams = [np.ones((4, lanes_of(block.stop - block.start)), np.uint32) for block in self.blocks]
        self.up = [np.zeros((n_units, lanes_of(block.stop - block.start)), np.uint8) for block in self.blocks]
        self._load(up, streams)

    def _load(self, up: np.ndarray, streams: np.ndarray) -> None:
        for block, lanes, stream in zip(self.blocks, self.up, self.streams, strict=True):
            size = block.stop - block.start
            lanes[:, :size] = up[block].T
            stream[:, :size] = streams[block].T

    def couple(self, couplings: Couplings, bias: np.ndarray) -> None:
        """Take other couplings and biases ((n_units,) or (n_chains, n_units)); the chains stay where they are."""
        raise NotImplementedError

    def sweep(self, n_sweeps: int) -> None:
        """Advance every chain by `n_sweeps` sweeps."""
        raise NotImplementedError

    def energies(self) -> np.ndarray:
        """Energies without offset, (n_chains,), in float64 from the user's couplings."""
        raise NotImplementedError

    def for_blocks(self, function: Any) -> list[Any]:
        """Apply `function` to the index of every block, on the threads."""
        return fan_out(function, range(len(self.blocks)), self.threads)

    def bits(self) -> np.ndarray:
        """The bits of all chains, (n_chains, n_units) uint8."""
        return np.concatenate([up[:, : b.stop - b.start].T for b, up in zip(self.blocks, self.up, strict=True)])

    def set_bits(self, up: np.ndarray) -> None:
        """Put the chains into other states."""
        for block, lanes in zip(self.blocks, self.up, strict=True):
            lanes[:, : block.stop - block.start] = up[block].T

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
    states = np.asarray(initial)
    if states.shape not in ((n_units,), (n_chains, n_units)):
        raise ValueError(f"initial must have shape ({n_chains}, {n_units}) or ({n_units},); got {states.shape}.")
    return np.broadcast_to(units.bits("initial", states), (n_chains, n_units))
