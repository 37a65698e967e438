"""From a spec and its arrays to the task, and back: a run's file holds all that the run needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.rows import Rows
from ..machine import h5
from ..machine.file import restore
from ..machine.machine import BoltzmannMachine
from ..sampling.observables import Function
from .loop import Task

if TYPE_CHECKING:
    from ..sampling.settings import SampleSettings

Arrays = dict[str, np.ndarray]
APART = "apart"  # an entry of the state of a run whose chains are computed apart, until they are joined
# where the class of each kind of run is, loaded when a spec names it
KINDS = {
    "sample": ("sample", "SampleRun"),
    "fit": ("fit", "FitRun"),
    "infer": ("infer", "InferRun"),
    "compare": ("infer", "CompareRun"),
    "rules": ("planted", "RulesRun"),
    "cells": (".campaigns", "ShardRun"),  # a floor above
}


@dataclass(frozen=True)
class Given:
    """What a task needs that no file holds: functions of the user, an executor, rows in memory.

    Attributes
    ----------
    observables : mapping of name to function, optional
        What a run of samples measures.
    model : BoltzmannMachine, optional
        The machine in the run's inputs, where it is at hand.
    executor : Executor, optional
        Does the pieces of the run.
    data : mapping of name to Rows, optional
        The rows that a fit learns from, where they are at hand.
    settings : SampleSettings, optional
        Those in the spec, where they are at hand.
    threads : int, optional
        On which it computes, where that is known.
    worker_threads : int
        On which each worker of the executor computes.
    apart : bool
        Whether chains are computed apart, in parts.
    """

    observables: Mapping[str, Function] | None = None
    model: BoltzmannMachine | None = None
    executor: Executor | None = None
    data: Mapping[str, Rows] | None = None
    settings: SampleSettings | None = None
    threads: int | None = None
    worker_threads: int = 1
    apart: bool = False


NOTHING = Given()


def model_inputs(model: BoltzmannMachine, name: str = "model") -> Arrays:
    """Return the arrays of a machine, as inputs of a run."""
    return {f"{name}/{key}": np.asarray(array) for key, array in h5.arrays_of(model).items()}


def read_model(
    inputs: Mapping[str, np.ndarray], description: Mapping[str, Any], name: str = "model"
) -> BoltzmannMachine:
    """Return the machine that `model_inputs` turned into arrays."""
    arrays = {key[len(name) + 1 :]: array for key, array in inputs.items() if key.startswith(name + "/")}
    model = restore(arrays, description)
    model.origin = dict(description["origin"])
    return model


def describe(model: BoltzmannMachine) -> dict[str, Any]:
    """Return what the spec says of a machine."""
    return h5.describe(model) | {"sizes": list(model.couplings.sizes), "origin": model.origin}


def read_models(spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, BoltzmannMachine]:
    """Return the machines of a spec by name."""
    return {one["name"]: read_model(inputs, one, f"models/{k}") for k, one in enumerate(spec["models"])}


def kind_of(spec: Mapping[str, Any]) -> Any:
    """Return the class of the runs that a spec describes."""
    return _class_of(spec["kind"])


@cache
def _class_of(kind: str) -> Any:
    package, name = KINDS[kind]
    return getattr(importlib.import_module(f".{package}.run", __package__), name)


def verb_of(kind: str) -> Any:
    """Return the function that begins a run of a kind."""
    return getattr(importlib.import_module(f".{KINDS[kind][0]}.verb", __package__), kind)


def build(spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given) -> Task:
    """Make the task that a spec describes; refuse what no run of its kind takes."""
    kind = kind_of(spec)
    for what, value, names, verb in (
        ("executor", given.executor, "executor goes", "sample, infer, compare, compare_rules and fit"),
        ("data", given.data, "data and holdout go", "fit"),
        ("observables", given.observables, "observables go", "sample"),
    ):
        if value and what not in kind.takes:
            raise ValueError(f"{names} with runs of {verb}; this is one of {spec['kind']}.")
    task: Task = kind.task(spec, inputs, threads, given)
    return task
