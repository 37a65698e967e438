"""Kernels compiled before they are needed: a tiny run of each kind, and runs that are long enough to be judged."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from ..exact.calibration import measured
from ..inference.methods import METHODS
from ..kernels.jit import CACHE_FOLDER, compile_seconds
from ..learning.methods import PRESETS
from ..models import edwards_anderson, ising, random_machine, restricted, sherrington_kirkpatrick
from ..runs.fit.verb import fit
from ..runs.infer.verb import infer
from ..runs.sample.verb import sample


def works() -> dict[str, list[Callable[[], Any]]]:
    """Return tiny runs that use the kernels of each verb."""
    glass, magnet, dense = edwards_anderson((4, 4), seed=1), ising((16, 16)), random_machine(60, seed=1)
    small, layers = random_machine(6, seed=1), restricted(5, 3, seed=1)
    rows = np.random.default_rng(1).integers(0, 2, (30, 5))
    lattices = edwards_anderson((16, 16), seed=1), edwards_anderson((6, 6, 6), seed=1)
    usual = (sherrington_kirkpatrick(64, seed=1), *lattices, restricted(48, 24, seed=1))
    rough = edwards_anderson((8, 8, 8), distribution="gaussian", seed=1)
    wide = restricted(784, 100, seed=1)
    judged: dict[str, Any] = {"n_sweeps": 100, "seed": 1}
    short: dict[str, Any] = {"n_sweeps": 4, "seed": 1}
    machines = (small, dense, random_machine(12, units="binary", seed=1), glass, layers)
    sampling: list[Callable[[], Any]] = [
        partial(sample, model, n_chains=n, sampler=sampler, **short)
        for model in machines for n in (2, 64) for sampler in ("gibbs", "metropolis")
    ]  # fmt: skip
    sampling += [partial(sample, glass, n_chains=1024, sampler=name, **short) for name in ("gibbs", "metropolis")]
    lattice = edwards_anderson((64, 64), seed=1)  # long enough for kernels of one chain that are made ready first
    sampling += [
        partial(sample, lattice, name, n_chains=1, n_sweeps=8, burn_in=80, seed=1) for name in ("gibbs", "metropolis")
    ]
    sampling += [
        partial(sample, model, sampler=name, n_chains=4, **short)
        for model, name in ((magnet, "wolff"), (magnet, "swendsen-wang"))
    ]
    sampling += [partial(sample, model, "annealing", n_chains=n, **short) for model in (dense, glass) for n in (2, 64)]
    sampling += [partial(sample, model, sampler="tempering", n_betas=3, n_chains=2, **short) for model in machines]
    sampling += [
        partial(sample, model, name, n_chains=n, **judged)
        for model in usual for name in ("gibbs", "metropolis", "tempering", "annealing") for n in (64, 32, 1)
    ]  # fmt: skip
    sampling += [partial(sample, wide, n_chains=n, **judged) for n in (1, 8, 64)]
    sampling += [partial(sample, model, "population-annealing", seed=1) for model in (*usual, rough)]
    inferring: list[Callable[[], Any]] = [
        partial(infer, model, name, seed=1)
        for model in (small, glass, layers) for name in METHODS
        if model is layers or name != "importance-sampling"
    ]  # fmt: skip
    drawing = ("gibbs", "metropolis", "tempering", "population-annealing", "ais", "sampled-states")
    inferring += [partial(infer, model, name, seed=1) for model in (*usual, rough) for name in drawing]
    inferring.append(measured)  # by which exact sums are forecast
    learning: list[Callable[[], Any]] = [partial(fit, rows, name, seed=1) for name in PRESETS]
    learning += [
        partial(fit, rows, name, n_hidden=2, epochs=2, seed=1)
        for name, preset in PRESETS.items() if preset.driver == "phases"
    ]  # fmt: skip
    return {"sample": sampling, "infer": inferring, "fit": learning}


def warm_up() -> None:
    """Do all tiny runs, and say how long their kernels took to compile."""
    console = Console()
    if CACHE_FOLDER is None:
        console.print("Compiled kernels cannot be kept: every process compiles its own.", highlight=False)
        return
    for verb, calls in works().items():
        before, started = compile_seconds(), time.perf_counter()
        with console.status(f"compiling what {verb} uses"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for call in calls:
                call()
        seconds, compiling = time.perf_counter() - started, compile_seconds() - before
        console.print(f"{verb:<8}{seconds:6.1f} s, of which {compiling:.1f} s compiling", highlight=False)
    console.print(f"Kernels are kept in {CACHE_FOLDER}.", highlight=False)
