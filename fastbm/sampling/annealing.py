"""Simulated annealing: sweeps whose inverse temperature rises to the target.

Kirkpatrick, Gelatt and Vecchi, Science 220, 671 (1983), doi:10.1126/science.220.4598.671.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from .._base.options import options
from .._base.streams import Stream
from ..machine.machine import BoltzmannMachine
from .adapter import Adapter
from .chains import make_chains
from .clamped import Conditioned
from .engine.temperatures import cool
from .ladder import MOST_BETAS, energy_profile, equal_steps
from .settings import Cooled, SampleSettings, Updates, knots

STEPS = 1000  # distinct temperatures of a schedule: a change of temperature takes 10 to 100 microseconds
REPORTS = 64  # energies that are kept along the way


def resolve_schedule(
    model: BoltzmannMachine,
    schedule: str,
    *,
    beta_low: float,
    beta: float,
    rule: str = "gibbs",
    seed: int = 0,
    threads: int | None = None,
    halt: Callable[[], bool] | None = None,
) -> list[float]:
    """Return the knots between which `make_schedule` interpolates; only "adaptive" needs more than the two ends.

    `beta_low` is below `beta`, and above 0 for "geometric".
    """
    if schedule != "adaptive":
        return [beta_low, beta]
    profile = energy_profile(model, beta_low, beta, rule=rule, seed=seed, threads=threads, halt=halt)
    return [float(knot) for knot in equal_steps(profile, MOST_BETAS)]


def make_schedule(n_sweeps: int, schedule: str | None, knots: Iterable[float]) -> np.ndarray:
    """Return the inverse temperature of every sweep, (n_sweeps,).

    Parameters
    ----------
    n_sweeps : int
        At least 1.
    schedule : {"linear", "geometric", "adaptive"} or None
        How to go from knot to knot: evenly in beta, or in log beta. With None the knots themselves are the betas, each
        held for its part of the sweeps: sweep t has number floor(t len(knots) / n_sweeps).
    knots : sequence of float
        From `resolve_schedule`, or the user's own betas.

    Notes
    -----
    At most 1000 temperatures are visited, each held for h = ceil(n_sweeps / 1000) sweeps: sweep t is at the fraction
    floor(t / h) / (ceil(n_sweeps / h) - 1) of the way, the last one at the target.

    Raises
    ------
    ValueError
        If there are more betas than sweeps.
    """
    values = np.array(list(knots), np.float64)
    if schedule is None:
        if len(values) > n_sweeps:
            raise ValueError(
                f"betas has {len(values)} entries for {n_sweeps} sweeps. Raise n_sweeps, or leave some of them out."
            )
        return values[np.arange(n_sweeps) * len(values) // n_sweeps]
    hold = -(-n_sweeps // STEPS)
    n_steps = -(-n_sweeps // hold)
    way = np.linspace(0.0, 1.0, n_steps) if n_steps > 1 else np.ones(1)
    places = np.linspace(0.0, 1.0, len(values))
    geometric = schedule == "geometric"
    path = np.interp(way, places, np.log(values) if geometric else values)
    path = np.exp(path) if geometric else path
    path[-1] = values[-1]
    return np.repeat(path, hold)[:n_sweeps]


class AnnealedChains(Adapter):
    """Independent chains that are cooled once, along one schedule.

    Parameters
    ----------
    model : BoltzmannMachine
    n_chains : int
    betas : (n_sweeps,) array
        The inverse temperature of every sweep, from `make_schedule`.
    rule, order, kernel, seed, initial, threads, first_chain, bias
        As for `fastbm.sampling.chains.make_chains`.
    offset : float or (n_chains,) array, optional
        In place of the model's, where `bias` is.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        n_chains: int,
        *,
        betas: Sequence[float] | np.ndarray,
        rule: str = "gibbs",
        order: str | None = None,
        kernel: str | None = None,
        seed: int = 0,
        initial: Any = "random",
        threads: int | None = None,
        first_chain: int = 0,
        bias: np.ndarray | None = None,
        offset: Any = None,
    ) -> None:
        self.betas = np.asarray(betas, np.float64)
        self.n_sweeps = len(self.betas)
        self.engine = make_chains(
            model,
            n_chains,
            rule=rule,
            order=order,
            kernel=kernel,
            beta=float(self.betas[0]),
            summed=True,
            seed=seed,
            initial=initial,
            threads=threads,
            first_chain=first_chain,
            bias=bias,
            highest_beta=float(self.betas.max()),
        )
        self.n_chains, self.n_units = self.engine.n_chains, model.n_units
        self._offset = model.offset if offset is None else np.asarray(offset, np.float64)
        n_reports = min(REPORTS, self.n_sweeps)
        self._reports = -(-np.arange(1, n_reports + 1) * self.n_sweeps // n_reports)  # sweeps after which there is one

    @property
    def finished(self) -> bool:
        """Whether the target has been reached and its sweeps are done."""
        return self.n_swept >= self.n_sweeps

    @property
    def progress(self) -> tuple[int, int]:
        """Sweeps done, and sweeps in all."""
        return self.n_swept, self.n_sweeps

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that `advance` returns beside the samples: up to 64 rows along the way."""
        return {
            "annealing/sweep": Stream("<i8"),
            "annealing/beta": Stream("<f8"),
            "annealing/energy": Stream("<f8", (self.n_chains,)),
        }

    def advance(self, n_sweeps: int) -> dict[str, np.ndarray]:
        """Do up to `n_sweeps` sweeps; return the rows that fell among them, by stream.

        Returns
        -------
        dict
            ``annealing/sweep``, ``annealing/beta`` (m,) and ``annealing/energy`` (m, n_chains), with offset, after 64
            evenly spaced sweeps (all of them where there are fewer); at the end also ``samples/states`` (1, n_chains,
            ceil(n_units / 8)) uint8, ``samples/energy`` (1, n_chains), without offset, and ``samples/sweep`` (1,).
        """
        now, end = self.n_swept, min(self.n_swept + n_sweeps, self.n_sweeps)
        if now == end:
            return {}
        sweeps = self._reports[
            np.searchsorted(self._reports, now, "right") : np.searchsorted(self._reports, end, "right")
        ]
        energies = cool(self.engine, self.betas[now:end], (sweeps - now).tolist())
        found: dict[str, np.ndarray] = {}
        if len(sweeps):
            found = {
                "annealing/sweep": sweeps.astype(np.int64),
                "annealing/beta": self.betas[sweeps - 1],
                "annealing/energy": energies + self._offset,
            }
            if self.finished:
                found |= last_samples(self.packed(), energies[-1], self.n_swept)
        return found

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the chains bit for bit."""
        return self.engine.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.engine.restore(state)


def last_samples(packed: np.ndarray, energies: np.ndarray, n_swept: int) -> dict[str, np.ndarray]:
    """Return the one row of samples that a schedule ends with."""
    return {
        "samples/states": packed[None],
        "samples/energy": np.array(energies[None]),
        "samples/sweep": np.array([n_swept], np.int64),
    }


@options
class Annealing(Cooled):
    """Simulated annealing: chains that are cooled once and recorded at the end.

    Unless `beta`, the last inverse temperature, is given, it is taken from the machine's own fields, so that multiples
    of the couplings are searched alike. Metropolis updates in sequential order come to lower states in the same time
    than other rules and orders do on random graphs, lattices and glasses; that they may be periodic at one temperature
    does not matter here. So do schedules that take equal ratios from where chains begin to freeze to where they rest.

    Parameters
    ----------
    rule : {"metropolis", "gibbs"}
        The single-unit update.
    order : {"sequential", "permuted", "random", "coloured"}, optional
        How a sweep visits the units; sequential unless given.
    betas : list of float, optional
        Inverse temperatures, held for equal parts of the sweeps each; not decreasing, the target last.
    lowest_beta : float, optional
        The hot end. Unless given, where the fields of low states pull a typical unit with log-odds of 3, couplings none
        with more than 10, and at most beta / 10.
    schedule : {"linear", "geometric", "adaptive"}, optional
        From `lowest_beta` to `beta` evenly in beta, in its logarithm ("geometric", unless `lowest_beta` is 0), or in
        the fluctuations of the energy that a pilot finds.

    References
    ----------
    Kirkpatrick, Gelatt and Vecchi, Science 220, 671 (1983), doi:10.1126/science.220.4598.671.
    """

    name: ClassVar[str] = "annealing"
    takes: ClassVar[frozenset[str]] = frozenset({"clamp", "initial", "first_chain", "thin"})
    ends: ClassVar[bool] = True
    searches: ClassVar[bool] = True

    rule: Updates = "metropolis"
    betas: Annotated[tuple[float, ...], knots] = ()
    schedule: Literal["linear", "geometric", "adaptive"] | None = None

    def completed(self) -> Any:
        """Return the settings with the order of updates, and the usual schedule where no betas are given."""
        own = self.filled(order=self.order or "sequential")
        usual = "linear" if self.lowest_beta == 0.0 else "geometric"
        return own if self.betas else own.filled(schedule=self.schedule or usual)

    def resolve(self, settings: SampleSettings, subject: Conditioned, threads: int) -> SampleSettings:
        """Return the settings with the knots of the schedule and a kernel."""
        if not self.betas:
            betas = resolve_schedule(
                subject.machine, str(self.schedule), beta_low=float(self.lowest_beta or 0.0), beta=settings.beta[0],
                rule=self.rule, seed=settings.seed, threads=threads,
            )  # fmt: skip
            settings = settings.with_own(betas=tuple(betas))
        return super().resolve(settings, subject, threads)

    def chains(self, settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> AnnealedChains:
        """Return chains at the beginning of the schedule."""
        return AnnealedChains(
            subject.machine, settings.n_chains, initial=initial, first_chain=settings.first_chain,
            betas=make_schedule(settings.n_sweeps, self.schedule, self.betas), offset=subject.offset,
            **self.common(settings, subject, threads),
        )  # fmt: skip
