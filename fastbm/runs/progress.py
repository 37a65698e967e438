"""The progress of a run, computed from its spec and a few numbers of its state: what its task would say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..sampling.population import PARTS
from ..sampling.samplers import read_settings
from ..sampling.settings import SampleSettings

Counters = Mapping[str, np.ndarray]
COUNTERS = (
    "n_swept",
    "first_sweep",
    "last_sweep",
    "population",
    "population_counts",
    "n_epochs",
    "n_done",
    "sums/n_results",
    "sums/n_pieces",
    "sums/n_pieces_done",
)  # of the state


class Progress(NamedTuple):
    """How much is done, of how much, in which unit: `task.progress` and `task.unit`."""

    done: int
    total: int
    unit: str


def progress_of(spec: Mapping[str, Any], counters: Counters, n_sums: int = 1) -> Progress:
    """Return how far a run is, from its spec and the counters of its state.

    Parameters
    ----------
    spec : dict
    counters : mapping of name to array
        Those of `COUNTERS` that are in the state.
    n_sums : int
        Clamped patterns of an exact sum.
    """
    if spec["kind"] == "sample":
        return _of_sample(read_settings(spec["sample"]), counters)
    if spec["kind"] == "fit":
        return Progress(int(counters["n_epochs"]), spec["fit"]["epochs"], "epoch")
    if len(spec["cells"]) == 1 and "sums/n_results" in counters:
        n_pieces = int(counters.get("sums/n_pieces", 1))
        n_done = int(counters["sums/n_results"]) * n_pieces + int(counters.get("sums/n_pieces_done", 0))
        return Progress(n_done, n_sums * n_pieces, "piece")
    return Progress(int(counters["n_done"]), len(spec["cells"]), "cell")


def _of_sample(settings: SampleSettings, counters: Counters) -> Progress:
    n_swept = int(counters["n_swept"])
    if settings.sampler == "population-annealing":
        return Progress(_way(settings, counters), PARTS, "part of the way")
    if settings.sampler == "annealing":
        return Progress(n_swept, settings.n_sweeps, "sweep")
    if (end := int(counters.get("last_sweep", -1))) >= 0:
        return Progress(n_swept, end, "sweep")
    first = int(counters.get("first_sweep", settings.most_burn_in))
    return Progress(n_swept, (settings.most_burn_in if first < 0 else first) + settings.n_sweeps, "sweep")


def _way(settings: SampleSettings, counters: Counters) -> int:
    """Return how far a population is on its way to its target, in thousandths."""
    beta, target = float(counters["population"][0]), float(settings.beta[0])
    _, left, started, _ = (int(n) for n in counters["population_counts"])
    if started and beta == target and left == 0:
        return PARTS
    return min(int(PARTS * beta / (target or 1.0)), PARTS - 1)
