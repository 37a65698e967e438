"""The base of all samplers, which hold their options and make their chains, and the settings of `fastbm.sample`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from .._base import checks
from .._base.options import CHOSEN, Least, Options, options
from ..machine.couplings import Couplings
from ..machine.units import Units
from .chains import resolve_order, warn_if_periodic
from .clamped import Conditioned
from .engine.choice import check_kernel, choose_kernel, natural_kernel
from .times import EvenTimes, LogTimes, times_of

# arguments of `sample` that not every sampler takes: those of what goes on as long as one likes
OPEN = frozenset({"burn_in", "thin", "clamp", "until", "initial", "first_chain"})
Updates = Literal["gibbs", "metropolis"]


@options
class Sampler(Options):
    """A sampler: its options, what it chooses for a machine, and the chains that it makes.

    Attributes
    ----------
    takes : set of str
        Which of those arguments of `sample` it takes that not every sampler does.
    sweeps : int
        `n_sweeps` unless given.
    many_betas : bool
        Whether it takes a list of beta, one for each group of chains.
    ends : bool
        Whether it has an end of its own.
    relaxes : bool
        Whether chains need sweeps to forget where they started.
    searches : bool
        Whether it is for low energies alone, whatever is kept.
    """

    kind: ClassVar[str] = "sampler"
    takes: ClassVar[frozenset[str]] = OPEN
    sweeps: ClassVar[int] = 1_000
    many_betas: ClassVar[bool] = False
    ends: ClassVar[bool] = False
    relaxes: ClassVar[bool] = True
    searches: ClassVar[bool] = False

    @property
    def update(self) -> str:
        """Name of the update that a sweep is made of."""
        return str(getattr(self, "rule", self.name))

    @property
    def replicas(self) -> int:
        """Number of replicas of each chain."""
        return 1

    @property
    def n_levels(self) -> int:
        """Number of temperatures of each chain whose states are recorded beside its own."""
        return 0

    def n_observed(self, observables: Mapping[str, str | None]) -> int:
        """Return the number of temperatures of each chain at which observables are recorded beside its own."""
        return 0

    def completed(self) -> Any:
        """Return the sampler with the options filled in that follow from the others."""
        return self

    def resolve(self, settings: SampleSettings, subject: Conditioned, threads: int) -> SampleSettings:
        """Return settings in which nothing is left to choose; `beta` is known."""
        return settings

    def chains(self, settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> Any:
        """Return the chains of a run whose settings are resolved."""
        raise NotImplementedError


@options
class SingleUnit(Sampler):
    """The base of samplers that update one unit after the other.

    Parameters
    ----------
    order : {"sequential", "permuted", "random", "coloured"}, optional
        How a sweep visits the units; left out, sequential for Gibbs and random for Metropolis updates.
    kernel : {"dense", "sparse", "layered", "lookup", "multispin"}, optional
        The fastest one unless given. "dense" and "sparse" give the same bits, the others their own.
    """

    lookup_from: ClassVar[int | None] = None  # chains that are worth the tables of "lookup", made for each temperature

    order: Literal["sequential", "permuted", "random", "coloured"] = CHOSEN
    kernel: Literal["dense", "sparse", "layered", "lookup", "multispin"] = CHOSEN

    def completed(self) -> Any:
        """Return the sampler with the order of updates filled in."""
        return self.filled(order=resolve_order(self.order, self.update))

    def resolve(self, settings: SampleSettings, subject: Conditioned, threads: int) -> SampleSettings:
        """Return the settings with the kernel that is named, if it can take the machine, or the fastest.

        Warns of updates that may never reach some states.
        """
        machine = subject.machine
        if not self.ends:
            warn_if_periodic(machine, rule=self.update, order=str(self.order), beta=min(settings.beta))
        biases = machine.flat_bias if subject.bias is None else subject.bias
        return settings.with_own(kernel=self.choose_kernel(settings, machine.couplings, biases, machine.convention))

    def choose_kernel(self, settings: SampleSettings, couplings: Couplings, biases: np.ndarray, units: Units) -> str:
        """Return the kernel that is named, if it can take the machine, or the fastest."""
        lanes: dict[str, Any] = {
            "beta": self.lane_betas(settings), "order": self.order,
            "first_chain": settings.first_chain * self.replicas,
        }  # fmt: skip
        if self.kernel is None:
            return choose_kernel(couplings, biases, units, **lanes, lookup_from=self.lookup_from)
        return check_kernel(self.kernel, couplings, biases, units, **lanes)

    def lane_betas(self, settings: SampleSettings) -> np.ndarray:
        """Return the inverse temperatures of all replicas as they start."""
        return settings.by_chain

    def of_old_spec(self, couplings: Couplings) -> Any:
        """Return the sampler with the kernel of version 0.1, whose specs name none: one for each kind of couplings."""
        return self.filled(kernel=self.kernel or natural_kernel(couplings, self.order))

    def common(self, settings: SampleSettings, subject: Conditioned, threads: int) -> dict[str, Any]:
        """Return the arguments that chains of all single-unit updates are made with."""
        return {
            "rule": self.update, "order": self.order, "kernel": self.kernel, "seed": settings.seed, "threads": threads,
            "bias": subject.bias,
        }  # fmt: skip


@options
class Cooled(SingleUnit):
    """The base of samplers whose temperatures lead from `lowest_beta` to `beta`.

    Parameters
    ----------
    rule : {"gibbs", "metropolis"}
        The single-unit update.
    lowest_beta : float, optional
        The hot end. Unless given, where no state pulls any unit with log-odds above 0.5, and at most beta / 10.
    """

    rule: Updates = "gibbs"
    betas: tuple[float, ...] = ()
    lowest_beta: Annotated[float | None, Least(0.0)] = None

    def _check_together(self) -> None:
        if self.betas:
            for name in ("n_betas", "lowest_beta", "schedule"):
                if getattr(self, name, None) is not None:
                    raise ValueError(f"betas say all that {name} would: leave one of them out.")


def ladder(name: str, given: Any) -> tuple[float, ...]:
    """Check inverse temperatures: increasing, the hottest first and the target last."""
    return _rising(name, given, strictly=True)


def knots(name: str, given: Any) -> tuple[float, ...]:
    """Check inverse temperatures of a schedule, which may stay where they are."""
    return _rising(name, given, strictly=False)


def _rising(name: str, given: Any, *, strictly: bool) -> tuple[float, ...]:
    if isinstance(given, tuple) and not given:
        return ()
    values = checks.finite_array(name, given)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"{name} must list at least two inverse temperatures; got shape {values.shape}.")
    if values.min() < 0:
        raise ValueError(f"{name} must be at least 0; got {values.min():g}.")
    steps = np.diff(values)
    wrong = np.flatnonzero(steps <= 0 if strictly else steps < 0)
    if wrong.size:
        j = int(wrong[0]) + 1
        raise ValueError(
            f"{name} must increase, the hottest first and the target last; got {values[j]:g} at {j} after "
            f"{values[j - 1]:g}."
        )
    return tuple(values.tolist())


@dataclass(frozen=True)
class SampleSettings:
    """Settings of `fastbm.sample`, whose docstring says what each means; `own` are the sampler's options.

    `beta` is empty until `resolve` has taken it from the machine's own fields. `highest_beta` is that of all chains
    where these are a part of some at several. What version 0.1 did not write into its specs has defaults that stand
    for what it did.
    """

    own: Sampler
    n_chains: int
    n_sweeps: int
    burn_in: int | str
    thin: int | str
    beta: tuple[float, ...]
    seed: int
    first_chain: int
    n_patterns: int = 0
    keep: str = "all"
    k: int | None = None
    until: Mapping[str, float] = field(default_factory=dict)
    observables: Mapping[str, str | None] = field(default_factory=dict)
    highest_beta: float | None = None

    @property
    def sampler(self) -> str:
        """The sampler's name."""
        return self.own.name

    @property
    def n_samples(self) -> int:
        """Number of recorded samples of each chain, at most."""
        return self.times.n

    @property
    def times(self) -> EvenTimes | LogTimes:
        """The times at which samples are recorded, in sweeps after the burn-in."""
        return times_of(self.thin, self.n_sweeps)

    @property
    def most_burn_in(self) -> int:
        """Number of sweeps before the first sample, at most."""
        return self.n_sweeps if self.burn_in == "auto" else int(self.burn_in)

    @property
    def most_sweeps(self) -> int:
        """Number of sweeps of the whole run, at most."""
        return self.most_burn_in + self.n_sweeps

    @property
    def by_chain(self) -> np.ndarray:
        """The inverse temperature at which each chain is recorded, (n_chains,)."""
        return np.array(self.beta, np.float64).repeat(self.n_chains // len(self.beta))

    @property
    def n_lanes(self) -> int:
        """The number of replicas that are swept: n_chains, or all those of the ladders."""
        return self.n_chains * self.own.replicas

    def with_own(self, **values: Any) -> SampleSettings:
        """Return the settings with some of the sampler's options replaced."""
        made = object.__new__(SampleSettings)
        vars(made).update(vars(self), own=self.own.filled(**values))
        return made

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for the spec: those of all samplers, and the sampler's own."""
        common = {name: value for name, value in vars(self).items() if name != "own"}
        if self.highest_beta is None:
            del common["highest_beta"]
        found = {"sampler": self.sampler, **common, **self.own.as_dict()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
