"""States along a schedule of annealing, after given sweeps: those that a read would end with if it stopped there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._base import threads as threads_module
from ..machine.machine import BoltzmannMachine
from ..sampling.arguments import check
from ..sampling.clamped import Conditioned
from ..sampling.resolve import resolve
from ..sampling.settings import OPEN, SampleSettings

# arguments of `fastbm.sample` that are no options of annealing
COMMON = ("n_chains", "n_sweeps", "beta", "observables", "k", "seed", *sorted(OPEN))
PIECE = 64  # sweeps between two looks for a signal


def sweeps_of(num_intermediate: int, n_sweeps: int) -> list[int]:
    """Return the numbers of sweeps after which states are taken: evenly spaced, the last ones at the end."""
    return [k * n_sweeps // (num_intermediate + 1) for k in range(1, num_intermediate + 2)]


def kernel_of(model: BoltzmannMachine, *, threads: int | None, **options: Any) -> str:
    """Return the name of the kernel by which ``fastbm.sample(model, "annealing", ...)`` takes all these chains."""
    return str(_settle(model, threads_module.resolve(threads), options)[0].own.as_dict()["kernel"])


def states_along(model: BoltzmannMachine, sweeps: Sequence[int], *, threads: int | None, **options: Any) -> np.ndarray:
    """Anneal; return the states after each of `sweeps`, (n, n_chains, n_units).

    `options` are those of ``fastbm.sample(model, "annealing", ...)``, whose last states are the last ones here, bit for
    bit.
    """
    n_threads = threads_module.resolve(threads)
    settings, subject = _settle(model, n_threads, options)
    chains: Any = settings.own.chains(settings, subject, options["initial"], n_threads)
    found = []
    for sweep in sweeps:
        while chains.n_swept < sweep:
            chains.advance(min(PIECE, sweep - chains.n_swept))
        found.append(model.convention.values(chains.bits()))
    return np.stack(found)


def _settle(model: BoltzmannMachine, n_threads: int, options: Mapping[str, Any]) -> tuple[SampleSettings, Conditioned]:
    """Return the settings that options of annealing stand for, with nothing left to choose, and what is sampled."""
    given = dict.fromkeys(COMMON) | {name: value for name, value in options.items() if name in COMMON}
    own = {name: value for name, value in options.items() if name not in COMMON}
    settings = check("annealing", {**given, "keep": "all"}, own)
    subject = Conditioned(model, None, settings.n_chains)
    return resolve(settings, subject, n_threads), subject
