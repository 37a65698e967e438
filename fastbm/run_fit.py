"""The verb `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import _checks, data as data_module, rng
from .learning import settings as fit_settings
from .learning.classifier import BoltzmannClassifier
from .learning.task import start_machine
from .model import BoltzmannMachine
from .run import begin
from .run_loop import Progress, Stop
from .run_tasks import data_inputs, describe, model_inputs
from .run_view import Run
from .units import BINARY, SPIN, Units, units as convention


def fit(
    data: Any,
    *,
    method: str = "pcd",
    n_hidden: int = 0,
    layout: str | None = None,
    units: str | None = None,
    init: BoltzmannMachine | None = None,
    holdout: Any = None,
    labels: Any = None,
    holdout_labels: Any = None,
    classify: Mapping[str, Any] | None = None,
    clamped: str | None = None,
    free: str | None = None,
    optimizer: str | None = None,
    beta: float | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    momentum: float | None = None,
    batch_size: int | None = None,
    n_chains: int | None = None,
    n_sweeps: int | None = None,
    clamped_sweeps: int | None = None,
    l2: float | None = None,
    l2_bias: float | None = None,
    tolerance: float | None = None,
    weights_every: int | None = None,
    samples_every: int | None = None,
    monitor_every: int | None = None,
    evaluate: str | None = None,
    seed: int | None = 0,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    max_seconds: float | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **storage: Any,
) -> Run:
    """Learn a machine from data by dL/dW_ij = beta (<s_i s_j>_clamped - <s_i s_j>_free).

    Parameters
    ----------
    data : (n_rows, n_visible) array, or str
        In the units of the machine; or the name of a file's dataset, such as "file.h5:dataset" (`fastbm.data.load`).
    method : {"pcd", "cd", "exact", "monte-carlo", "mean-field"}
        A preset of the phases and the optimiser: "exact" sums all states and climbs by L-BFGS; "monte-carlo" runs
        clamped and free chains, hidden units anywhere; "cd" and "pcd" are contrastive divergence from the data and with
        persistent chains; "mean-field" is the deterministic machine.
    n_hidden : int
    layout : {"restricted", "general"}, optional
        "general" couples hidden units to one another, and visible ones too; the default with hidden units is
        "restricted".
    units : {"binary", "spin"}, optional
        Told from the data unless given.
    init : BoltzmannMachine, optional
        Where learning starts; fixes layout, units and n_hidden.
    holdout : (m, n_visible) array, optional
        Rows to be judged by at the end.
    labels, holdout_labels : arrays, optional
        Classes of the rows, for `classify`.
    classify : dict, optional
        Options of a `BoltzmannClassifier` that is learned from the same rows; its error on the held-out rows is in the
        summary.
    clamped : {"exact", "gibbs", "mean-field"}, optional
    free : {"exact", "gibbs", "contrastive", "mean-field"}, optional
        The phases one by one, in place of the preset's.
    optimizer : {"sgd", "adam", "l-bfgs"}, optional
    beta : float
        Inverse temperature at which the machine is learned, 1 unless given.
    epochs, batch_size : int
        Rows that fill no mini-batch sit an epoch out; for "l-bfgs" an epoch is one iteration.
    learning_rate, momentum : float
    n_chains, n_sweeps : int
        Free chains (128), and sweeps for each update.
    clamped_sweeps : int
        Sweeps thrown away, and as many averaged, of each row's hidden units where they are sampled.
    l2, l2_bias : float
        l2 subtracts l2/2 sum_{i<j} W_ij^2 from the mean log-likelihood of a row; biases are free unless `l2_bias` says
        otherwise.
    tolerance : float
        For "l-bfgs": converged when no entry of the (scaled) gradient is larger.
    weights_every, samples_every, monitor_every : int
        Epochs between two records of weights (1), of the free chains' states (0: never; there are none where chains
        start anew), of metrics (1).
    evaluate : {"auto", "exact", "ais", "none"}
        How log Z, and so the likelihood, is computed at the end.
    seed, threads, out, overwrite, max_seconds, progress, stop, **storage
        As for `sample`.

    Returns
    -------
    Run
        `run.model`, `run.metrics`, `run.weights`, `run.summary()`.

    Raises
    ------
    ValueError, TypeError
        For data that are empty or not in the machine's units, and arguments out of range.
    StorageError
        If `out` exists or cannot be written.

    Notes
    -----
    Parameters are float64. Where the free phase of a layered machine is sampled, moments of both phases are float32,
    whose rounding is far below the noise of the samples.

    References
    ----------
    Ackley, Hinton and Sejnowski, Cognitive Science 9, 147 (1985), doi:10.1207/s15516709cog0901_7.
    """
    given = {
        name: value
        for name, value in locals().items()
        if name in fit_settings.FitSettings.__dataclass_fields__ and name != "method"
    }
    source = str(data) if isinstance(data, (str, Path)) else None
    rows = data_module.check_rows(data_module.load(source).rows if source else data)
    if init is not None:
        _check_start(init, n_hidden, layout, units)
    kind = init.convention if init is not None else _tell_units(rows) if units is None else convention(units)
    up = kind.bits("data", rows)
    held = None if holdout is None else kind.bits("holdout", data_module.check_rows(holdout, "holdout"))
    if held is not None and held.shape[1] != up.shape[1]:
        raise ValueError(f"holdout must have {up.shape[1]} units a row, as data; got {held.shape[1]}.")
    seed = given["seed"] = rng.resolve(seed)
    start = (
        init if init is not None else start_machine(up, _checks.whole("n_hidden", n_hidden), layout, kind.name, seed)
    )
    if start.n_visible != up.shape[1]:
        raise ValueError(f"init has {start.n_visible} visible units; data has {up.shape[1]} units a row.")
    settings = fit_settings.check(start, len(up), method, given)
    labels, holdout_labels = _check_labels(labels, up, "labels"), _check_labels(holdout_labels, held, "holdout_labels")
    if classify is not None:
        _check_classifier(classify, labels, holdout_labels)
    spec = {
        "kind": "fit",
        "model": describe(start),
        "fit": settings.as_dict(),
        "classify": None if classify is None else dict(classify),
        "data": {"n_rows": len(up), "n_holdout": 0 if held is None else len(held), "source": source},
    }
    inputs = model_inputs(start) | data_inputs(up, held, labels, holdout_labels)
    return begin(spec, inputs, threads, out, overwrite, max_seconds, progress, stop, storage, fit.__kwdefaults__ or ())


def _tell_units(rows: np.ndarray) -> Units:
    return SPIN if rows.dtype.kind in "if" and (rows == -1).any() else BINARY


def _check_start(init: Any, n_hidden: int, layout: str | None, units: str | None) -> None:
    """Check that nothing contradicts the machine that learning starts from."""
    if not isinstance(init, BoltzmannMachine):
        raise TypeError(f"init must be a BoltzmannMachine; got {type(init).__name__}.")
    if n_hidden not in (0, init.n_hidden):
        raise ValueError(f"n_hidden is {n_hidden}, but init has {init.n_hidden} hidden units. Leave n_hidden out.")
    if units not in (None, init.units):
        raise ValueError(f"units is {units!r}, but init has {init.units} units. Leave units out, or convert init.")
    if layout is not None:
        raise ValueError("layout follows from init. Leave layout out.")


def _check_labels(labels: Any, rows: np.ndarray | None, argument: str) -> np.ndarray | None:
    if labels is None:
        return None
    array = _checks.any_array(argument, labels)
    n_rows = 0 if rows is None else len(rows)
    if array.shape != (n_rows,):
        raise ValueError(f"{argument} must have one entry for each row ({n_rows}); got shape {array.shape}.")
    return array


def _check_classifier(options: Mapping[str, Any], labels: np.ndarray | None, holdout_labels: np.ndarray | None) -> None:
    valid = [name for name in BoltzmannClassifier.__init__.__kwdefaults__ or () if name != "units"]
    for name in options:
        if name not in valid:
            raise TypeError(f"classify has no option {name!r}.{_checks.nearest(name, valid)}")
    BoltzmannClassifier(**options)
    if labels is None or holdout_labels is None:
        raise ValueError("classify needs labels, holdout and holdout_labels.")
    if len(np.unique(labels)) < 2:
        raise ValueError(f"labels must name at least two classes; got {np.unique(labels).tolist()}.")
