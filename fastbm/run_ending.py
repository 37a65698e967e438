"""Which runs can go on past their end, as if they had been longer from the start, and from where they do so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .learning.ending import before_end
from .learning.task import FitTask
from .run_loop import Task
from .sampling.samplers import SAMPLERS
from .sampling.task import SampleTask
from .store import Extension

COUNTED = {"sample": "n_sweeps", "fit": "epochs"}  # what a run of a kind is given more of
OTHERS = {"infer": "infer", "compare": "compare", "rules": "compare_rules"}

Arrays = dict[str, np.ndarray]


def longer_spec(spec: Mapping[str, Any], more: int) -> dict[str, Any]:
    """The spec of a run that is longer by `more`.

    Raises
    ------
    ValueError
        If a longer run would be another one from its start.
    """
    kind = spec["kind"]
    if kind in OTHERS:
        verb = OTHERS[kind]
        raise ValueError(
            f"extend goes with runs of sample and fit; this is one of {verb}, which has an end of its own. Begin "
            f"another with {verb}."
        )
    name = COUNTED[kind]
    settings = dict(spec[kind])
    longer = {**spec, kind: {**settings, name: settings[name] + more}}
    if why := _why_another(kind, settings):
        raise ValueError(f"cannot extend: {why}. Begin a longer one: {kind}(..., {name}={longer[kind][name]}).")
    return longer


def _why_another(kind: str, settings: Mapping[str, Any]) -> str:
    """Why a longer run would not begin as this one did; empty if it would."""
    if kind == "sample" and SAMPLERS[settings["sampler"]].ends:
        return (
            f"sampler={settings['sampler']!r} has an end of its own, and its schedule was laid out for "
            f"n_sweeps={settings['n_sweeps']}"
        )
    if kind == "fit" and settings["optimizer"] == "none":
        return f"method={settings['method']!r} is a formula, which more epochs would not change"
    if kind == "fit" and settings["schedule"] != "constant":
        return (
            f"schedule={settings['schedule']!r} lets the learning rate fall over epochs={settings['epochs']}, so that "
            "a longer run differs from its first epoch on"
        )
    return ""


def before_its_end(finished: Task, longer: Mapping[str, Any], state: Arrays) -> Extension:
    """Where a run goes on: the task of a finished one, restored, says whether that can be, and its `state` from where.

    Raises
    ------
    ValueError
        If it stopped by itself, or the state before its end was not kept.
    """
    if isinstance(finished, SampleTask):
        if why := finished.why_no_longer:
            raise ValueError(f"cannot extend: {why}. Begin a longer one: sample(..., n_sweeps=..., until=...).")
        return Extension(dict(longer))
    assert isinstance(finished, FitTask)
    if why := finished.why_no_longer:
        raise ValueError(f"cannot extend: {why}. More epochs would not change what was learned.")
    kept = before_end(state, finished.streams)
    if kept is None:
        raise ValueError(
            "cannot extend: the run was made by a version of fastbm that kept no state from before its end. Begin one "
            "from what was learned: fit(..., init=run.model)."
        )
    return Extension(dict(longer), *kept)
