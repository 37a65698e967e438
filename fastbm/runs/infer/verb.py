"""The verb `infer`, and what it shares with `compare`: cells, each a machine, a method and its options."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from ..._base import checks, rng, threads as threads_module
from ..._base.options import flag
from ..._base.workers import check_executor
from ...exact.calibration import measured
from ...exact.choice import is_few
from ...inference.auto import Auto, named, settle
from ...inference.estimator import Estimator
from ...inference.exact.settings import ExactSettings
from ...inference.exact.sums import ExactSums
from ...inference.methods import check_call, infer as infer_once, run_method
from ...inference.result import Inference
from ...machine.machine import BoltzmannMachine, check_machine
from ..begin import begin
from ..loop import Progress
from ..spec import Given, describe, model_inputs
from ..stop import Stop
from .call import shown
from .run import InferRun, Results

SHORT_SECONDS = 0.5  # exact sums that take longer run as runs do: they can be stopped, and show how far they are


def infer(
    model: BoltzmannMachine,
    method: str | Estimator | Auto | None = None,
    *,
    beta: float = 1.0,
    clamp: tuple[Any, Any] | None = None,
    moments: bool = True,
    seed: int | None = 0,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Inference:
    """Infer log Z and moments of a machine.

    Parameters
    ----------
    model : BoltzmannMachine
    method : str or object
        A name, whose options then stand among `options`, or an object that bears them, such as
        ``bm.methods.AIS(n_chains=256)``. Names are
        "exact", "sampled-states", "mean-field", "tap", "bethe", "ais", "reverse-ais", "tempering",
        "population-annealing", "importance-sampling", "gibbs" or "metropolis"; or "auto": exact if the forecast fits
        `budget`, 60 seconds unless given, and `exact` is not False; else, of layered machines, importance sampling
        where one side has up to 25 units and AIS where not (from both ends unless the look around that this begins with
        takes much of the budget), and tempering elsewhere, or AIS where no tempering fits, as long as the budget lasts,
        or as the built-in speeds say it does; mean field, which in bench/estimator_map.csv is good enough almost
        nowhere, where that is too short for any of them. `start` goes to AIS and tempering, and is refused where
        neither is taken. ``detail["auto"]`` says why, with log Z by mean field as a quick look, and
        ``detail["sized"]`` what fitted: with the method's name, that option and ``detail["auto"]["options"]`` the
        result can be had again, bit for bit.
    beta : float
    clamp : (indices, values), optional
        Units held at values (k,), or at each of many patterns (n_patterns, k): then every field has a leading axis.
        Each pattern makes a machine of its own, which is examined by itself; `converged` is that of all.
        Means and moments cover all units; `log_z` is the log of the sum over the free units, so log p(v) =
        log_z(clamped) - log_z.
    moments : bool
        Whether to compute means and second moments.
    seed : int or None
    threads : int, optional
    out : path, optional
        Leave an HDF5 file that `fastbm.open` reads; its `inference` is the result. A long exact sum that is stopped, by
        Ctrl-C or a kill, goes on with `fastbm.resume` from the piece that it was at.
    overwrite : bool
    executor : concurrent.futures.Executor, optional
        Does the work in pieces, each on one thread; the result is put together here and has the bits of one that was
        had without. Exact sums of more than a second have 16 pieces at least by "gray" and "blocks", larger ones
        pieces of half a minute or more; elimination is a single piece. "ais" and "reverse-ais" have one for each 64
        chains (or more, of small layered machines) of each way, while trials, path and scout are done here; of many
        clamped patterns each after the first is a piece. All else runs whole on one worker, on `threads` of it, one
        unless given.
    progress : bool or function, optional
        As for `sample`: a bar on stderr; left out, in terminals and notebooks alone, after a second. A function is
        called with a task and its rows as the method goes: the task's `unit` and `progress` say how far it is.
    **options
        Of the method: `n_chains`, `n_sweeps`, `burn_in`, `thin`, `n_betas`, `n_starts`, ...; an unknown one is refused
        with the list. Those of "exact" are

        engine : {"gray", "blocks", "layers", "elimination"}
            The cheapest when left out; `detail` tells which, why, and the forecast of each that was considered.
        max_forecast_seconds, max_gigabytes : float
            Refuse, before starting, what would take more: 600 seconds and 4 gigabytes unless given. With an executor
            it is the time on all its workers, and the memory of each.
        energy_variance : bool
            Left out it is given where it is free, and by blocks for up to 32 free units. It needs the moments, as
            `pairs` does.
        pairs : "all" or (n_pairs, 2) array
            Second moments that elimination gives besides those of coupled units; left out all of them for up to 24 free
            units, and for up to 64 where they cost little. Moments that are not of all pairs come as
            scipy.sparse.csr_array.
        n_lowest : int
            List the lowest states in `detail`, by Gray code.
        distribution : list of int
            Joint distribution of up to 20 units, in `detail`, by Gray code.

    Returns
    -------
    Inference

    Examples
    --------
    >>> import fastbm as bm
    >>> round(bm.infer(bm.models.curie_weiss(10), "exact").log_z, 6)
    7.375144
    """
    check_machine(model)
    if method is None:
        raise TypeError('infer needs a method, such as infer(model, "exact") or infer(model, "auto").')
    method, options = named(method, options)
    check_flags(moments, executor)
    common: dict[str, Any] = {"beta": beta, "clamp": clamp, "moments": moments, "seed": seed, "threads": threads}
    few = method == "exact" and clamp is None and is_few(model)
    here = out is None and executor is None
    if here and few and progress is None:  # what a bar costs would be much
        return infer_once(model, method, **common, **options)
    with shown(progress, method) as each:
        if here and (few or method not in ("exact", "auto")):
            return infer_once(model, method, **common, **options)
        about: dict[str, Any] = {"out": out, "overwrite": overwrite, "executor": executor, "progress": each}
        if method != "exact":  # of "auto" the budget needs a run too, whether it is stored or not
            return _believed(_run_of(model, method, options, **common, **about))
        cell = make_cell(model, "model", method, options, executor=executor, **common)
        if here and cell["plan"]["seconds"] < SHORT_SECONDS:
            known = {"beta": cell["beta"], "seed": cell["seed"], "threads": threads_module.resolve(threads)}
            return run_method(model, method, **common | known, plan=cell["plan"], **cell["options"])
        run = run_cells("infer", {"model": model}, [cell], moments, _clamp_inputs(clamp), threads, **about)
        return run._results()[0]


def infer_run(model: BoltzmannMachine, method: str, options: Mapping[str, Any], **common: Any) -> InferRun:
    """Infer as a run that is stored, with arguments as those of `infer` and storage as for `sample`."""
    run = _run_of(model, method, options, **common)
    if run.finished:
        _believed(run)
    return run


def _believed(run: InferRun) -> Inference:
    """Return the result of a run; refuse one for which the budget was too small."""
    found = run.inference
    if why := found.detail.get("skipped"):
        raise ValueError(f"{run.config['cells'][0]['method']}: {why} Raise budget.")
    return found


def _run_of(
    model: BoltzmannMachine,
    method: str,
    options: Mapping[str, Any],
    *,
    beta: float = 1.0,
    clamp: tuple[Any, Any] | None = None,
    moments: bool = True,
    seed: int | None = 0,
    threads: int | None = None,
    **storage: Any,
) -> InferRun:
    check_machine(model)
    check_flags(moments, storage.get("executor"))
    cell = make_cell(
        model,
        "model",
        method,
        options,
        beta=beta,
        clamp=clamp,
        moments=moments,
        seed=seed,
        threads=threads,
        executor=storage.get("executor"),
    )
    run = run_cells("infer", {"model": model}, [cell], moments, _clamp_inputs(clamp), threads, **storage)
    assert isinstance(run, InferRun)
    return run


def make_cell(
    model: BoltzmannMachine,
    name: str,
    method: str,
    options: Mapping[str, Any],
    *,
    beta: Any,
    clamp: Any,
    moments: bool,
    seed: int | None,
    threads: int | None,
    budget: float | None = None,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """Check a call and return the cell that the spec keeps of it; for an exact sum with all that was chosen for it."""
    chosen: dict[str, Any] = plain(options)
    beta, seed = checks.real("beta", beta, least=0.0), rng.resolve(seed)
    n_threads = threads_module.resolve(threads)
    about: dict[str, Any] = {}
    if method == "auto":
        check_call(model, "exact", beta, clamp, {})
        known: dict[str, Any] = {"beta": beta, "clamp": clamp, "moments": moments, "seed": seed, "threads": n_threads}
        if unknown := set(chosen) - set(Auto.names()):
            raise TypeError(f"auto has no option {min(unknown)!r}. It takes: {', '.join(Auto.names())}.")
        auto = Auto(**chosen)
        budget = auto.budget
        known |= {"executor": executor, "measured": measured}
        settled_for = settle(model, budget=budget, exact=auto.exact, start=auto.start, **known)
        method, chosen, about = settled_for.method, settled_for.options, {"auto": settled_for.note}
    estimator = check_call(model, method, beta, clamp, chosen, moments)
    cell = {"model": name, "method": method, "beta": beta, "seed": seed, "options": chosen} | about
    if method == "exact":
        settings = ExactSettings.of(model, **estimator.as_dict())
        sums = {"clamp": clamp, "executor": executor, "measured": measured}
        settled = ExactSums(model, settings, beta=beta, moments=moments, threads=n_threads, **sums).settled
        cell |= {"options": settled.settings.options(), "plan": settled.plan()}
    elif budget is not None:
        cell["budget"] = budget
    return cell


def check_flags(moments: Any, executor: Any) -> None:
    """Check the arguments that belong to no single method."""
    flag("moments", moments)
    check_executor(executor)


def _clamp_inputs(clamp: Any) -> dict[str, np.ndarray]:
    return {} if clamp is None else {"clamp/indices": np.asarray(clamp[0]), "clamp/values": np.asarray(clamp[1])}


def plain(value: Any) -> Any:
    """Turn NumPy's numbers and arrays into Python's, at any depth, for the spec."""
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def run_cells(
    kind: str,
    models: Mapping[str, BoltzmannMachine],
    cells: list[dict[str, Any]],
    moments: bool,
    inputs: dict[str, np.ndarray],
    threads: int | None,
    out: Any = None,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
    stop: Stop | None = None,
    executor: Executor | None = None,
    **storage: Any,
) -> Results:
    """Begin a run of the cells that `make_cell` made, and execute it to its end."""
    spec = {
        "kind": kind,
        "models": [{"name": name, **describe(one)} for name, one in models.items()],
        "cells": cells,
        "moments": moments,
        "compiling_apart": True,
    }
    for k, one in enumerate(models.values()):
        inputs = inputs | model_inputs(one, f"models/{k}")
    run = begin(
        spec,
        inputs,
        threads,
        out,
        overwrite,
        None,
        progress,
        stop,
        storage,
        ("beta", "seed", "threads", "out", "overwrite"),
        Given(executor=executor, worker_threads=1 if threads is None else threads),
    )
    assert isinstance(run, Results)
    return run
