"""The verbs `infer` and `compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from . import _checks, rng, threads as threads_module
from .exact.calibration import measured
from .exact.choosing import is_few
from .inference.auto import BUDGET, settle
from .inference.comparison import Comparison
from .inference.exact_settings import ExactSettings
from .inference.exact_sums import ExactSums
from .inference.methods import METHODS, check_call, infer as infer_once, run_method
from .inference.result import Inference
from .model import BoltzmannMachine
from .run import begin, check_model
from .run_bar import LateBar
from .run_loop import Progress, Stop
from .run_tasks import describe, model_inputs
from .run_view import Run

SHORT_SECONDS = 0.5  # exact sums that take longer run as runs do: they can be stopped, and show how far they are


def infer(
    model: BoltzmannMachine,
    method: str,
    *,
    beta: float = 1.0,
    clamp: tuple[Any, Any] | None = None,
    moments: bool = True,
    seed: int | None = 0,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    executor: Executor | None = None,
    **options: Any,
) -> Inference:
    """Compute log Z and moments.

    Parameters
    ----------
    model : BoltzmannMachine
    method : str
        "exact", "sampled-states", "mean-field", "tap", "bethe", "ais", "reverse-ais", "tempering",
        "population-annealing", "gibbs" or "metropolis"; or "auto": exact if the forecast fits `budget`, 60 seconds
        unless given, else AIS from both ends where the machine is layered, and tempering elsewhere, as long as the
        budget lasts. ``detail["auto"]`` says why, with log Z by mean field as a quick look, and ``detail["sized"]``
        what fitted: with the method's name and that option the result can be had again, bit for bit.
    beta : float
    clamp : (indices, values), optional
        Units held at values (k,), or at each of many patterns (n_patterns, k): then every field has a leading axis.
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
        Does the pieces of an exact sum, each on one thread; the result is put together here. Sums of more than a second
        are cut into 16 pieces at least by "gray" and "blocks"; elimination is a single piece.
    **options
        Of the method: `n_chains`, `n_sweeps`, `burn_in`, `thin`, `n_betas`, `n_starts`, ...; an unknown one is refused
        with the list. Those of "exact" are

        engine : {"gray", "blocks", "layers", "elimination"}
            The cheapest when left out; `detail` tells which, why, and the forecast of each that was considered.
        max_forecast_seconds, max_gigabytes : float
            Refuse, before starting, what would take more: 600 seconds and 4 gigabytes unless given.
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
    7.568441
    """
    check_model(model)
    _checks.choice("method", method, [*METHODS, "auto"])
    _check_flags(moments, executor)
    common: dict[str, Any] = {"beta": beta, "clamp": clamp, "moments": moments, "seed": seed, "threads": threads}
    at_once = method not in ("exact", "auto") or (method == "exact" and clamp is None and is_few(model))
    if out is None and executor is None and at_once:
        return infer_once(model, method, **common, **options)
    if method != "exact":  # of "auto" the budget needs a run too, whether it is stored or not
        return infer_run(model, method, options, **common, out=out, overwrite=overwrite, executor=executor).inference
    cell = _cell(model, "model", method, options, executor=executor, **common)
    if out is None and executor is None and cell["plan"]["seconds"] < SHORT_SECONDS:
        known = {"beta": cell["beta"], "seed": cell["seed"], "threads": threads_module.resolve(threads)}
        return run_method(model, method, **common | known, plan=cell["plan"], **cell["options"])
    with LateBar(f"exact, {cell['options']['engine']}") as bar:
        inputs = _clamp_inputs(clamp)
        about: dict[str, Any] = {"out": out, "overwrite": overwrite, "progress": bar, "executor": executor}
        return _cells("infer", {"model": model}, [cell], moments, inputs, threads, **about).inference


def infer_run(
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
) -> Run:
    """Infer as a run that is stored; `storage` as for `sample`."""
    check_model(model)
    _check_flags(moments, storage.get("executor"))
    cell = _cell(
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
    run = _cells("infer", {"model": model}, [cell], moments, _clamp_inputs(clamp), threads, **storage)
    if why := run.inference.detail.get("skipped"):
        raise ValueError(f"{cell['method']}: {why} Raise budget.")
    return run


def _cell(
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
    """Check a call and return what the spec says of it; of an exact sum all that was chosen for it."""
    chosen: dict[str, Any] = plain(options)
    beta, seed = _checks.real("beta", beta, least=0.0), rng.resolve(seed)
    n_threads = threads_module.resolve(threads)
    about: dict[str, Any] = {}
    if method == "auto":
        check_call(model, "exact", clamp, {})
        known: dict[str, Any] = {"beta": beta, "clamp": clamp, "moments": moments, "seed": seed, "threads": n_threads}
        budget = _checks.real("budget", chosen.pop("budget", BUDGET), above=0.0)
        if chosen:
            raise TypeError(f"auto has no option {min(chosen)!r}. It takes: budget.")
        settled_for = settle(model, budget=budget, **known)
        method, chosen, about = settled_for.method, settled_for.options, {"auto": settled_for.note}
    check_call(model, method, clamp, chosen, moments)
    cell = {"model": name, "method": method, "beta": beta, "seed": seed, "options": chosen} | about
    if method == "exact":
        settings = ExactSettings.of(model, **chosen)
        sums = {"clamp": clamp, "executor": executor, "measured": measured}
        settled = ExactSums(model, settings, beta=beta, moments=moments, threads=n_threads, **sums).settled
        cell |= {"options": settled.settings.options(), "plan": settled.plan()}
    elif executor is not None:
        raise ValueError(f"executor does the pieces of exact sums; method is {method!r}.")
    elif budget is not None:
        cell["budget"] = budget
    return cell


def _check_flags(moments: Any, executor: Any) -> None:
    if not isinstance(moments, (bool, np.bool_)):
        raise TypeError(f"moments must be True or False; got {moments!r}.")
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(f"executor must be a concurrent.futures.Executor; got {type(executor).__name__}.")


def _cell_within(budget: float | None, model: BoltzmannMachine, name: str, method: str, **about: Any) -> dict[str, Any]:
    """A cell of a comparison; an exact sum that the budget does not allow is skipped."""
    options = dict(about.pop("options"))
    if method == "auto":
        raise ValueError("compare takes methods by name; auto chooses one of them.")
    if budget is None or method != "exact":
        return _cell(model, name, method, options, budget=budget, **about)
    check_call(model, method, None, options, about["moments"])
    try:
        return _cell(model, name, method, {"max_forecast_seconds": budget} | options, **about)
    except ValueError as error:
        cell = {
            "model": name,
            "method": method,
            "beta": about["beta"],
            "seed": about["seed"],
            "options": plain(options),
        }
        return cell | {"skipped": str(error)}


def _clamp_inputs(clamp: Any) -> dict[str, np.ndarray]:
    return {} if clamp is None else {"clamp/indices": np.asarray(clamp[0]), "clamp/values": np.asarray(clamp[1])}


def compare(
    model: BoltzmannMachine | Mapping[str, BoltzmannMachine],
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]],
    *,
    beta: float | Sequence[float] = 1.0,
    budget: float | None = None,
    moments: bool = True,
    seed: int | Sequence[int] | None = 0,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **storage: Any,
) -> Comparison:
    """Run many methods on one machine or many, at one temperature or many, with one seed or many.

    Parameters
    ----------
    model : BoltzmannMachine, or dict of name to BoltzmannMachine
    methods : list of names, or dict of name to options
    beta : float or list of float
    budget : float, optional
        Seconds for each method on each machine, temperature and seed. A method that draws samples takes as many sweeps,
        temperatures or replicas as fit, found by short trials once for all seeds, which come on top; what the options
        name stays. Exact
        sums whose forecast is above it are skipped, and so is what cannot be done in so little time: the row says why.
    moments : bool
        Whether to compute means and second moments.
    seed : int, list of int, or None
        Exact sums are done once.
    threads, out, overwrite, progress, stop, **storage
        As for `sample`.

    Raises
    ------
    ValueError, TypeError
        For a method or option that is unknown or cannot be had on one of the machines, before anything is computed; or
        for a budget in which nothing could be done.
    StorageError
        If `out` exists or cannot be written.

    Returns
    -------
    Comparison
        `.table` has one row for each cell, `.summary()` one for many; printed, it is a table. Where "exact" is among
        the methods the others are held against it, else against the tightest bracket of lower and upper bounds.
    """
    models = {"model": model} if not isinstance(model, Mapping) else dict(model)
    for one in models.values():
        check_model(one)
    chosen = _chosen(methods)
    betas = [_checks.real("beta", value, least=0.0) for value in np.atleast_1d(np.asarray(beta, object)).tolist()]
    listed: list[Any] = [seed] if seed is None or isinstance(seed, (int, np.integer)) else _listed("seed", seed)
    seeds = [rng.resolve(one) for one in listed]
    if not models or not chosen or not betas or not seeds:
        raise ValueError("compare needs at least one model and one method, one beta and one seed.")
    if budget is not None:
        budget = _checks.real("budget", budget, above=0.0)
    _check_flags(moments, None)
    about: dict[str, Any] = {"clamp": None, "moments": moments, "threads": threads}
    cells = [
        _cell_within(budget, one, name, method, beta=b, seed=s, options=options, **about)
        for name, one in models.items()
        for b in betas
        for method, options in chosen.items()
        for s in (seeds[:1] if method == "exact" else seeds)
    ]
    run = _cells("compare", models, cells, moments, {}, threads, out, overwrite, progress, stop, **storage)
    found = run.comparison
    if len(found) == len(cells) and all(cell.skipped for cell in found.cells):
        told = "; ".join(dict.fromkeys(f"{cell.method}: {cell.skipped}" for cell in found.cells))
        raise ValueError(f"budget = {budget:g} s is too small for any of the methods. {told}")
    return found


def _chosen(methods: Any) -> dict[str, dict[str, Any]]:
    """The options of every method that is named."""
    named: dict[Any, Any] = {
        name: {} for name in ([methods] if isinstance(methods, str) else _listed("methods", methods))
    }
    if isinstance(methods, Mapping):
        named = dict(methods)
    for name, options in named.items():
        if not isinstance(name, str) or not isinstance(options, Mapping):
            raise TypeError(
                f"methods must be names, or a dict of name to a dict of options; got {name!r}: {options!r}."
            )
    return {name: plain(options) for name, options in named.items()}


def _listed(argument: str, value: Any) -> list[Any]:
    """What a list, a tuple, an array or a dict names."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, Mapping, np.ndarray)):
        raise TypeError(f"{argument} must be a list; got {value!r}.")
    return list(value)


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's, at any depth, for the spec."""
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _cells(
    kind: str,
    models: Mapping[str, BoltzmannMachine],
    cells: list[dict[str, Any]],
    moments: bool,
    inputs: dict[str, np.ndarray],
    threads: int | None,
    out: Any = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
    executor: Executor | None = None,
    **storage: Any,
) -> Run:
    spec = {
        "kind": kind,
        "models": [{"name": name, **describe(one)} for name, one in models.items()],
        "cells": cells,
        "moments": moments,
    }
    for k, one in enumerate(models.values()):
        inputs = inputs | model_inputs(one, f"models/{k}")
    return begin(
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
        executor=executor,
    )
