"""What pictures are drawn of, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...inference.result import Inference
from ...inference.temperatures import KEY, Temperatures
from ...machine.machine import BoltzmannMachine
from ...runs.run import Run


def of_kind(run: Any, kind: str) -> Any:
    """Return a run of a kind."""
    if not isinstance(run, Run) or run.kind != kind:
        got = f"one of {run.kind}" if isinstance(run, Run) else type(run).__name__
        raise TypeError(f"this draws runs of {kind}; got {got}.")
    return run


def sampled(run: Any) -> Any:
    """Return a run that has samples."""
    if not len(of_kind(run, "sample").sweep):
        raise ValueError("there is nothing to draw yet: the run has no samples.")
    return run


def machine_of(what: Any) -> BoltzmannMachine:
    """Return a machine, or that of a run."""
    machine = what.model if isinstance(what, Run) else what
    if not isinstance(machine, BoltzmannMachine):
        raise TypeError(f"this draws machines and runs; got {type(what).__name__}.")
    return machine


def curves_of(result: Any) -> Temperatures:
    """Return what a result says of temperatures."""
    if isinstance(result, Inference) and KEY not in result.detail:
        raise ValueError(
            f"a result of {result.method!r} has no curves over temperatures; those of tempering and "
            "population-annealing have."
        )
    found = Temperatures.of(result) if isinstance(result, Inference) else result
    if not isinstance(found, Temperatures) or not np.size(found.betas):
        raise TypeError(f"this draws results of tempering and population-annealing; got {type(result).__name__}.")
    return found
