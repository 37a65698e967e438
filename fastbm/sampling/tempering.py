"""Parallel tempering: ladders of replicas that swap temperatures; only the chains at the target are recorded.

Hukushima and Nemoto, J. Phys. Soc. Jpn. 65, 1604 (1996), doi:10.1143/JPSJ.65.1604.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from .._base import checks, rng, threads as threads_module
from .._base.options import Least, flag, options
from .._base.streams import Stream
from ..kernels.sampling.tempering import FROM_TARGET, count_round_trips, swap_neighbours
from ..machine.couplings import Couplings
from ..machine.machine import BoltzmannMachine
from ..machine.units import Units
from .adapter import Adapter
from .chains import threads_between
from .clamped import Conditioned
from .engine.choice import looks_up_ladders, why_no_ladders
from .engine.lookup import MOST_NEIGHBOURS
from .engine.temperatures import Ladders, Samples
from .houdayer import HoudayerMoves, check_pairs, levels_that_pay
from .ladder import energy_profile, equal_steps
from .levels import ByLevel, ByReplica
from .settings import Cooled, SampleSettings, ladder

AT_ONCE, FEWEST = 64, 4  # sweeps that are mostly asked for in one call, and that are worth being prepared together
WORTH_A_ROUND = 1e-3  # seconds of sweeps between swaps, from which on threads may share all replicas, round by round
UNEVEN = 1.1  # times the ladders that each thread would have if they could be cut, above which threads do


class TemperedChains(Adapter):
    """Ladders of replicas that swap temperatures; the chains are those at the target, the last beta.

    Parameters
    ----------
    model : BoltzmannMachine
    n_chains : int
        Independent ladders.
    betas : (n_betas,) array
        Increasing; the last one is the target.
    rule, order, kernel, seed, initial, threads, bias
        As for `fastbm.sampling.chains.make_chains`, for the replicas; states of `initial` and biases are given one
        for each ladder. By the kernel "lookup" temperatures keep their lanes, and states move.
    first_chain : int
        Number of the first ladder: ladders run apart are those that run together.
    swap_every : int
        Sweeps between two attempts to swap, of pairs of levels (0, 1), (2, 3), ... and (1, 2), (3, 4), ... in turn.
    cluster : bool
        Precede swaps by isoenergetic cluster moves between ladders 2k and 2k + 1.
    whole : bool
        Have `record` return the states at every level.
    offset : float or (n_chains,) array, optional
        In place of the model's, where `bias` is.
    at_once : int
        Sweeps that are mostly asked for in one call; how chains are dealt to threads depends on it.

    Attributes
    ----------
    engine : Engine
        The replicas, whose lanes are those of `lanes`.
    level : (n_ladders, n_betas) int64 array
        Where replicas stand: replica r of ladder c is at betas[level[c, r]]. Ladders beyond `n_chains` fill up words.
    accepted, attempted : (n_betas - 1,) int64 arrays
        Swaps of levels k and k + 1 since the start, all ladders together.

    Notes
    -----
    Swaps are decided by energies from the fields that the kernel holds, as precise as its couplings
    (``detail["largest log-odds error"]``).  Cost: n_betas sweeps a sweep.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        n_chains: int,
        betas: Any,
        *,
        rule: str = "gibbs",
        order: str | None = None,
        kernel: str | None = None,
        seed: int = 0,
        initial: Any = "random",
        threads: int | None = None,
        first_chain: int = 0,
        swap_every: int = 1,
        cluster: bool = False,
        whole: bool = False,
        bias: np.ndarray | None = None,
        offset: Any = None,
        at_once: int = AT_ONCE,
    ) -> None:
        self.betas = np.array(betas, np.float64)
        self.n_chains, self.n_units, self.swap_every, self._whole = n_chains, model.n_units, swap_every, whole
        n_betas, at_once = len(self.betas), 1 if cluster else at_once
        bias = np.atleast_2d(model.flat_bias if bias is None else bias)
        n_threads = threads_between(model, n_chains * n_betas, max(swap_every, at_once), threads)
        alone = threads_between(model, n_chains * n_betas, swap_every, threads, WORTH_A_ROUND)  # of each round
        even = alone == 1 or -(-n_chains // alone) * alone <= UNEVEN * n_chains
        self._place: ByLevel | ByReplica = (ByLevel if kernel == "lookup" else ByReplica)(
            model, n_chains, self.betas, first_ladder=first_chain, initial=initial, bias=bias, rule=rule, order=order,
            kernel=kernel, seed=seed, threads=n_threads, together=even and at_once >= FEWEST,
        )  # fmt: skip
        self.engine = self._place.engine
        n_ladders = self._place.n_ladders
        self._moves = None
        if cluster:
            check_pairs(n_chains, first_chain)
            self._moves = HoudayerMoves(
                model.couplings,
                bias,
                model.convention,
                self.betas,
                n_ladders=n_ladders,
                seed=seed,
                first_ladder=first_chain,
                threads=threads_module.resolve(threads),
            )
        self._swaps = rng.streams(seed, n_ladders, first=first_chain, purpose=rng.SWAPS)
        self._counts = np.zeros((2, n_betas - 1), np.int64)
        self._trips = np.zeros(n_ladders, np.int64)
        self._end = np.zeros((n_ladders, n_betas), np.uint8)
        self.level = np.tile(np.arange(n_betas), (n_ladders, 1))
        self._end[:, -1] = FROM_TARGET
        offset = model.offset if offset is None else offset
        self._offset = np.broadcast_to(np.asarray(offset, np.float64), (self.n_chains,))[:, None]

    @property
    def round_trips(self) -> np.ndarray:
        """Ways of replicas from the target to the hottest level and back, of every ladder, (n_chains,)."""
        return self._trips[: self.n_chains]

    @property
    def attempted(self) -> np.ndarray:
        """Numbers of swaps that were tried between neighbouring temperatures, since the start."""
        return self._counts[0]

    @property
    def accepted(self) -> np.ndarray:
        """Numbers of swaps that were accepted between neighbouring temperatures, since the start."""
        return self._counts[1]

    @property
    def detail(self) -> dict[str, Any]:
        """Name of the kernel, and the numbers that it computes in."""
        clusters = {} if self._moves is None else {"cluster moves at levels": self._moves.levels.tolist()}
        return self.engine.detail | clusters

    @property
    def halt(self) -> Callable[[], bool]:
        """Function that is asked between pieces of long sweeps and of cluster moves whether a stop is wanted."""
        return self.engine.halt

    @halt.setter
    def halt(self, wanted: Callable[[], bool]) -> None:
        self.engine.halt = wanted
        if self._moves is not None:
            self._moves.halt = wanted

    @property
    def sweep_seconds(self) -> float:
        """About how many seconds a sweep of all replicas takes, with cluster moves."""
        moves = 0.0 if self._moves is None else self._moves.seconds
        return self.engine.sweep_seconds + moves / self.swap_every

    @property
    def lanes(self) -> np.ndarray:
        """Index of the engine's chain that is at every level, (n_chains, n_betas)."""
        return self._place.lanes(self.level)[: self.n_chains]

    def sweep(self, n_sweeps: int) -> None:
        """Advance every replica by `n_sweeps` sweeps, with the swaps that fall among them."""
        end = self.n_swept + n_sweeps
        while self.n_swept < end:
            left = end - self.n_swept
            if self._moves is None and self._place.advance(left, self._ladders(), self.n_chains):
                continue
            to_swap = self.swap_every - self.n_swept % self.swap_every
            self.engine.sweep(min(to_swap, left))
            if self.n_swept % self.swap_every == 0:
                self._swap()

    def _ladders(self) -> Ladders:
        """Return what moves where temperatures are swapped."""
        return Ladders(self.level, self._swaps, self._counts, self._end, self._trips, self.betas, self.swap_every)

    def _swap(self) -> None:
        """Move clusters, then try to swap every second pair of neighbouring temperatures."""
        if self._moves is not None:
            up = self.engine.bits()
            self._moves.move(up, self._place.lanes(self.level))
            self.engine.load_bits(up)
        energies = self._place.of_replicas(self.engine.quick_energies(), self.level)
        parity = (self.n_swept // self.swap_every - 1) % 2
        before, n_swaps = self.level.copy(), 0
        for some, counts in (
            (slice(self.n_chains), self._counts),
            (slice(self.n_chains, None), np.zeros_like(self._counts)),
        ):
            n_swaps += swap_neighbours(self.level[some], self._swaps[some], counts, self.betas, energies[some], parity)
        if n_swaps:
            self._place.swap(before, self.level)
            count_round_trips(self._end, self._trips, self.level)

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that `record` returns beside states and energies."""
        n_betas = len(self.betas)
        return {
            "tempering/energy": Stream("<f8", (self.n_chains, n_betas)),
            "tempering/accepted": Stream("<i8", (n_betas - 1,)),
            "tempering/attempted": Stream("<i8", (n_betas - 1,)),
            "tempering/round_trips": Stream("<i8", (self.n_chains,)),
        }

    def record(self, n_samples: int, thin: int, *, whole: bool | None = None) -> dict[str, np.ndarray]:
        """Advance by `n_samples` times `thin` sweeps, and return rows of every stream after every `thin`.

        Returns
        -------
        dict
            ``samples/states`` (n_samples, n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit, and
            ``samples/energy`` (n_samples, n_chains), without offset, at the target; ``tempering/energy`` (n_samples,
            n_chains, n_betas), with offset, at every level; ``tempering/accepted``, ``tempering/attempted``,
            ``tempering/round_trips``: the attributes. Where the `whole` ladder is recorded, ``ladder/states``
            (n_samples, n_chains, n_betas, ceil(n_units / 8)) besides.
        """
        whole = self._whole if whole is None else whole
        wanted, found = (n_samples, thin), None
        if self._moves is None:
            found = self._place.record(*wanted, self._ladders(), self.n_chains, whole=whole)
        return (found or self._record_one_by_one(*wanted, whole=whole)).rows(self._offset)

    def _record_one_by_one(self, n_samples: int, thin: int, *, whole: bool) -> Samples:
        samples = Samples(n_samples, self.n_chains, len(self.betas), -(-self.n_units // 8), whole=whole)
        for t in range(n_samples):
            self.sweep(thin)
            lanes = self.lanes
            if samples.whole is None:
                samples.states[t] = self.engine.packed(lanes[:, -1])
            else:
                samples.whole[t] = self.engine.packed()[lanes]
                samples.states[t] = samples.whole[t, :, -1]
            samples.energies[t], samples.counts[t] = self.engine.energies()[lanes], self._counts
            samples.trips[t] = self.round_trips
        return samples

    def energies(self) -> np.ndarray:
        """Return energies without offset at the target, (n_chains,), in float64 from the user's couplings."""
        return self.engine.energies()[self.lanes[:, -1]]

    def bits(self) -> np.ndarray:
        """Return the bits at the target, (n_chains, n_units) uint8."""
        return self.engine.bits()[self.lanes[:, -1]]

    def packed(self) -> np.ndarray:
        """Return the bits at the target, (n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit."""
        return self.engine.packed(self.lanes[:, -1])

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the ladders bit for bit."""
        own: dict[str, np.ndarray] = {
            "level": self.level.copy(),
            "ends": self._end.copy(),
            "swap_streams": self._swaps.copy(),
            "swap_counts": self._counts.copy(),
            "round_trips": self._trips.copy(),
        }
        if self._moves is not None:
            own["cluster_streams"] = self._moves.streams.copy()
        return self.engine.state() | own

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.engine.restore(state)
        self.level = np.array(state["level"], np.int64)
        self._end = np.array(state["ends"], np.uint8)
        self._swaps = np.array(state["swap_streams"], np.uint32)
        self._counts = np.array(state["swap_counts"], np.int64)
        self._trips = np.array(state["round_trips"], np.int64)
        if self._moves is not None:
            self._moves.streams = np.array(state["cluster_streams"], np.uint32)
        self._place.restore(self.level)


def _cluster(name: str, given: Any) -> bool:
    return bool(checks.choice(name, given, ("houdayer",))) if isinstance(given, str) else flag(name, given)


@options
class Tempering(Cooled):
    """Parallel tempering: `n_chains` ladders of replicas that swap temperatures; samples are those at the target.

    Parameters
    ----------
    betas : list of float, optional
        The ladder: increasing, the target last. Unless given, a short pilot finds one with equal swap rates.
    n_betas : int, optional
        Levels of the ladder; unless given, enough for a swap rate of about 0.3.
    swap_every : int
        Sweeps between two attempts to swap temperatures.
    cluster : bool
        Houdayer's cluster moves between ladders 2k and 2k + 1, of which there must be an even number.
    record : {"observables", "target", "all"}
        What is recorded at every temperature beside the energy: the named observables, if there are any; nothing, so
        that observables are those of the target; or states too, and observables that are functions, which takes
        n_betas times the room.

    References
    ----------
    Hukushima and Nemoto, J. Phys. Soc. Jpn. 65, 1604 (1996), doi:10.1143/JPSJ.65.1604; Houdayer, Eur. Phys. J. B 22,
    479 (2001), doi:10.1007/PL00011151.
    """

    name: ClassVar[str] = "tempering"

    betas: Annotated[tuple[float, ...], ladder] = ()
    n_betas: Annotated[int | None, Least(2)] = None
    swap_every: Annotated[int, Least(1)] = 1
    cluster: Annotated[bool | Literal["houdayer"], _cluster] = False
    record: Literal["observables", "target", "all"] = "observables"

    @property
    def replicas(self) -> int:
        """Number of replicas of each ladder."""
        return len(self.betas)

    @property
    def n_levels(self) -> int:
        """Number of temperatures of each ladder whose states are recorded beside the target's."""
        return len(self.betas) if self.record == "all" else 0

    def n_observed(self, observables: Mapping[str, str | None]) -> int:
        """Return the number of temperatures of each ladder at which observables are recorded beside the target's."""
        named = any(what is not None for what in observables.values())
        return len(self.betas) if self.record == "all" or (named and self.record == "observables") else 0

    def lane_betas(self, settings: SampleSettings) -> np.ndarray:
        """Return the inverse temperatures of all replicas as they start."""
        return np.tile(self.betas, settings.n_chains)

    def choose_kernel(self, settings: SampleSettings, couplings: Couplings, biases: np.ndarray, units: Units) -> str:
        """Return the kernel that is named, if it can take the machine, or the fastest."""
        if self._looks_up(settings, couplings, biases):
            return "lookup"
        return super().choose_kernel(settings, couplings, biases, units)

    def _looks_up(self, settings: SampleSettings, couplings: Couplings, biases: np.ndarray) -> bool:
        """Return whether ladders take the kernel "lookup"."""
        if self.kernel is None:
            return looks_up_ladders(couplings, biases, settings.n_chains, settings.first_chain)
        if self.kernel == "lookup" and (why := why_no_ladders(couplings, biases, settings.first_chain)):
            raise ValueError(
                f'kernel="lookup" takes graphs of at most {MOST_NEIGHBOURS} neighbours and biases that chains share: '
                f'{why}. Use kernel="sparse", or leave kernel out.'
            )
        return self.kernel == "lookup"

    def resolve(self, settings: SampleSettings, subject: Conditioned, threads: int) -> SampleSettings:
        """Return the settings with a ladder and a kernel."""
        if not self.betas:
            machine = subject.machine
            biases = machine.flat_bias if subject.bias is None else subject.bias
            profile = energy_profile(
                machine, float(self.lowest_beta or 0.0), settings.beta[0], rule=self.rule, seed=settings.seed,
                in_words=self._looks_up(settings, machine.couplings, biases), threads=threads,
            )  # fmt: skip
            settings = settings.with_own(betas=tuple(equal_steps(profile, self.n_betas).tolist()))
        own = settings.own
        assert isinstance(own, Tempering)
        if own.cluster:
            own._warn_if_idle(subject)
        return super(Tempering, own).resolve(settings, subject, threads)

    def _warn_if_idle(self, subject: Conditioned) -> None:
        """Warn where cluster moves are asked for and would be made at no temperature."""
        machine = subject.machine
        if not len(levels_that_pay(machine.couplings, machine.convention, np.array(self.betas))):
            checks.warn(
                "cluster moves are left out at every temperature of this ladder, which ends at "
                f"beta = {self.betas[-1]:g}: where units have more than 4 neighbours clusters percolate below "
                "beta = 1 / J, J being the root mean square coupling of spins.",
                UserWarning,
            )

    def chains(self, settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> TemperedChains:
        """Return the ladders."""
        whole = self.record == "all" or self.n_observed(settings.observables) > 0
        return TemperedChains(
            subject.machine, settings.n_chains, self.betas, initial=initial, first_chain=settings.first_chain,
            swap_every=self.swap_every, cluster=bool(self.cluster), whole=whole, offset=subject.offset,
            **self.common(settings, subject, threads),
        )  # fmt: skip
