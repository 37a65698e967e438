"""A small run of every sampler, and of every option that has a state of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import fastbm as bm
from tests.support.machines import calm, machine

GLASS = bm.models.edwards_anderson((4, 5), seed=1)
FERRO = bm.models.ising((5, 5))
SK = bm.models.sherrington_kirkpatrick(30, seed=2)
PATTERNS = np.where(np.random.default_rng(3).random((4, 3)) < 0.5, -1, 1)

WORKLOADS: dict[str, tuple[bm.BoltzmannMachine, dict[str, Any]]] = {
    "gibbs": (SK, {"thin": 3, "observables": ["magnetisation", "overlap"]}),
    "metropolis": (SK, {"sampler": "metropolis", "beta": [0.5, 1.0], "thin": 7}),
    "lookup": (FERRO, {"kernel": "lookup", "n_chains": 128, "beta": 0.3}),
    "multispin": (FERRO, {"kernel": "multispin", "n_chains": 128, "beta": 0.3}),
    "tempering": (GLASS, {"sampler": "tempering", "beta": 1.5, "swap_every": 2, "thin": 3}),
    "houdayer": (
        GLASS,
        {"sampler": "tempering", "betas": [0.2, 0.6, 1.5], "cluster": True, "observables": ["overlap", "link_overlap"]},
    ),
    "tempering-best": (GLASS, {"sampler": "tempering", "beta": 1.5, "keep": "best", "k": 9, "thin": 2}),
    "annealing": (GLASS, {"sampler": "annealing", "schedule": "adaptive", "beta": 2.0, "observables": ["overlap"]}),
    "annealing-best": (GLASS, {"sampler": "annealing", "beta": 2.0, "keep": "best", "k": 5, "thin": 3}),
    "population": (GLASS, {"sampler": "population-annealing", "n_chains": 48, "n_sweeps": 5}),
    "population-best": (GLASS, {"sampler": "population-annealing", "n_sweeps": 5, "keep": "best", "k": 9}),
    "wolff": (FERRO, {"sampler": "wolff", "beta": 0.4, "thin": 3}),
    "swendsen-wang": (FERRO, {"sampler": "swendsen-wang", "beta": [0.3, 0.4], "thin": 3}),
    "clamped": (SK, {"clamp": ([1, 4, 9], PATTERNS), "thin": 5}),
    "clamped-ladders": (SK, {"sampler": "tempering", "beta": 1.0, "clamp": ([1, 4, 9], PATTERNS), "thin": 5}),
    "until": (SK, {"beta": 0.5, "until": {"ess": 300, "r_hat": 1.2}, "n_sweeps": 900}),
    "burn-in": (SK, {"beta": 0.7, "burn_in": "auto", "n_sweeps": 900, "observables": ["magnetisation"]}),
    "logarithmic": (GLASS, {"thin": "log", "beta": 1.5, "observables": ["magnetisation", "overlap"]}),
    "exact": (GLASS, {"sampler": "exact", "beta": [0.5, 1.0], "thin": 3, "observables": ["magnetisation", "overlap"]}),
    "exact-clamped": (GLASS, {"sampler": "exact", "clamp": ([1, 4, 9], PATTERNS), "until": {"ess": 900}}),
    "exact-best": (GLASS, {"sampler": "exact", "engine": "elimination", "keep": "best", "k": 9}),
    "best": (SK, {"beta": 1.5, "keep": "best", "k": 7, "thin": 2}),
}


def work(name: str, out: Path | None = None, **options: Any) -> bm.Run:
    """Do one of the workloads, and let it say that it has not converged."""
    model, own = WORKLOADS[name]
    return calm(bm.sample, model, out=out, **{"n_chains": 8, "n_sweeps": 240, "seed": 5, **own, **options})


def small(units: str = "spin") -> bm.BoltzmannMachine:
    """A machine of six units with biases and an offset, to be enumerated."""
    return machine("general", units, offset=0.7)
