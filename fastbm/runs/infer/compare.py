"""The verb `compare`: many methods on many machines, temperatures and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from ..._base import checks, rng
from ..._base.options import Options
from ...inference.auto import named
from ...inference.comparison import Comparison
from ...inference.estimator import Estimator
from ...inference.methods import check_call
from ...machine.machine import BoltzmannMachine, check_machine
from ..loop import Progress
from ..stop import Stop
from .verb import check_flags, make_cell, plain, run_cells


def compare(
    model: BoltzmannMachine | Mapping[str, BoltzmannMachine],
    methods: Sequence[str | Estimator] | Mapping[str, Mapping[str, Any]],
    *,
    beta: float | Sequence[float] = 1.0,
    budget: float | None = None,
    moments: bool = True,
    seed: int | Sequence[int] | None = 0,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
    stop: Stop | None = None,
    executor: Executor | None = None,
    **storage: Any,
) -> Comparison:
    """Run many methods on one machine or many, at one temperature or many, with one seed or many.

    Parameters
    ----------
    model : BoltzmannMachine, or dict of name to BoltzmannMachine
    methods : list of names or objects, or dict of name to options
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
    executor : concurrent.futures.Executor, optional
        Does the cells, one a piece, each worker on one thread unless `threads` says more, and the pieces of exact sums.
        Results have the bits of those that are had without; what fits a budget is found by the workers, once for all
        seeds, before they begin.

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
        check_machine(one)
    chosen = _chosen(methods)
    betas = [checks.real("beta", value, least=0.0) for value in np.atleast_1d(np.asarray(beta, object)).tolist()]
    listed: list[Any] = [seed] if seed is None or isinstance(seed, (int, np.integer)) else _listed("seed", seed)
    seeds = [rng.resolve(one) for one in listed]
    if not models or not chosen or not betas or not seeds:
        raise ValueError("compare needs at least one model and one method, one beta and one seed.")
    if budget is not None:
        budget = checks.real("budget", budget, above=0.0)
    check_flags(moments, executor)
    about: dict[str, Any] = {"clamp": None, "moments": moments, "threads": threads, "executor": executor}
    cells = [
        _cell_within(budget, one, name, method, beta=b, seed=s, options=options, **about)
        for name, one in models.items()
        for b in betas
        for method, options in chosen.items()
        for s in (seeds[:1] if method == "exact" else seeds)
    ]
    run = run_cells("compare", models, cells, moments, {}, threads, out, overwrite, progress, stop, executor, **storage)
    found = run.comparison
    if len(found) == len(cells) and all(cell.skipped for cell in found.cells):
        text = "; ".join(dict.fromkeys(f"{cell.method}: {cell.skipped}" for cell in found.cells))
        raise ValueError(f"budget = {budget:g} s is too small for any of the methods. {text}")
    return found


def _cell_within(budget: float | None, model: BoltzmannMachine, name: str, method: str, **about: Any) -> dict[str, Any]:
    """Return one cell of a comparison, marked as skipped where it is an exact sum that the budget does not allow."""
    options = dict(about.pop("options"))
    if method == "auto":
        raise ValueError("compare takes methods by name; auto chooses one of them.")
    if budget is None or method != "exact":
        return make_cell(model, name, method, options, budget=budget, **about)
    check_call(model, method, about["beta"], None, options, about["moments"])
    try:
        return make_cell(model, name, method, {"max_forecast_seconds": budget} | options, **about)
    except ValueError as error:
        cell = {
            "model": name,
            "method": method,
            "beta": about["beta"],
            "seed": about["seed"],
            "options": plain(options),
        }
        return cell | {"skipped": str(error)}


def _chosen(methods: Any) -> dict[str, dict[str, Any]]:
    """Return the options of every method of a comparison, by the method's name."""
    one = isinstance(methods, (str, Options))
    listed: list[tuple[Any, Any]] = [(name, {}) for name in ([methods] if one else _listed("methods", methods))]
    if isinstance(methods, Mapping):
        listed = list(methods.items())
    found: dict[str, dict[str, Any]] = {}
    for name, options in listed:
        if isinstance(name, Options):
            name, options = named(name, options)
        if not isinstance(name, str) or not isinstance(options, Mapping):
            raise TypeError(
                f"methods must be names, or a dict of name to a dict of options; got {name!r}: {options!r}."
            )
        if name in found:
            raise ValueError(f"methods name {name!r} twice. Compare them in two calls.")
        found[name] = plain(options)
    return found


def _listed(argument: str, value: Any) -> list[Any]:
    """Return as a list what a list, a tuple, an array or a dict names."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, Mapping, np.ndarray)):
        raise TypeError(f"{argument} must be a list; got {value!r}.")
    return list(value)
