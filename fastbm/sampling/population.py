"""Population annealing: a population of replicas is cooled, and resampled at every step by the weights it earns.

Hukushima and Iba, AIP Conf. Proc. 690, 200 (2003), doi:10.1063/1.1632130; Machta, Phys. Rev. E 82, 026704 (2010),
doi:10.1103/PhysRevE.82.026704; Wang, Machta and Katzgraber, Phys. Rev. E 92, 063307 (2015),
doi:10.1103/PhysRevE.92.063307.

Step beta -> beta': log Z(beta') = log Z(beta) + log mean_r exp(-(beta' - beta) E_r); replica r then has on average
n exp(-(beta' - beta) E_r) / sum of these offspring, and all are swept at beta'.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np

from .._base import checks, rng
from .._base.options import options
from .._base.streams import Stream
from ..machine.machine import BoltzmannMachine
from .adapter import Adapter
from .annealing import last_samples
from .chains import make_chains, threads_between
from .clamped import Conditioned
from .engine.choice import MANY_COOLED
from .settings import SampleSettings, SingleUnit, Updates

TARGET_ESS = 0.9  # after each step of temperature, as a part of the population, unless given
AT_ONCE = 64  # steps, for which random numbers are drawn together
PARTS = 1000  # progress is told in parts of the way to the target


class Population(Adapter):
    """A population that is cooled from beta = 0, where states are independent and log Z is known, to the target.

    Parameters
    ----------
    model : BoltzmannMachine
    n_chains : int
        Replicas, at least 2; constant.
    beta : float
        The target.
    n_sweeps : int
        Sweeps at every temperature after the first.
    target_ess : float
        Between 0 and 1: steps are the largest that leave the weights this effective sample size, as a part of
        `n_chains`. At 0.9 about an eighth of the population has no offspring.
    rule, order, kernel, seed, threads
        As for `fastbm.sampling.chains.make_chains`.
    bias : (n_units,) array, optional
        In place of the model's; one for all.

    Attributes
    ----------
    beta, log_z : float
        The present temperature, and the estimate of log Z there, with offset.
    family : (n_chains,) int64 array
        The number of the initial replica that each descends from. Families lie side by side; each replica has a random
        stream of its own, so that copies part at the next sweep.

    Raises
    ------
    ValueError
        If there is one replica, or biases differ between replicas.

    Notes
    -----
    exp(log_z) is unbiased but for the adaptive steps, so log_z is low on average, by about half its variance. Trust it
    where the families are many: n_families or exp(family_entropy) below about 100 tells of a population too small.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        n_chains: int,
        *,
        beta: float,
        n_sweeps: int = 10,
        target_ess: float = 0.9,
        rule: str = "gibbs",
        order: str | None = None,
        kernel: str | None = None,
        seed: int = 0,
        threads: int | None = None,
        bias: np.ndarray | None = None,
    ) -> None:
        self.target, self.n_sweeps, self.target_ess = float(beta), n_sweeps, target_ess
        bias = None if bias is None else np.atleast_2d(bias)
        if bias is not None and (bias != bias[0]).any():
            raise ValueError("population annealing takes one clamped pattern; got several. Run them one by one.")
        self.n_chains, self.n_units = checks.whole("n_chains", n_chains, least=2), model.n_units
        self.engine = make_chains(
            model,
            self.n_chains,
            rule=rule,
            order=order,
            kernel=kernel,
            beta=0.0,
            summed=True,
            seed=seed,
            threads=threads_between(model, self.n_chains, n_sweeps, threads),
            bias=None if bias is None else bias[0],
            highest_beta=self.target,
        )
        self._seed, self._offset = seed, model.offset
        self.family, self._edges = np.arange(self.n_chains), np.array([0, self.n_chains])
        self.beta, self._log_z, self._culled = 0.0, self.n_units * math.log(2.0), 0
        self._n_steps, self._left, self._started = 0, 0, False  # left: sweeps at this temperature
        self._energies: np.ndarray | None = None  # of the present states, where they are known
        self._uniforms = -1, np.empty(0)  # the first step that they are of, and a row for each

    @property
    def log_z(self) -> float:
        """The estimate of log Z at the present temperature, with offset."""
        return self._log_z - self.beta * self._offset

    @property
    def finished(self) -> bool:
        """Whether the target has been reached and its sweeps are done."""
        return self._started and self.beta == self.target and self._left == 0

    @property
    def progress(self) -> tuple[int, int]:
        """Thousandths of the way to the target, and 1000: the number of temperatures is not known beforehand."""
        if self.finished:
            return PARTS, PARTS
        return min(int(PARTS * self.beta / (self.target or 1.0)), PARTS - 1), PARTS

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that `advance` returns beside the samples: a row for each temperature."""
        real = ("beta", "log_z", "energy", "energy_std", "family_entropy", "rho_t", "culled")
        return {f"population/{name}": Stream("<f8") for name in real} | {"population/n_families": Stream("<i8")}

    def advance(self, n_sweeps: int) -> dict[str, np.ndarray]:
        """Do up to `n_sweeps` sweeps, with the steps that fall among them; return the rows of those that were finished.

        Returns
        -------
        dict
            A row for each temperature whose sweeps are done: ``population/beta``, ``log_z`` (with offset), ``energy``
            (mean, with offset), ``energy_std``, ``family_entropy`` (nats), ``rho_t``, ``n_families`` and ``culled``,
            the part of the population that had no offspring at the step to this temperature. At the end also
            ``samples/states`` (1, n_chains, ceil(n_units / 8)) uint8, ``samples/energy`` (1, n_chains), without offset,
            and ``samples/sweep`` (1,).
        """
        end, rows = self.n_swept + n_sweeps, []
        if not self._started:
            self._started = True
            rows.append(self._report())
        rows += self.engine.together(lambda: list(self._steps(end)), self.n_sweeps)
        found = {name: np.array([row[name] for row in rows]) for name in self.streams} if rows else {}
        if rows and self.finished:
            found |= last_samples(self.packed(), self._known_energies(), self.n_swept)
        return found

    def _steps(self, end: int) -> Iterator[dict[str, float]]:
        """Sweep, `end` times since the start, and cool in between; yield the row of every temperature that is done."""
        while self.n_swept < end and not self.finished:
            parents = self._cool() if self._left == 0 else None
            count = min(self._left, end - self.n_swept)
            self._energies = self.engine.resample(parents, count)
            self._left -= count
            if self._left == 0:
                yield self._report()

    def _cool(self) -> np.ndarray:
        """Take a step of beta; return of which replica each is to be a copy."""
        from ..kernels.sampling.population import choose_step, resample_systematic  # most samples are of no population

        energies, most = self._known_energies(), self.target - self.beta
        step: float = choose_step(energies, most, self.target_ess)
        beta = self.target if step == most else max(self.beta + step, float(np.nextafter(self.beta, np.inf)))
        parents, (lowest, total) = np.empty(self.n_chains, np.int64), np.empty((2, 1))
        first = self._n_steps - self._n_steps % AT_ONCE
        if self._uniforms[0] != first:
            self._uniforms = first, rng.uniforms(self._seed, rng.RESAMPLING, AT_ONCE, 1, first=first)
        uniform = self._uniforms[1][self._n_steps - first]
        self._culled = resample_systematic(parents, energies, self._edges, step, uniform, lowest, total)
        self._log_z += math.log(total[0] / self.n_chains) - step * float(lowest[0])
        self.family = self.family[parents]
        self.beta, self._left = beta, self.n_sweeps
        self._n_steps += 1
        self.engine.set_beta(np.full(self.n_chains, beta))
        return parents

    def _known_energies(self) -> np.ndarray:
        if self._energies is None:
            self._energies = self.engine.resample(None, 0)
        return self._energies

    def _report(self) -> dict[str, float]:
        from ..kernels.sampling.population import measure_population

        energy, energy_std, n_families, entropy, rho_t = measure_population(self._known_energies(), self.family)
        return {
            "population/beta": self.beta,
            "population/log_z": self.log_z,
            "population/energy": energy + self._offset,
            "population/energy_std": energy_std,
            "population/family_entropy": entropy,
            "population/rho_t": rho_t,
            "population/n_families": n_families,
            "population/culled": self._culled / self.n_chains,
        }

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the population bit for bit."""
        return self.engine.state() | {
            "family": self.family.copy(),
            "population": np.array([self.beta, self._log_z]),
            "population_counts": np.array([self._n_steps, self._left, self._started, self._culled], np.int64),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.engine.restore(state)
        self._energies = None
        self.family = np.array(state["family"], np.int64)
        self.beta, self._log_z = (float(value) for value in state["population"])
        self._n_steps, self._left, started, self._culled = (int(value) for value in state["population_counts"])
        self._started = bool(started)
        self.engine.set_beta(np.full(self.n_chains, self.beta))


def part_of_population(name: str, given: Any) -> float:
    """Check an effective size given as a fraction of a population."""
    target = checks.real(name, given, above=0.0)
    if target >= 1.0:
        raise ValueError(f"{name} is a part of the population, between 0 and 1; got {target:g}.")
    return target


@options
class PopulationAnnealing(SingleUnit):
    """A population of `n_chains` replicas that is cooled and resampled, with an estimate of log Z.

    It sweeps `n_sweeps` times at each temperature, 10 unless given, and is recorded at the end.

    Parameters
    ----------
    rule : {"gibbs", "metropolis"}
        The single-unit update.
    target_ess : float
        Effective size of the population after each step of temperature, as a part of it.

    References
    ----------
    Hukushima and Iba, AIP Conf. Proc. 690, 200 (2003), doi:10.1063/1.1632130; Machta, Phys. Rev. E 82, 026704 (2010),
    doi:10.1103/PhysRevE.82.026704.
    """

    name: ClassVar[str] = "population-annealing"
    takes: ClassVar[frozenset[str]] = frozenset({"clamp"})
    sweeps: ClassVar[int] = 10
    ends: ClassVar[bool] = True
    lookup_from: ClassVar[int | None] = MANY_COOLED

    rule: Updates = "gibbs"
    target_ess: Annotated[float, part_of_population] = TARGET_ESS

    def chains(self, settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> Population:
        """Return the population at beta = 0."""
        return Population(
            subject.machine, settings.n_chains, beta=settings.beta[0], n_sweeps=settings.n_sweeps,
            target_ess=self.target_ess, **self.common(settings, subject, threads),
        )  # fmt: skip
