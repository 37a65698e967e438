"""Samplers for D-Wave's dimod: simulated annealing, parallel tempering, and exact lowest states and draws.

They take a ``dimod.BinaryQuadraticModel`` and return a ``dimod.SampleSet`` with its labels and variable type; energies
are dimod's own. An inverse temperature means the same in both packages, P(s) ~ exp(-beta E(s)). Needs
``pip install "fastbm[dimod]"``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

try:
    import dimod
except ImportError:
    raise ImportError('fastbm.dimod needs dimod: pip install "fastbm[dimod]"') from None

from .._base import checks
from ..inference.methods import infer
from ..models.quadratic import check_bqm, unnamed
from ..runs.sample.verb import sample
from .common import limit_of, nothing, range_of, rows_of, sample_set, schedule_of, seed_of, timing_of
from .trajectories import kernel_of, states_along, sweeps_of

__all__ = ["AnnealingSampler", "ExactSampler", "TemperingSampler"]

SCHEDULES = ("linear", "geometric", "custom")
CRITERIA = {"Metropolis": "metropolis", "Gibbs": "gibbs"}
BATCH = 64  # reads between two looks at the clock, and for an interrupt
MOST_STATES = 1 << 20


class _Sampler(dimod.Sampler):
    """What the samplers have in common: parameters, and the way from states to a sample set."""

    _parameters: Sequence[str]

    @property
    def parameters(self) -> dict[str, list[str]]:
        """Names of the arguments of `sample`."""
        return {name: [] for name in self._parameters}

    @property
    def properties(self) -> dict[str, Any]:
        """Properties of the sampler: none."""
        return {}


class AnnealingSampler(_Sampler, dimod.Initialized):
    """Simulated annealing; arguments are those of ``dwave.samplers.SimulatedAnnealingSampler``, and some more."""

    _parameters = (
        "num_reads", "num_sweeps", "num_sweeps_per_beta", "beta_range", "beta_schedule_type", "beta_schedule",
        "initial_states", "initial_states_generator", "randomize_order", "proposal_acceptance_criteria", "seed",
        "interrupt_function", "time_limit", "num_best", "num_intermediate", "threads",
    )  # fmt: skip

    def sample(
        self,
        bqm: dimod.BinaryQuadraticModel,
        *,
        num_reads: int | None = None,
        num_sweeps: int | None = None,
        num_sweeps_per_beta: int = 1,
        beta_range: Sequence[float] | None = None,
        beta_schedule_type: str = "geometric",
        beta_schedule: Sequence[float] | None = None,
        initial_states: Any = None,
        initial_states_generator: Literal["none", "tile", "random"] = "random",
        randomize_order: bool = False,
        proposal_acceptance_criteria: str = "Metropolis",
        seed: int | None = None,
        interrupt_function: Callable[[], bool] | None = None,
        time_limit: float | None = None,
        num_best: int | None = None,
        num_intermediate: int = 0,
        threads: int | None = None,
        **kwargs: Any,
    ) -> dimod.SampleSet:
        """Anneal.

        Parameters
        ----------
        bqm : dimod.BinaryQuadraticModel
        num_reads : int, optional
            Independent reads; as many as initial states, or 1, unless given.
        num_sweeps : int, optional
            Sweeps of a read; 1000, or those of `beta_schedule`, unless given.
        num_sweeps_per_beta : int
            Sweeps at each inverse temperature.
        beta_range : (hot, cold), optional
            Unless given, from the model's own fields.
        beta_schedule_type : {"linear", "geometric", "custom"}
            "geometric" goes with a hot end above 0.
        beta_schedule : list of float, optional
            With "custom": inverse temperatures, not decreasing.
        initial_states, initial_states_generator
            As for ``dimod.Initialized.parse_initial_states``.
        randomize_order : bool
            Whether a sweep visits variables at random, with replacement.
        proposal_acceptance_criteria : {"Metropolis", "Gibbs"}
        seed : int, optional
            From 0 to 2^32 - 1; drawn unless given. Reads are the same on any number of threads.
        interrupt_function : callable, optional
            Asked between batches of 64 reads; where it returns True, the reads done so far are returned.
        time_limit : float, optional
            Seconds after which no further batch is begun.
        num_best : int, optional
            Return that many lowest distinct states of those that stood after the sweeps of the last two fifths of the
            schedule, in place of the last state of each read.
        num_intermediate : int
            Return the states of each read after that many evenly spaced sweeps along the schedule, too. They stand
            after the last states, later ones first, and the sample set has vectors `read`, `sweep` and `beta`.
        threads : int, optional

        Returns
        -------
        dimod.SampleSet
            `info` has beta_range, beta_schedule_type, seed and timing, in nanoseconds.

        Raises
        ------
        ValueError, TypeError
            For arguments that are out of range or go against each other.
        """
        started = time.perf_counter_ns()
        self.remove_unknown_kwargs(**kwargs)
        check_bqm(bqm)
        seed = seed_of(seed)
        checks.choice("beta_schedule_type", beta_schedule_type, SCHEDULES)
        rule = CRITERIA[checks.choice("proposal_acceptance_criteria", proposal_acceptance_criteria, CRITERIA)]
        parsed = self.parse_initial_states(
            bqm, num_reads=num_reads, initial_states=initial_states,
            initial_states_generator=initial_states_generator, seed=seed,
        )  # fmt: skip
        num_reads = parsed.num_reads
        if not len(bqm.variables):
            return nothing(bqm, num_reads)
        model = unnamed(bqm)
        betas = schedule_of(
            model, num_sweeps, num_sweeps_per_beta, beta_range, beta_schedule_type, beta_schedule, threads
        )
        initial = "random" if initial_states is None else rows_of(parsed.initial_states, bqm)
        ready, time_limit = time.perf_counter_ns(), limit_of(time_limit)
        if interrupt_function is not None and not callable(interrupt_function):
            raise TypeError(f"interrupt_function must be a function; got {interrupt_function!r}.")
        limited = time_limit is not None or interrupt_function is not None
        size = BATCH if limited else num_reads
        cooling: dict[str, Any] = {"betas": betas}
        if len(betas) == 1:  # one temperature is the last one of a schedule of one sweep, or both ends of a longer one
            one = {"beta": betas[0], "lowest_beta": 0.0, "schedule": "linear"}
            cooling = one if num_sweeps_per_beta == 1 else {"betas": 2 * betas}
        n_sweeps = num_sweeps_per_beta * len(betas)
        sweeps = _sweeps(num_intermediate, n_sweeps, num_best)
        best: dict[str, Any] = {} if num_best is None else {"keep": "best", "k": num_best}
        common: dict[str, Any] = {
            "rule": rule, "order": "random" if randomize_order else "sequential", "n_sweeps": n_sweeps, "seed": seed,
            "threads": threads, **cooling,
        }  # fmt: skip
        if size < num_reads:
            common["kernel"] = kernel_of(model, n_chains=num_reads, **common)  # which the number of reads decides
        parts = []
        for first in range(0, num_reads, size):
            n_chains = min(size, num_reads - first)
            options: dict[str, Any] = {
                "n_chains": n_chains, "first_chain": first, **common,
                "initial": initial if isinstance(initial, str) else initial[first : first + n_chains],
            }  # fmt: skip
            if num_intermediate:
                states = states_along(model, sweeps, **options)
            else:
                run = sample(model, "annealing", **options, **best)
                states = (run.states[-1] if num_best is None else run.best_states)[None]
            parts.append(states)
            if time_limit is not None and time.perf_counter_ns() - ready > 1e9 * time_limit:
                break
            if interrupt_function is not None and interrupt_function():
                break
        every = np.concatenate(parts, axis=1)[::-1]  # the last states first
        done = time.perf_counter_ns()
        along: dict[str, np.ndarray] = {}
        if num_intermediate:
            after = np.repeat(sweeps[::-1], every.shape[1])
            along = {"read": np.tile(np.arange(every.shape[1]), len(sweeps)), "sweep": after}
            along["beta"] = np.array(betas)[(after - 1) // num_sweeps_per_beta]
        found = sample_set(every.reshape(-1, model.n_units), bqm, num_best, **along)
        about = {"beta_range": [betas[0], betas[-1]], "beta_schedule_type": beta_schedule_type, "seed": seed}
        found.info.update(about, timing=timing_of(started, ready, done))
        return found


class TemperingSampler(_Sampler):
    """Parallel tempering, which returns the lowest states that it came to."""

    _parameters = ("num_reads", "num_sweeps", "num_replicas", "num_betas", "beta_range", "betas", "seed", "time_limit",
                   "threads")  # fmt: skip

    def sample(
        self,
        bqm: dimod.BinaryQuadraticModel,
        *,
        num_reads: int = 1,
        num_sweeps: int = 1000,
        num_replicas: int = 16,
        num_betas: int | None = None,
        beta_range: Sequence[float] | None = None,
        betas: Sequence[float] | None = None,
        seed: int | None = None,
        time_limit: float | None = None,
        threads: int | None = None,
        **kwargs: Any,
    ) -> dimod.SampleSet:
        """Search by ladders of replicas that swap temperatures.

        Parameters
        ----------
        bqm : dimod.BinaryQuadraticModel
        num_reads : int
            Lowest distinct states to return; fewer where there are no more.
        num_sweeps : int
            Sweeps of every replica.
        num_replicas : int
            Independent ladders.
        num_betas : int, optional
            Temperatures of a ladder, which a pilot places so that swaps are equally frequent.
        beta_range : (hot, cold), optional
            Unless given, from the model's own fields.
        betas : list of float, optional
            The ladder itself, increasing.
        seed, threads
            As for `AnnealingSampler.sample`.
        time_limit : float, optional
            Seconds after which the search stops; it then returns what it has found.

        Returns
        -------
        dimod.SampleSet
            By energy; `info` has beta_range, seed and timing.

        Raises
        ------
        ValueError, TypeError
            For arguments that are out of range or go against each other.
        """
        started = time.perf_counter_ns()
        self.remove_unknown_kwargs(**kwargs)
        check_bqm(bqm)
        seed = seed_of(seed)
        num_reads = checks.whole("num_reads", num_reads, least=1)
        num_sweeps = checks.whole("num_sweeps", num_sweeps)
        num_replicas = checks.whole("num_replicas", num_replicas, least=1)
        num_betas = None if num_betas is None else checks.whole("num_betas", num_betas, least=2)
        if not len(bqm.variables):
            return nothing(bqm, 1)
        model = unnamed(bqm)
        if betas is not None and (beta_range is not None or num_betas is not None):
            raise ValueError("betas say all that beta_range and num_betas would: leave one of them out.")
        ladder: dict[str, Any] = {"n_betas": num_betas}
        if betas is not None:
            ladder = {"betas": list(betas)}
        else:
            hot, cold = range_of(model, beta_range, threads, anneals=False)
            ladder |= {"lowest_beta": hot, "beta": cold}
        ready = time.perf_counter_ns()
        run = sample(
            model, "tempering", n_chains=num_replicas, n_sweeps=num_sweeps, burn_in=0, keep="best", k=num_reads,
            seed=seed, threads=threads, max_seconds=limit_of(time_limit),
            **{name: value for name, value in ladder.items() if value is not None},
        )  # fmt: skip
        done = time.perf_counter_ns()
        found = sample_set(run.best_states, bqm, num_reads)
        used = run.config["sample"]["betas"]
        found.info.update(beta_range=[used[0], used[-1]], seed=seed, timing=timing_of(started, ready, done))
        return found


class ExactSampler(_Sampler):
    """The lowest states of all, or independent draws from the exact distribution."""

    _parameters = ("num_states", "num_reads", "beta", "seed", "threads")

    def sample(
        self,
        bqm: dimod.BinaryQuadraticModel,
        *,
        num_states: int | None = None,
        num_reads: int | None = None,
        beta: float = 1.0,
        seed: int | None = None,
        threads: int | None = None,
        **kwargs: Any,
    ) -> dimod.SampleSet:
        """Sum over all states.

        Parameters
        ----------
        bqm : dimod.BinaryQuadraticModel
        num_states : int, optional
            So many lowest states, by energy; all of them, and at most 2^20, unless `num_reads` is given.
        num_reads : int, optional
            Draw so many independent states at `beta` in their place.
        beta : float
        seed, threads
            As for `AnnealingSampler.sample`.

        Returns
        -------
        dimod.SampleSet
            `info` has log Z at `beta`.

        Raises
        ------
        ValueError
            If the sum would take longer than ten minutes, or both numbers are given.
        """
        self.remove_unknown_kwargs(**kwargs)
        if num_states is not None and num_reads is not None:
            raise ValueError("num_states asks for lowest states, num_reads for draws at beta: give one of them.")
        num_reads = None if num_reads is None else checks.whole("num_reads", num_reads, least=1)
        check_bqm(bqm)
        seed = seed_of(seed)
        if not len(bqm.variables):
            return nothing(bqm, num_reads or 1)
        model = unnamed(bqm)
        if num_reads is not None:
            draws = sample(model, "exact", n_chains=num_reads, n_sweeps=1, beta=beta, seed=seed, threads=threads)
            found = sample_set(draws.states[-1], bqm, None)
            log_z = infer(model, "exact", beta=beta, threads=threads, moments=False).log_z
        else:
            most = MOST_STATES if model.n_units > 20 else 1 << model.n_units
            n_lowest = min(checks.whole("num_states", most if num_states is None else num_states, least=1), most)
            result = infer(model, "exact", beta=beta, threads=threads, n_lowest=n_lowest)
            found, log_z = sample_set(result.detail["lowest states"], bqm, n_lowest), result.log_z
        found.info.update(log_z=log_z, beta=beta, seed=seed)
        return found


def _sweeps(num_intermediate: int, n_sweeps: int, num_best: int | None) -> list[int]:
    """Return the sweeps after which states are asked for."""
    checks.whole("num_intermediate", num_intermediate, most=n_sweeps - 1)
    if num_best is not None:
        checks.whole("num_best", num_best, least=1)
    if num_intermediate and num_best is not None:
        raise ValueError("num_best returns states by their energy, num_intermediate by their sweep: give one of them.")
    return sweeps_of(num_intermediate, n_sweeps)
