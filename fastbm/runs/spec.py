"""From a spec and its arrays to the task, and back: all that a run needs is in its file."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ..data.rows import Rows, unpack
from ..learning.settings import FitSettings
from ..machine import h5
from ..machine.file import restore
from ..machine.machine import BoltzmannMachine
from ..sampling.clamped import Conditioned
from ..sampling.observables import Function, check_given
from ..sampling.resolve import of_old_spec
from ..sampling.samplers import SAMPLERS
from ..sampling.settings import SampleSettings
from .fit.data import stored_rows
from .fit.task import FitTask
from .infer.task import CellsTask
from .loop import Task
from .planted.task import InverseTask
from .sample.task import SampleTask, ScheduleTask

Arrays = dict[str, np.ndarray]
UNPACKED = (
    "weights",
    "labels",
    "holdout_labels",
    "mean",
    "second_moment",
    "n_samples",
)  # arrays of data that are as they are


def model_inputs(model: BoltzmannMachine, name: str = "model") -> Arrays:
    """The arrays of a machine, as inputs of a run."""
    return {f"{name}/{key}": np.asarray(array) for key, array in h5.arrays_of(model).items()}


def read_model(
    inputs: Mapping[str, np.ndarray], description: Mapping[str, Any], name: str = "model"
) -> BoltzmannMachine:
    """The way back from `model_inputs`."""
    arrays = {key[len(name) + 1 :]: array for key, array in inputs.items() if key.startswith(name + "/")}
    model = restore(arrays, description)
    model.origin = dict(description["origin"])
    return model


def describe(model: BoltzmannMachine) -> dict[str, Any]:
    """What the spec says of a machine."""
    return h5.describe(model) | {"sizes": list(model.couplings.sizes), "origin": model.origin}


def build(
    spec: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    threads: int,
    functions: Mapping[str, Function] | None = None,
    model: BoltzmannMachine | None = None,
    executor: Executor | None = None,
    data: Mapping[str, Rows] | None = None,
) -> Task:
    """Make the task that `spec` tells of.

    `functions` are the observables that no file can hold, `executor` does the pieces of exact sums; `model` is the
    machine in `inputs`, `data` are the rows that a fit learns from, where they are at hand.
    """
    if executor is not None and spec["kind"] != "infer":
        raise ValueError(f"executor goes with runs of infer; this is one of {spec['kind']}.")
    if data and spec["kind"] != "fit":
        raise ValueError(f"data and holdout go with runs of fit; this is one of {spec['kind']}.")
    if spec["kind"] == "sample":
        return _sample(spec, inputs, threads, functions, model)
    if functions:
        raise ValueError(f"observables go with runs of sample; this is one of {spec['kind']}.")
    if spec["kind"] == "fit":
        return _fit(spec, inputs, threads, data or {})
    if spec["kind"] == "rules":
        return InverseTask(_models(spec, inputs), spec["cells"], threads=threads)
    return _cells(spec, inputs, threads, executor)


def _sample(
    spec: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    threads: int,
    functions: Mapping[str, Function] | None,
    model: BoltzmannMachine | None,
) -> Task:
    settings = SampleSettings.read(spec["sample"])
    given = check_given(settings.observables, functions)
    model = read_model(inputs, spec["model"]) if model is None else model
    settings = of_old_spec(settings, model.couplings)
    clamp = (inputs["clamp/indices"], inputs["clamp/values"]) if settings.n_patterns else None
    subject = Conditioned(model, clamp, settings.n_chains)
    initial = spec["initial"]
    if "initial" in inputs:
        up = subject.restrict(unpack(inputs["initial"], model.n_units))
        initial = model.convention.values(up)
    kind = ScheduleTask if SAMPLERS[settings.sampler].ends else SampleTask
    return kind(subject, settings, functions=given, initial=initial, threads=threads)


def _fit(spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Mapping[str, Rows]) -> Task:
    start = read_model(inputs, spec["model"])
    data: dict[str, Any] = stored_rows(spec["data"], inputs, start.convention, start.n_visible, given)
    data |= {name: inputs[f"data/{name}"] for name in UNPACKED if f"data/{name}" in inputs}
    judged = spec.get("judged", False)
    return FitTask(start, data, FitSettings(**spec["fit"]), classify=spec["classify"], threads=threads, judged=judged)


def _models(spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, BoltzmannMachine]:
    return {one["name"]: read_model(inputs, one, f"models/{k}") for k, one in enumerate(spec["models"])}


def _cells(spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, executor: Executor | None) -> Task:
    clamp = (inputs["clamp/indices"], inputs["clamp/values"]) if "clamp/indices" in inputs else None
    about: dict[str, Any] = {"clamp": clamp, "moments": spec["moments"], "threads": threads, "executor": executor}
    about["compiling_apart"] = spec.get("compiling_apart", False)
    return CellsTask(_models(spec, inputs), spec["cells"], **about)
