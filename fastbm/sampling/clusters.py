"""Chains of cluster updates, Wolff or Swendsen-Wang, on any graph whose couplings are not frustrated.

Where they are not there is a gauge: signs g_i with g_i g_j W_ij >= 0, so that the units g_i s_i are a ferromagnet
(Mattis, Phys. Lett. A 56, 421 (1976), doi:10.1016/0375-9601(76)90396-0). Units are turned by it, so that kernels see a
ferromagnet; what comes out is in the machine's own bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._base import rng
from .._base.halting import Halted, never
from .._base.options import options
from .._base.streams import Stream
from .._base.threads import fan_out
from ..kernels.ahead import leaps
from ..kernels.energy import energies_sparse
from ..kernels.sampling.clusters import swendsen_wang_updates, wolff_updates
from ..kernels.words import SIDE
from ..machine.couplings import Couplings
from ..machine.units import Units
from .chains import start_bits
from .clamped import Conditioned
from .engine.lanes import PIECE_SECONDS, WORTH_A_THREAD
from .engine.remainders import check_energy
from .engine.sparse import CHECKED
from .gauge import require_gauge
from .settings import Sampler, SampleSettings

if TYPE_CHECKING:
    from .cluster_squares import Squares

RULES = ("wolff", "swendsen-wang")
BLOCKS_A_THREAD = 2  # clusters differ in size, so that chains take different times
UNIT_SECONDS = 5e-8  # about what one unit takes in a Swendsen-Wang sweep; decides how often a stop is looked for
TOGETHER = 64  # chains whose samples are packed and whose energies are told between two looks for a stop
_EVEN = 0.7  # a strength at which a bond is about as likely as not
LARGEST_PULL = 1e290  # log-odds; sums over 10^18 units are still finite


def bond_cuts(strength: np.ndarray) -> np.ndarray:
    """Return the probabilities 1 - exp(-strength) of bonds in units of 2^-64, (uint64).

    The smaller one of a bond's two probabilities is exact to 2^-53 of itself, and to 2^-64.
    """
    joined = np.rint(np.ldexp(-np.expm1(-np.minimum(strength, _EVEN)), 64)).astype(np.uint64)
    parted = np.rint(np.ldexp(np.exp(-np.maximum(strength, _EVEN)), 64)).astype(np.uint64)
    all_but = ~np.maximum(parted, np.uint64(1)) + np.uint64(1)  # 2^64 - parted
    return np.where(strength < _EVEN, joined, all_but)


class ClusterChains:
    """Chains of one machine that move by clusters, with the methods of `fastbm.sampling.engine.engine.Engine`.

    Parameters
    ----------
    couplings : Couplings
        Without frustration.
    bias : (n_units,) or (n_chains, n_units) array
    units : Units
    up : (n_chains, n_units) uint8 array
        The bits to start from.
    streams : (n_chains, 4) uint32 array
    beta : (n_chains,) array
    rule : {"wolff", "swendsen-wang"}
        A Wolff sweep is one cluster, however small: to stop by the number of units turned would bias samples towards
        states with large clusters. A Swendsen-Wang sweep draws the directions of all clusters.
    seed : int
        Not used: all randomness is in the chains' own streams.
    threads : int
    burn_in : int
        Sweeps whose clusters are left out of ``clusters/size``.

    Attributes
    ----------
    n_swept : int
        Sweeps done since the start.
    halt : function
        Asked between pieces of long sweeps: true if a stop is wanted. Then `Halted` is raised.

    Raises
    ------
    ValueError
        If a loop of couplings is frustrated.

    Notes
    -----
    A field enters Swendsen-Wang by a heat bath, P(cluster up) = sigmoid(2 beta sum b_i), and Wolff by a Metropolis
    step, min(1, exp(2 beta change of sum b_i s_i)). A ghost spin would turn a Wolff cluster with probability exp(-2
    beta sum |b_i|), summed over the units that lie along their field alone, which is never more.

    ``clusters/size`` is the mean size of the cluster of a random unit since the last sample: Wolff draws the unit,
    Swendsen-Wang averages over all. Without a field its expectation is that of (sum_i g_i s_i)^2 / n_units, g the
    gauge. Memory: 8 bytes for each entry of the whole matrix of couplings and each distinct beta; some MB for samples.
    """

    def __init__(
        self,
        couplings: Couplings,
        bias: np.ndarray,
        units: Units,
        up: np.ndarray,
        streams: np.ndarray,
        *,
        beta: Any,
        rule: str,
        seed: int,
        threads: int,
        burn_in: int = 0,
    ) -> None:
        self.n_chains, self.n_units = up.shape
        self.units, self.rule, self.seed, self.threads, self.burn_in = units, rule, seed, threads, burn_in
        self.beta = np.broadcast_to(np.asarray(beta, np.float64), (self.n_chains,))
        self._couplings, self._graph = couplings, couplings.csr()
        self._bias = np.ascontiguousarray(np.atleast_2d(bias), dtype=np.float64).view()
        self._bias.setflags(write=False)
        signs = require_gauge(*self._graph, sampler=rule)
        self._turned = (signs < 0).astype(np.uint8)
        self._set_bonds(signs * _spin_bias(self._graph, self._bias, units))
        n_blocks = min(self.n_chains, BLOCKS_A_THREAD * threads if threads > 1 else 1)
        ends = np.linspace(0, self.n_chains, n_blocks + 1).astype(int)
        self.blocks = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        self._streams = np.array(streams, np.uint32, order="C")
        self._told: tuple[int, float] | None = None  # after how many sweeps the first chain had which energy
        self.load_bits(up)
        self._squares: Squares | None = None
        self.halt: Callable[[], bool] = never
        self._broken = False
        self._sizes, self._n_counted, self.n_swept = np.zeros(self.n_chains), 0, 0
        self.detail: dict[str, Any] = {
            "kernel": rule,
            "bond probabilities": "multiples of 2^-64",
            "units turned by the gauge": int(self._turned.sum()),
        }

    def _set_bonds(self, bias: np.ndarray) -> None:
        """Set bond probabilities and pulls 2 beta b, once for every distinct beta (or chain, where biases differ).

        In spins J is W, or W / 4 where units are binary; `bias` is in spins, in the gauge.
        """
        strength = np.abs(self._graph[2]) * (self.units.span**2 / 2)
        if len(strength) and (strength == strength[0]).all():
            strength = strength[:1]
        distinct, which = np.unique(self.beta, return_inverse=True)
        self._which = which.tolist()
        with np.errstate(over="ignore", under="ignore"):
            self._cuts = [bond_cuts(beta * strength) for beta in distinct]
            if len(bias) > 1:
                self._pull = [_pull(beta * row) for beta, row in zip(self.beta, bias, strict=True)]
            else:
                shared = [_pull(beta * bias[0]) for beta in distinct]
                self._pull = [shared[k] for k in self._which]

    def load_bits(self, up: np.ndarray) -> None:
        """Replace the states of all chains by (n_chains, n_units) of 0 and 1."""
        self._told = None
        self._up = np.ascontiguousarray(up ^ self._turned)

    @property
    def sweep_seconds(self) -> float:
        """About how many seconds a sweep of all chains takes, at most."""
        return UNIT_SECONDS * self.n_units * self.n_chains / min(self.threads, len(self.blocks))

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that `record` returns beside states and energies."""
        return {"clusters/size": Stream("<f8", (self.n_chains,))}

    def _advance(self, block: slice, n_sweeps: int) -> None:
        """Do `n_sweeps` sweeps of a block of chains, and add up the (squared) sizes of their clusters.

        Long sweeps come in pieces, until a stop is asked for.
        """
        update = wolff_updates if self.rule == "wolff" else swendsen_wang_updates
        queue, (indptr, indices, _) = np.empty(self.n_units + 1, np.int32), self._graph
        step = max(1, int(PIECE_SECONDS / (UNIT_SECONDS * self.n_units)))
        long = n_sweeps * (block.stop - block.start) > step
        for some in self._alike(block, max(1, step // max(1, n_sweeps))):
            graph, pull = (indptr, indices, self._cuts[self._which[some.start]]), self._pull[some.start]
            for first in range(0, n_sweeps, step):
                if long and self._stopped():
                    return
                count = min(step, n_sweeps - first)
                update(self._up[some], queue, graph, pull, self._streams[some], leaps(), count, self._sizes[some])

    def _alike(self, block: slice, most: int) -> Iterator[slice]:
        """Yield at most so many chains of a block at a time that have bonds and pulls in common."""
        first = block.start
        for c in range(first + 1, block.stop + 1):
            full = c == block.stop or c - first == most
            if full or self._which[c] != self._which[first] or self._pull[c] is not self._pull[first]:
                yield slice(first, c)
                first = c

    def _stopped(self) -> bool:
        """Return whether long work is to be left here."""
        if not self._broken and self.halt():
            self._broken = True
        return self._broken

    def _for_blocks(self, function: Callable[[slice], None], n_sweeps: int) -> None:
        worth = n_sweeps * self.n_units * self.n_chains * UNIT_SECONDS >= WORTH_A_THREAD
        fan_out(function, self.blocks, self.threads if worth else 1)
        if self._broken:
            self._broken = False
            raise Halted

    def _count(self, n_sweeps: int) -> None:
        """Set the number of sweeps whose clusters have been added up since the last sample."""
        self._n_counted += n_sweeps
        self.n_swept += n_sweeps

    def sweep(self, n_sweeps: int) -> None:
        """Advance every chain by `n_sweeps` sweeps."""
        self._for_blocks(lambda block: self._advance(block, n_sweeps), n_sweeps)
        self._count(n_sweeps)
        if self.n_swept <= self.burn_in:
            self._sizes[:], self._n_counted = 0.0, 0

    def record(self, n_samples: int, thin: int) -> dict[str, np.ndarray]:
        """Advance by `n_samples` times `thin` sweeps, and return rows of every stream after every `thin`.

        Returns
        -------
        dict
            ``samples/states`` (n_samples, n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit;
            ``samples/energy`` (n_samples, n_chains), without offset; ``clusters/size`` (n_samples, n_chains).
        """
        packed = np.empty((n_samples, self.n_chains, -(-self.n_units // 8)), np.uint8)
        energies, sizes = np.empty((n_samples, self.n_chains)), np.empty((n_samples, self.n_chains))
        squares, found = self._in_squares(), (packed, energies, sizes)
        self._for_blocks(lambda block: self._take(squares, block, thin, found), n_samples * thin)
        per_sweep = 1 if self.rule == "wolff" else self.n_units  # units that ask for the size of their cluster
        sizes[:1] /= per_sweep * (thin + self._n_counted)
        sizes[1:] /= per_sweep * thin
        self._count(n_samples * thin)
        if n_samples:
            self._n_counted = 0
            self._told = (self.n_swept, float(energies[-1, 0])) if n_samples * self.n_units >= CHECKED else None
        return {"samples/states": packed, "samples/energy": energies, "clusters/size": sizes}

    def _take(self, squares: Squares | None, block: slice, thin: int, found: tuple[np.ndarray, ...]) -> None:
        """Take samples of a block of chains, until a stop is asked for. Mutates their part of `found`."""
        if squares is None:
            self._take_one_by_one(block, thin, *found)
            return
        most = max(SIDE, int(PIECE_SECONDS / (UNIT_SECONDS * self.n_units)))  # sweeps in one call
        before, last = (thin - 1, 1) if thin > most else (0, thin)
        (packed, energies, sizes), room = found, squares.room()
        n = 1 if before else max(1, min(len(packed), most // last))
        for some in self._alike(block, max(1, most // (last * n))):
            chains = self._up[some], self._streams[some], self._cuts[self._which[some.start]], self._pull[some.start]
            for t in range(0, len(packed), n):
                if before:
                    self._advance(some, before)
                if self._stopped():
                    return
                part = slice(t, min(t + n, len(packed))), some
                squares.take(chains, last, room, packed[part], energies[part], sizes[part])
                sizes[t, some] += self._sizes[some]
                self._sizes[some] = 0.0

    def _take_one_by_one(
        self, block: slice, thin: int, packed: np.ndarray, energies: np.ndarray, sizes: np.ndarray
    ) -> None:
        long = self.n_units * self.n_chains * UNIT_SECONDS > PIECE_SECONDS
        for t in range(len(packed)):
            self._advance(block, thin)
            if self._broken:
                return
            for first in range(block.start, block.stop, TOGETHER):
                if long and self._stopped():
                    return
                some = slice(first, min(first + TOGETHER, block.stop))
                packed[t, some], energies[t, some] = self._packed(some), self._energies(some)
            sizes[t, block], self._sizes[block] = self._sizes[block], 0.0

    def _in_squares(self) -> Squares | None:
        """Return what takes many samples in one call, of units that are not many and have the same biases."""
        from .cluster_squares import LARGEST, Squares  # many runs need none

        if self._squares is None and len(self._bias) == 1 and self.n_units <= LARGEST:
            about = self._couplings, self._bias[0], self.units
            self._squares = Squares(*about, self._turned, single=self.rule == "wolff")
        return self._squares

    def _energies(self, block: slice) -> np.ndarray:
        bias = self._bias[block] if len(self._bias) > 1 else self._bias
        energies = np.empty(block.stop - block.start)
        up = np.ascontiguousarray((self._up[block] ^ self._turned).T)
        values = (float(self.units.lo), float(self.units.span))
        energies_sparse(up, self._graph, np.ascontiguousarray(bias.T), values, energies)
        return energies

    def _packed(self, block: slice) -> np.ndarray:
        return np.packbits(self._up[block] ^ self._turned, axis=1, bitorder="little")

    def energies(self) -> np.ndarray:
        """Return energies without offset, (n_chains,), in float64 from the user's couplings."""
        return self._energies(slice(0, self.n_chains))

    def bits(self) -> np.ndarray:
        """Return the bits of all chains, (n_chains, n_units) uint8."""
        return self._up ^ self._turned

    def packed(self) -> np.ndarray:
        """Return the bits of all chains, (n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit."""
        return self._packed(slice(0, self.n_chains))

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the chains bit for bit.

        Raises
        ------
        RuntimeError
            If the last energy that was recorded is not that of its state.
        """
        if self._told is not None and self._told[0] == self.n_swept:
            up = self._up[0] ^ self._turned
            check_energy(self._told[1], up, self._couplings, self._bias[0], self.units)
        return {
            "chains": self.packed(),
            "streams": self._streams.copy(),
            "n_swept": np.array(self.n_swept),
            "cluster_sizes": self._sizes.copy(),
            "n_counted": np.array(self._n_counted),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.load_bits(np.unpackbits(state["chains"], axis=1, count=self.n_units, bitorder="little"))
        self._streams = np.array(state["streams"], np.uint32, order="C")
        self.n_swept, self._n_counted = int(state["n_swept"]), int(state["n_counted"])
        self._sizes = np.array(state["cluster_sizes"], np.float64)


def _pull(field: np.ndarray) -> np.ndarray:
    """Return 2 beta b from beta b; empty where all of it is 0, which spares kernels a pass."""
    return np.clip(2.0 * field, -LARGEST_PULL, LARGEST_PULL) if field.any() else np.empty(0)


def _spin_bias(graph: tuple[np.ndarray, np.ndarray, np.ndarray], bias: np.ndarray, units: Units) -> np.ndarray:
    """Return the bias of the same machine in spins: b for spins, b / 2 + W 1 / 4 for binary units."""
    if units.lo:
        return bias
    indptr, _, values = graph
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    spins: np.ndarray = bias / 2 + np.bincount(rows, values, len(indptr) - 1) / 4
    return spins


@options
class _Clusters(Sampler):
    many_betas: ClassVar[bool] = True

    def chains(self, settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> ClusterChains:
        """Return independent chains."""
        s, machine = settings, subject.machine
        up = start_bits(initial, machine.n_units, s.n_chains, s.seed, s.first_chain, machine.convention)
        return ClusterChains(
            machine.couplings, machine.flat_bias if subject.bias is None else subject.bias, machine.convention, up,
            rng.streams(s.seed, s.n_chains, first=s.first_chain), beta=s.by_chain, rule=self.name, seed=s.seed,
            threads=threads, burn_in=0 if s.burn_in == "auto" else int(s.burn_in),
        )  # fmt: skip


@options
class Wolff(_Clusters):
    """Single clusters, for couplings without frustration; a sweep is one cluster. It has no options of its own.

    References
    ----------
    Wolff, Phys. Rev. Lett. 62, 361 (1989), doi:10.1103/PhysRevLett.62.361.
    """

    name: ClassVar[str] = "wolff"


@options
class SwendsenWang(_Clusters):
    """All clusters at once, for couplings without frustration. It has no options of its own.

    References
    ----------
    Swendsen and Wang, Phys. Rev. Lett. 58, 86 (1987), doi:10.1103/PhysRevLett.58.86.
    """

    name: ClassVar[str] = "swendsen-wang"
