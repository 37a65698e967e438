"""The verbs `infer` and `compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _checks, rng, threads as threads_module
from .inference.comparison import Comparison
from .inference.methods import check_call, infer as infer_once
from .inference.result import Inference
from .model import BoltzmannMachine
from .run import begin, check_model
from .run_loop import Progress, Stop
from .run_tasks import describe, model_inputs
from .run_view import Run


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
    **options: Any,
) -> Inference:
    """Compute log Z and moments.

    Parameters
    ----------
    model : BoltzmannMachine
    method : {"exact", "sampled-states", "mean-field", "ais", "gibbs", "metropolis"}
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
        Leave an HDF5 file that `fastbm.open` reads; its `inference` is the result.
    overwrite : bool
    **options
        Of the method: `n_chains`, `n_sweeps`, `burn_in`, `thin`, `n_betas`, `n_starts`, ...; an unknown one is refused
        with the list.

    Returns
    -------
    Inference

    Examples
    --------
    >>> import fastbm as bm
    >>> round(bm.infer(bm.models.curie_weiss(10), "exact").log_z, 6)
    7.568441
    """
    if out is None:
        return infer_once(model, method, beta=beta, clamp=clamp, moments=moments, seed=seed, threads=threads, **options)
    about: dict[str, Any] = {"threads": threads, "out": out, "overwrite": overwrite}
    return infer_run(model, method, options, beta=beta, clamp=clamp, moments=moments, seed=seed, **about).inference


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
    chosen: dict[str, Any] = plain(options)
    check_call(model, method, clamp, threads_module.resolve(threads), chosen)
    inputs: dict[str, np.ndarray] = {}
    if clamp is not None:
        inputs = {"clamp/indices": np.asarray(clamp[0]), "clamp/values": np.asarray(clamp[1])}
    beta = _checks.real("beta", beta, least=0.0)
    cell = {"model": "model", "method": method, "beta": beta, "seed": rng.resolve(seed), "options": chosen}
    return _cells("infer", {"model": model}, [cell], moments, inputs, threads, **storage)


def compare(
    model: BoltzmannMachine | Mapping[str, BoltzmannMachine],
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]],
    *,
    beta: float | Sequence[float] = 1.0,
    seed: int | None = 0,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **storage: Any,
) -> Comparison:
    """Run many methods on one machine or many, at one temperature or many.

    Parameters
    ----------
    model : BoltzmannMachine, or dict of name to BoltzmannMachine
    methods : list of names, or dict of name to options
    beta : float or list of float
    seed, threads, out, overwrite, progress, stop, **storage
        As for `sample`.

    Raises
    ------
    ValueError, TypeError
        For a method or option that is unknown or cannot be had on one of the machines; nothing has been computed then.
    StorageError
        If `out` exists or cannot be written.

    Returns
    -------
    Comparison
        `.table` has one row for each cell; printed, it is a table. Where "exact" is among the methods the others are
        held against it.
    """
    models = {"model": model} if not isinstance(model, Mapping) else dict(model)
    for one in models.values():
        check_model(one)
    names = [methods] if isinstance(methods, str) else methods
    chosen = {name: plain(methods[name]) if isinstance(methods, Mapping) else {} for name in names}
    betas = [_checks.real("beta", value, least=0.0) for value in np.atleast_1d(np.asarray(beta, object)).tolist()]
    if not models or not chosen or not betas:
        raise ValueError("compare needs at least one model and one method, and one beta.")
    for one in models.values():
        for name, options in chosen.items():
            check_call(one, name, None, threads_module.resolve(threads), options)
    seed = rng.resolve(seed)
    cells = [
        {"model": name, "method": method, "beta": b, "seed": seed, "options": options}
        for name in models
        for b in betas
        for method, options in chosen.items()
    ]
    run = _cells("compare", models, cells, True, {}, threads, out, overwrite, progress, stop, **storage)
    return run.comparison


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
    )
