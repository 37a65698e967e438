"""The verb `sample`: draw states of a machine, as a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..._base import checks, threads as threads_module
from ...data.rows import pack
from ...machine.machine import BoltzmannMachine, check_machine
from ...sampling.arguments import check
from ...sampling.chains import start_bits
from ...sampling.clamped import Conditioned
from ...sampling.memory import check_many, check_memory, check_rows
from ...sampling.observables import check_observables
from ...sampling.resolve import resolve
from ...sampling.samplers import OWN
from ...sampling.settings import Sampler, SampleSettings
from ..begin import begin, part
from ..loop import Progress
from ..run import Run
from ..spec import Given, describe, model_inputs
from ..stop import Stop
from .run import SampleRun


def sample(
    model: BoltzmannMachine,
    sampler: str | Sampler = "gibbs",
    *,
    n_chains: int = 64,
    n_sweeps: int | None = None,
    burn_in: int | str | None = None,
    thin: int | str = 1,
    beta: float | Sequence[float] | None = None,
    clamp: tuple[Any, Any] | None = None,
    observables: Sequence[str] | Mapping[str, str | Callable[[np.ndarray], Any]] = (),
    keep: str = "all",
    k: int | None = None,
    until: Mapping[str, float] | None = None,
    initial: Any = "random",
    seed: int | None = 0,
    first_chain: int = 0,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    max_seconds: float | None = None,
    executor: Executor | None = None,
    progress: bool | Progress | None = None,
    stop: Stop | None = None,
    **options: Any,
) -> SampleRun:
    """Draw samples of a machine.

    Two calls alike are the same run: the seed is 0 unless given, and results do not depend on the number of threads.
    Whatever is chosen here (temperatures, kernel, ladder, schedule) stands in `run.config` and is not chosen again on
    resume.

    Parameters
    ----------
    model : BoltzmannMachine
    sampler : str or Sampler
        The sampler's name, whose own options then stand among `options`; or an object that bears them, such as
        ``bm.samplers.Tempering(n_betas=12)``. Single-unit updates, clusters, ladders, schedules or independent draws:
        see below. "annealing" and "population-annealing" record one sample of each chain, at their end.
    n_chains : int
        Independent chains, ladders or, of a population, replicas.
    n_sweeps, thin : int, or "log" for `thin`
        A sweep is n_units attempts (of Wolff one cluster, of "exact" one draw). Sample t is taken after
        ``burn_in + (t + 1) * thin`` sweeps, ``n_sweeps // thin`` in all; 1000 sweeps unless given. Annealing: sweeps
        of the whole schedule. Population annealing: sweeps at each temperature, 10 unless given.
        ``thin="log"`` records a relaxation: samples after ``burn_in`` and 1, 2, 3, 4, 5, 6, 8, 10, 13, ... sweeps, the
        whole numbers nearest to 10^(k/10). See ``run.times``, ``run.relaxation()``. Such samples are no even series:
        they have no R-hat, no averages in time and no verdict.
    burn_in : int or "auto", optional
        Sweeps before; unless given a tenth of `n_sweeps`, of "exact" and with ``thin="log"`` none: there it is the time
        that was waited, the age of a glass. "auto": until the energy and the observables
        look stationary (`diagnostics.LogBins`), at most `n_sweeps`.
    beta : float or list of float, optional
        Inverse temperature, the target of a ladder or schedule; 1 unless given. Of a list, each goes to an equal group
        of consecutive chains. Searches ("annealing", and ``keep="best"`` with any sampler) take it from the machine's
        own fields unless it is given, so that multiples of the couplings are searched alike: a short quench tells how
        strongly typical units are pulled in low states; ladders and populations end where these pulls make log-odds
        of 30, chains that are annealed at 70, and chains of one temperature stay where they make 10.
    clamp : (indices, values), optional
        Units that are held, at values (k,) or (n_patterns, k): then equal groups of consecutive chains get one pattern
        each. States and energies are those of all units.
    observables : list of names, or dict of name to function
        Measured on every sample, in ``run.observables[name]``. "magnetisation": mean of -1 and +1 for each unit;
        "overlap": sum_i s_i t_i / n_units (of -1 and +1) of chains 2k and 2k + 1, "link_overlap" the same of products
        along couplings; of a periodic lattice "structure_factor", that of spins at the smallest wave vectors, and
        "overlap_structure_factor", of s_i t_i, from which `Run.correlation_length` is known at every temperature of a
        ladder. A function takes states (n_chains, n_units) int8 in the model's units and returns (n_chains,)
        numbers, or any one shape (m,); it must be given to `resume` again.
    keep : {"all", "best"}
        "best": record no states but keep the `k` distinct ones (100 unless given) of lowest energy that are seen after
        every `thin` sweeps, for "tempering" at all temperatures, for "annealing" in the last two fifths of them; there
        is then no burn-in unless given. See ``run.best_states``.
    k : int, optional
    until : dict, optional
        ``{"ess": 1000}``, ``{"r_hat": 1.01}`` or both: stop when the energy and every observable of the chains, at
        every temperature, have so many effective samples, an R-hat not above (1.05 unless given), and the same mean in
        both halves of the run. Looked at after 64, 80, 100, ... samples, from 1024 of all chains together on; it must
        hold from one look to another at twice as many samples. `n_sweeps` is then the limit.
    initial : "random", "up", (n_units,) or (n_chains, n_units) array, or Run
        Where chains start; a Run's last samples.
    seed : int or None
        None draws one, which `run.config` tells.
    first_chain : int
        Index of the first chain, to run parts of one large set of chains apart. Name the `kernel` in all parts, which
        is else chosen by the number of chains: a later part that would take another one than the whole set is refused,
        but the part that begins at 0 cannot know of the others. Multiples of 64 for "multispin", of 32 for "lookup".
    threads : int, optional
        All available processors unless given.
    out : path, optional
        Stream to this HDF5 file; without it samples stay in memory.
    overwrite : bool
        Replace a run of that name.
    max_seconds : float, optional
        Stop then; the run can be resumed.
    executor : concurrent.futures.Executor, optional
        Computes the run in parts, with the same bytes: of processes, Dask, MPI (`fastbm.workers`), each worker on one
        thread unless `threads` is given. With `until`, ``burn_in="auto"`` and what else has no parts (Notes) the run is
        done here, which a warning says.
    progress : bool or function, optional
        True draws a bar on stderr: in a terminal, in a notebook, or as lines in a log file. By default one is drawn in
        terminals and notebooks once a call has taken a second; False draws none. A function is called after each
        block with the run's task (`task.progress`: units done, and in all) and its rows.
    stop
        For the command line: the signals that stop a run.
    **options
        Options of the sampler, and how the run is stored.

        gibbs, metropolis
            `order`, `kernel`.
        tempering
            `order`, `kernel`, `rule`, `betas`, `lowest_beta`, `n_betas`, `swap_every`, `cluster`,
            `record`.
        annealing
            `order`, `kernel`, `rule`, `betas`, `lowest_beta`, `schedule`.
        population-annealing
            `order`, `kernel`, `rule`, `target_ess`.
        wolff, swendsen-wang
            None.
        exact
            `engine`, `max_forecast_seconds`, `max_gigabytes`.

        ``help(bm.samplers.Tempering)``, or ``fastbm help tempering``, says what each means.

        `commit_seconds` (60) and `commit_bytes` (16 MiB): when what there is gets committed; `compression` (None,
        "gzip", "zstd"); `merge` (True): one file at the end; `about`: a dict of texts kept with the run.

    Returns
    -------
    Run
        `run.states` (n_samples, n_chains, n_units) in the model's units, `run.energy` (n_samples, n_chains).

    Raises
    ------
    ValueError, TypeError
        For arguments out of range, that the sampler does not take, or that memory cannot hold; for energies, or beta
        times energies, whose squares or which themselves are beyond the largest number.
    StorageError
        If `out` exists or cannot be written.
    Interrupted
        After Ctrl-C, with what was sampled in its `run`.

    Warns
    -----
    ConvergenceWarning
        At the end, if chains disagree in the energy, an observable or the mean of a unit (R-hat above 1.05, told where
        there are at least 4 chains and 32 samples) or drift together, a burn-in or a stopping rule was not met within
        `n_sweeps`, or a population has few families. A machine that is even under a flip of all units is judged by
        what is even alone, the energy, ``|m|`` and products of units: its means are 0 by symmetry. A run whose chains
        agree has converged unless they may all have missed a valley (one chain, fewer than 8, or all from one state:
        `Run.converged` is None, `Run.doubt` says why).

    Notes
    -----
    With an `executor` chains are computed apart, 64 at a time (128 of "lookup", 512 of "multispin"), of tempering whole
    ladders of 64 replicas together or more (64 ladders of "lookup"); how they are cut depends on the settings alone.
    Temperatures, ladder, schedule and kernel are settled here first. With `out`, which all workers must see, each part
    is a run in ``OUT.chains/`` until the parts are joined here: one whose worker was killed goes on by another, and
    `resume` goes on from what there is, with an executor or without. Without `out` parts are sent back as they are
    done. Observables that are functions are of all chains, and measured here as parts are joined. What couples all
    chains is not cut and done here, with a warning: `until`, ``burn_in="auto"``, a population, several clamped
    patterns; nor are "exact" draws, and what is no more than one part.

    Examples
    --------
    >>> import fastbm as bm
    >>> run = bm.sample(bm.models.curie_weiss(8), n_chains=16, n_sweeps=100, seed=1)
    >>> run.states.shape
    (100, 16, 8)
    """
    check_machine(model)
    own, storage = part("sample", options, OWN, sample.__kwdefaults__ or ())
    given = {
        "n_chains": n_chains,
        "n_sweeps": n_sweeps,
        "burn_in": burn_in,
        "thin": _unless(thin, 1),
        "beta": beta,
        "clamp": clamp,
        "observables": observables,
        "keep": keep,
        "k": k,
        "until": until,
        "initial": _unless(initial, "random"),
        "seed": seed,
        "first_chain": _unless(first_chain, 0),
    }
    settings = check(sampler, given, own)
    check_many(settings)
    subject = Conditioned(model, _two(clamp), settings.n_chains)
    n_threads = threads_module.resolve(threads)
    settings = resolve(settings, subject, n_threads)
    if executor is not None:
        executor = _if_in_parts(executor, settings, alone=out is None and max_seconds is not None)
    check_memory(settings, subject, together=None if executor is None else _chains_of_a_part(settings))
    if out is None and until is None and max_seconds is None:
        check_rows(settings, subject)
    if clamp is not None:
        settings = replace(settings, n_patterns=subject.n_patterns)
    spec = {"kind": "sample", "model": describe(model), "sample": settings.as_dict(), "initial": "random"}
    inputs = model_inputs(model)
    if clamp is not None:
        inputs |= {"clamp/indices": np.asarray(clamp[0]), "clamp/values": np.asarray(clamp[1])}
    if isinstance(initial, Run):
        if not initial.has_states:
            raise ValueError("initial is a run without samples; its last ones are where chains would start.")
        initial = initial.states[-1]
    if isinstance(initial, str):
        spec["initial"] = checks.choice("initial", initial, ("random", "up"))
    else:
        up = start_bits(initial, model.n_units, settings.n_chains, settings.seed, first_chain, model.convention)
        inputs["initial"] = pack(np.ascontiguousarray(up))
        spec["initial"] = "given"
    functions = check_observables(observables)[1]
    known = Given(
        functions, model, executor, settings=settings, threads=n_threads,
        worker_threads=1 if threads is None else threads, apart=executor is not None,
    )  # fmt: skip
    run = begin(spec, inputs, threads, out, overwrite, max_seconds, progress, stop, storage, given=known)
    assert isinstance(run, SampleRun)
    return run


def _if_in_parts(executor: Executor, settings: SampleSettings, *, alone: bool) -> Executor | None:
    """Return the executor where the chains are computed in parts, None where they are not."""
    from ..._base.workers import check_executor  # which most runs do without
    from ...sampling.parts import why_whole

    check_executor(executor)
    if why := why_whole(settings):
        checks.warn(f"{why}: the run is done here, and not by the executor.", UserWarning)
        return None
    if alone:
        raise ValueError("max_seconds with an executor needs out=PATH: what workers have come to is lost without it.")
    return executor


def _chains_of_a_part(settings: SampleSettings) -> int:
    from ...sampling.parts import cuts

    return cuts(settings)[0][1]


def _unless(value: Any, default: Any) -> Any:
    """Return an argument, or None where it was left at its default."""
    return None if isinstance(value, type(default)) and value == default else value


def _two(clamp: Any) -> tuple[Any, Any] | None:
    if clamp is None:
        return None
    if not isinstance(clamp, (tuple, list)) or len(clamp) != 2:
        raise TypeError(f"clamp must be a pair, (indices, values); got {clamp!r}.")
    return clamp[0], clamp[1]
