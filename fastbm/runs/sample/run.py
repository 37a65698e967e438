"""A run of `sample`: its convergence and its physics, and how its task is made again from its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._base.checks import warn
from ...diagnostics import OverlapDistribution, Reweighted
from ...sampling.arguments import check_together
from ...sampling.samplers import SAMPLERS, read_settings
from ...store import Extension
from ..loop import Task
from ..records import Columns
from ..spec import Given
from . import convergence, physics
from .samples import Samples
from .summary import summarise_sample
from .task import make_task

if TYPE_CHECKING:
    from .relaxation import Relaxation


class SampleRun(Samples):
    """A run of `sample`, whose records are those of `Samples`.

    `Run` says what all runs have.
    """

    counted = "n_sweeps"
    takes = frozenset({"observables", "executor"})

    @classmethod
    def task(cls, spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given) -> Task:
        """Make the task that a spec describes."""
        if given.apart:
            from .parts import PartsTask  # other runs do without

            return PartsTask(spec, inputs, threads, given)
        if given.executor is not None:
            warn("this run was not begun in parts: it is done here, and not by the executor.", UserWarning)
        return make_task(spec, inputs, threads, given)

    @classmethod
    def why_another(cls, settings: Mapping[str, Any]) -> str:
        """Return why a longer run would not begin as this one did; empty if it would."""
        if not SAMPLERS[settings["sampler"]].ends:
            return ""
        return (
            f"sampler={settings['sampler']!r} has an end of its own, and its schedule was laid out for "
            f"n_sweeps={settings['n_sweeps']}"
        )

    @classmethod
    def before_its_end(cls, finished: Any, longer: Mapping[str, Any], state: Mapping[str, np.ndarray]) -> Extension:
        """Return where a longer run continues: at the end of this one."""
        if why := finished.why_no_longer:
            raise ValueError(f"cannot extend: {why}. Begin a longer one: sample(..., n_sweeps=..., until=...).")
        check_together(read_settings(longer["sample"]))
        return Extension(dict(longer))

    @classmethod
    def check_room(cls, task: Any) -> None:
        """Refuse rows that memory cannot hold."""
        task.check_room()

    @property
    def r_hat(self) -> list[float]:
        """Rank-normalised split R-hat of the energy, for each group of chains.

        A group is one temperature and clamped pattern. Of many energies some are taken, evenly spaced (2^12 to rank, or
        64 of each chain). NaN where the energy never changed: R-hat has no meaning there.
        """
        return [q.r_hat for q in convergence.quantities(self) if q.name == "energy"]

    @property
    def verdicts(self) -> dict[str, bool | None]:
        """Whether chains agree, for each quantity of a sampling run, by its name and temperature.

        None where nothing decides it. Quantities are the energy, the observables, and the means of single units (of
        which the worst counts). For a machine that is even under a flip of all units, |m| and products of two units
        stand for means, which are 0 (of spins) by symmetry.
        """
        return convergence.verdicts(self)

    @property
    def converged(self) -> bool | None:
        """Whether chains agree in all quantities and a burn-in and a stopping rule were met where asked for.

        None where nothing decides it, as with one chain. `doubt` says why, and `verdicts` for which quantity.
        """
        return convergence.has_converged(self)

    @property
    def doubt(self) -> str:
        """Why the run has not `converged`, or why nothing decides it; empty where it has."""
        return convergence.judge(self).reason

    @property
    def evidence(self) -> str:
        """What speaks for a run that has `converged`: the worst R-hat, or the families of a population."""
        return convergence.evidence_of(self)

    def thermodynamics(self) -> physics.Curves:
        """Return energy, specific heat, magnetisation, susceptibility and Binder's cumulant with their errors.

        Returns
        -------
        list of Thermodynamics
            One row for each inverse temperature, those of a ladder included. Columns are arrays, (n_betas,): `beta`,
            `energy`, `energy_error`, ...; NaN where nothing is known.

        Raises
        ------
        AttributeError
            If chains did not stay at their temperatures, as under a schedule of annealing, or were recorded at
            logarithmic times.
        ValueError
            If there are no samples yet, or several clamped patterns.
        """
        return physics.thermodynamics(self)

    def relaxation(self, beta: float | None = None) -> Relaxation:
        """Return means over chains at each time that was recorded: the energy, and the correlation with the first.

        Parameters
        ----------
        beta : float, optional
            Inverse temperature at which chains were recorded; may be left out where they are at one only.

        Returns
        -------
        Relaxation
            `beta`, and by time, (n_samples,): `time`, in sweeps after the burn-in, `energy` per unit, `energy_error`,
            and `correlation`, `correlation_error` of each chain with its first sample, C = sum_i s_i s'_i / n_units of
            -1 and +1 for a unit. With ``burn_in=t_w - 1`` the first sample is the state of age t_w. Errors are those of
            means over chains, of few ones widened to Student's quantile, and hold a flip that none has shown. They are
            NaN in random order (that of Metropolis unless given) and in permuted order.

        Raises
        ------
        AttributeError
            If chains did not stay at their temperatures.
        ValueError
            If no chain was recorded at `beta`, there are no samples yet, or several clamped patterns.

        Warns
        -----
        ConvergenceWarning
            In random and permuted order: all chains of a run visit the same units, so that means at a time before
            equilibrium, and correlations, vary more than the scatter between chains tells. The scatter between runs
            with several seeds, as between cells of a campaign, tells their errors.

        Examples
        --------
        >>> import fastbm as bm
        >>> run = bm.sample(bm.models.ising((20, 20)), beta=1.0, thin="log", n_sweeps=100, seed=1)
        >>> run.times
        array([  1,   2,   3,   4,   5,   6,   8,  10,  13,  16,  20,  25,  32,
                40,  50,  63,  79, 100])
        >>> bool(run.relaxation().energy[-1] < run.relaxation().energy[0] < 0)
        True
        """
        from .relaxation import relaxation

        return relaxation(self, beta)

    def overlap_distribution(self, beta: float | None = None, bins: int | None = None) -> OverlapDistribution:
        """Return P(q), the distribution of overlaps of chains 2k and 2k + 1, at one of the run's temperatures.

        Of a machine that is even under a flip of all units P(q) = P(-q), and errors are no less than half of what they
        differ by.

        Parameters
        ----------
        beta : float, optional
            Inverse temperature at which chains were recorded, of a ladder with observables "overlap" any; may be left
            out where chains are at one only.
        bins : int, optional
            At most n_units + 1, the default for machines of up to 200 units.

        Raises
        ------
        AttributeError
            If chains did not stay at their temperatures, or states and overlaps were not recorded.
        ValueError
            If no pair of chains was recorded at `beta`, there are no samples yet, or several clamped patterns.
        """
        return physics.overlap_distribution(self, beta, bins)

    def correlation_length(self, of: str = "spins") -> physics.CorrelationLengths:
        """Return the second-moment correlation length of a periodic lattice at each temperature.

        Of a ladder at all temperatures with observables "magnetisation" and "structure_factor" (of overlaps "overlap"
        and "overlap_structure_factor"), or with record="all"; else at the target.

        Of a machine that is not even under a flip of all units, as in a field, the mean is taken off: S(0) is that of
        fluctuations. S(k) has no mean where all sites are alike; in disorder and a field it has, and lengths are too
        short.

        Parameters
        ----------
        of : {"spins", "overlaps"}
            Order of spins, or of the overlaps of chains 2k and 2k + 1, as of a spin glass.

        Returns
        -------
        CorrelationLengths
            `beta`, `value` and `error`, (n_betas,), in lattice spacings; see
            `fastbm.diagnostics.correlation_length`.

        Raises
        ------
        AttributeError
            If chains did not stay at their temperatures, or neither states nor these observables were recorded.
        ValueError
            If the model is no periodic lattice, or there are no samples yet, or several clamped patterns.
        """
        return physics.correlation_length(self, of)

    def reweight(self, betas: Any, observable: Any = "energy") -> Reweighted:
        """Return means at other inverse temperatures than those that were sampled, each from the nearest of these.

        Parameters
        ----------
        betas : float or (n,) array
        observable : str or (n_samples, n_chains) array
            "energy" (of the whole machine), "magnetisation" (means of -1 and +1 for a unit, whatever the machine's
            units), the name of a recorded observable, or values of the samples. Of a machine that is even under a flip
            of all units "magnetisation" and "overlap" are 0 by symmetry, without an error, as in `thermodynamics`.

        Raises
        ------
        AttributeError
            If chains did not stay at their temperatures.
        ValueError
            If there are no samples yet, several clamped patterns, or no such observable.
        """
        return physics.reweight(self, betas, observable)

    def _entries(self) -> dict[str, Any]:
        return summarise_sample(self)

    def _frame(self) -> tuple[Any, ...]:
        if self.at_log_times:
            from .relaxation import as_rows

            return as_rows(self), "time"
        if not self.has_chains:
            return self._schedule(), "beta"
        return physics.as_rows(self.thermodynamics()), "beta"

    def _schedule(self) -> dict[str, np.ndarray]:
        """Return what was recorded along a schedule, by name; of the energies of chains the mean and the lowest."""
        columns = dict(Columns(self._reader, self._sampler.removesuffix("-annealing")))
        energies = columns["energy"]
        if energies.ndim == 1:
            return columns
        return columns | {"energy": energies.mean(axis=1), "lowest_energy": energies.min(axis=1)}

    def warn_at_end(self) -> None:
        """Warn once, when the run is finished, of what has not converged, with the way out."""
        convergence.warn_of(self)
