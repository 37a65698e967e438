"""Samplers for D-Wave's dimod: simulated annealing, parallel tempering, and exact lowest states and draws.

They take a ``dimod.BinaryQuadraticModel`` and return a ``dimod.SampleSet`` with its labels and variable type; energies
are dimod's own. An inverse temperature means the same in both packages, P(s) ~ exp(-beta E(s)). Needs
``pip install "fastbm[dimod]"``.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

try:
    import dimod
except ImportError:
    raise ImportError('fastbm.dimod needs dimod: pip install "fastbm[dimod]"') from None

from ._base import checks
from .inference.methods import infer
from .machine.machine import BoltzmannMachine
from .models.quadratic import from_bqm
from .runs.sample.verb import sample
from .sampling.clamped import Conditioned
from .sampling.own_temperatures import own_betas

__all__ = ["AnnealingSampler", "ExactSampler", "TemperingSampler"]

SCHEDULES = ("linear", "geometric", "custom")
CRITERIA = {"Metropolis": "metropolis", "Gibbs": "gibbs"}
BATCH = 64  # reads between two looks at the clock, and for an interrupt
MOST_STATES = 1 << 20
_SEEDS = 1 << 32


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
        "interrupt_function", "time_limit", "num_best", "threads",
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
            Return that many lowest distinct states of all that was visited, in place of the last state of each read.
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
        seed = _seed(seed)
        checks.choice("beta_schedule_type", beta_schedule_type, SCHEDULES)
        rule = CRITERIA[checks.choice("proposal_acceptance_criteria", proposal_acceptance_criteria, CRITERIA)]
        parsed = self.parse_initial_states(
            bqm, num_reads=num_reads, initial_states=initial_states,
            initial_states_generator=initial_states_generator, seed=seed,
        )  # fmt: skip
        num_reads = parsed.num_reads
        if not len(bqm.variables):
            return _nothing(bqm, num_reads)
        model = from_bqm(bqm)
        betas = _betas(model, num_sweeps, num_sweeps_per_beta, beta_range, beta_schedule_type, beta_schedule, threads)
        initial = "random" if initial_states is None else _rows(parsed.initial_states, bqm)
        ready = time.perf_counter_ns()
        limited = time_limit is not None or interrupt_function is not None
        size, kernel = BATCH if limited else num_reads, None
        cooling: dict[str, Any] = {"betas": betas}
        if len(betas) == 1:  # one temperature is the last one of a schedule of one sweep, or both ends of a longer one
            one = {"beta": betas[0], "lowest_beta": 0.0, "schedule": "linear"}
            cooling = one if num_sweeps_per_beta == 1 else {"betas": 2 * betas}
        best: dict[str, Any] = {} if num_best is None else {"keep": "best", "k": num_best}
        runs = []
        for first in range(0, num_reads, size):
            n_chains = min(size, num_reads - first)
            runs.append(
                sample(
                    model, "annealing", rule=rule, order="random" if randomize_order else "sequential",
                    n_chains=n_chains, first_chain=first, n_sweeps=num_sweeps_per_beta * len(betas), **cooling,
                    initial=initial if isinstance(initial, str) else initial[first : first + n_chains], seed=seed,
                    threads=threads, kernel=kernel, **best,
                )
            )  # fmt: skip
            kernel = runs[-1].config["sample"]["kernel"]  # which the number of chains decides
            if time_limit is not None and time.perf_counter_ns() - ready > 1e9 * time_limit:
                break
            if interrupt_function is not None and interrupt_function():
                break
        states = np.concatenate([run.states[-1] if num_best is None else run.best_states for run in runs])
        done = time.perf_counter_ns()
        found = _sample_set(states, bqm, num_best)
        about = {"beta_range": [betas[0], betas[-1]], "beta_schedule_type": beta_schedule_type, "seed": seed}
        found.info.update(about, timing=_timing(started, ready, done))
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
        seed = _seed(seed)
        num_reads = checks.whole("num_reads", num_reads, least=1)
        if not len(bqm.variables):
            return _nothing(bqm, 1)
        model = from_bqm(bqm)
        if betas is not None and (beta_range is not None or num_betas is not None):
            raise ValueError("betas say all that beta_range and num_betas would: leave one of them out.")
        ladder: dict[str, Any] = {"n_betas": num_betas}
        if betas is not None:
            ladder = {"betas": list(betas)}
        else:
            hot, cold = _range(model, beta_range, threads, anneals=False)
            ladder |= {"lowest_beta": hot, "beta": cold}
        ready = time.perf_counter_ns()
        run = sample(
            model, "tempering", n_chains=num_replicas, n_sweeps=num_sweeps, burn_in=0, keep="best", k=num_reads,
            seed=seed, threads=threads, max_seconds=time_limit,
            **{name: value for name, value in ladder.items() if value is not None},
        )  # fmt: skip
        done = time.perf_counter_ns()
        found = _sample_set(run.best_states, bqm, num_reads)
        used = run.config["sample"]["betas"]
        found.info.update(beta_range=[used[0], used[-1]], seed=seed, timing=_timing(started, ready, done))
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
        seed = _seed(seed)
        if not len(bqm.variables):
            return _nothing(bqm, num_reads or 1)
        model = from_bqm(bqm)
        if num_reads is not None:
            draws = sample(model, "exact", n_chains=num_reads, n_sweeps=1, beta=beta, seed=seed, threads=threads)
            found = _sample_set(draws.states[-1], bqm, None)
            log_z = infer(model, "exact", beta=beta, threads=threads, moments=False).log_z
        else:
            most = MOST_STATES if model.n_units > 20 else 1 << model.n_units
            n_lowest = min(checks.whole("num_states", most if num_states is None else num_states, least=1), most)
            result = infer(model, "exact", beta=beta, threads=threads, n_lowest=n_lowest)
            found, log_z = _sample_set(result.detail["lowest states"], bqm, n_lowest), result.log_z
        found.info.update(log_z=log_z, beta=beta, seed=seed)
        return found


def _seed(seed: int | None) -> int:
    return secrets.randbelow(_SEEDS) if seed is None else checks.whole("seed", seed, most=_SEEDS - 1)


def _range(
    model: BoltzmannMachine, given: Sequence[float] | None, threads: int | None, *, anneals: bool
) -> tuple[float, float]:
    """Return the hot and the cold end: those given, or what the model's own fields suggest."""
    if given is None:
        own = own_betas(Conditioned(model, None, 1), threads or 1)
        hot, cold = (own.first, own.last) if anneals else (own.hot, own.cold)
        return (hot, cold) if np.isfinite(cold) else (0.1, 1.0)  # where all states are alike
    if len(given) != 2:
        raise ValueError(f"beta_range must be (hot, cold); got {len(given)} numbers.")
    hot, cold = (checks.real("beta_range", value, least=0.0) for value in given)
    if hot > cold:
        raise ValueError(f"beta_range must lead from hot to cold, the smaller one first; got {hot:g} and {cold:g}.")
    return hot, cold


def _betas(
    model: BoltzmannMachine, num_sweeps: int | None, per_beta: int, given: Sequence[float] | None, kind: str,
    custom: Sequence[float] | None, threads: int | None,
) -> list[float]:  # fmt: skip
    """Return the inverse temperatures of a schedule, each held for `per_beta` sweeps."""
    per_beta = checks.whole("num_sweeps_per_beta", per_beta, least=1)
    if (kind == "custom") != (custom is not None):
        raise ValueError('beta_schedule goes with beta_schedule_type="custom", which needs it.')
    if custom is not None:
        betas = checks.finite_array("beta_schedule", custom)
        if betas.ndim != 1 or not len(betas) or given is not None:
            raise ValueError("beta_schedule must be a list of numbers, and beta_range be left out.")
        if num_sweeps not in (None, per_beta * len(betas)):
            raise ValueError(
                f"num_sweeps must be num_sweeps_per_beta times the length of beta_schedule, {per_beta * len(betas)}; "
                f"got {num_sweeps}. Leave it out."
            )
        return [float(beta) for beta in betas]
    num_sweeps = checks.whole("num_sweeps", 1000 if num_sweeps is None else num_sweeps, least=1)
    if num_sweeps % per_beta:
        raise ValueError(f"num_sweeps must be a multiple of num_sweeps_per_beta ({per_beta}); got {num_sweeps}.")
    hot, cold = _range(model, given, threads, anneals=True)
    n = num_sweeps // per_beta
    if kind == "geometric" and not hot:
        raise ValueError('beta_range must begin above 0 for beta_schedule_type="geometric"; "linear" takes 0.')
    betas = np.geomspace(hot, cold, n) if kind == "geometric" else np.linspace(hot, cold, n)
    betas[-1] = cold
    return np.maximum.accumulate(betas).tolist()


def _rows(states: dimod.SampleSet, bqm: dimod.BinaryQuadraticModel) -> np.ndarray:
    """Return states in the model's variables, in their order."""
    changed = states.change_vartype(bqm.vartype, inplace=False)
    place = [changed.variables.index(name) for name in bqm.variables]
    return np.asarray(changed.record.sample)[:, place]


def _sample_set(states: np.ndarray, bqm: dimod.BinaryQuadraticModel, n_best: int | None) -> dimod.SampleSet:
    """Return states (n, n_units) as a sample set; the `n_best` lowest distinct ones where that is asked for."""
    if n_best is not None:
        states = np.unique(states, axis=0)
    found = dimod.SampleSet.from_samples_bqm((states, list(bqm.variables)), bqm)
    if n_best is None:
        return found
    return found.slice(n_best) if len(found) else found


def _nothing(bqm: dimod.BinaryQuadraticModel, num_reads: int) -> dimod.SampleSet:
    return dimod.SampleSet.from_samples_bqm((np.empty((num_reads, 0), np.int8), []), bqm)


def _timing(started: int, ready: int, done: int) -> Mapping[str, int]:
    """Return what dwave-samplers tells of time, in nanoseconds."""
    return {
        "preprocessing_ns": ready - started,
        "sampling_ns": done - ready,
        "postprocessing_ns": time.perf_counter_ns() - done,
    }
