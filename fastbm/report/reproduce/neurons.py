"""Pairwise maximum-entropy machines of recorded neurons.

Schneidman, Berry, Segev and Bialek, Nature 440, 1007 (2006), doi:10.1038/nature04701: pairs explain about nine tenths
of how ten cells depend on one another; of other recordings more, as the bias that so many bins leave is taken off. Maoz
and Schneidman's maxent_toolbox (2016) publishes, with the recording `example50.mat` of 50 cells, the entropies that its
own example finds, log Z by the algorithm of Wang and Landau.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...data.datasets import load
from ...machine.machine import BoltzmannMachine
from ...runs.fit.pairs import pair_information
from ...runs.fit.verb import fit
from ...runs.infer.verb import infer
from ...runs.sample.verb import sample
from .found import Found

CELLS, GROUPS = 10, 10
SCHNEIDMAN = "Schneidman et al. (2006): about 90 % in groups of ten cells of theirs"
MAOZ = "maxent_toolbox (2016), maxent_example of example50.mat, in bits"
SHAPE = (40_000, 50)  # of that recording


def pairs(*, threads: int | None, data: Any, effort: float) -> list[Found]:
    """Return I_2 / I_N in groups of ten cells of a recording; the error is that of a group, as they share cells."""
    rows = _rows(data)
    if rows.ndim != 2 or rows.shape[1] < CELLS:
        raise ValueError(f"{data} has shape {rows.shape}; (times, cells) of at least {CELLS} cells is wanted.")
    chance = np.random.default_rng(0)
    groups = [np.sort(chance.permutation(rows.shape[1])[:CELLS]) for _ in range(max(3, int(GROUPS * effort)))]
    found = [pair_information(rows[:, group], n_resamples=5, threads=threads) for group in groups]
    ratio = np.array([one.ratio for one in found])
    return [Found("I_2 / I_N, ten cells", float(ratio.mean()), float(ratio.std(ddof=1)), 0.9, 0.02, SCHNEIDMAN, True)]


def entropies(*, threads: int | None, data: Any, effort: float) -> list[Found]:
    """Return entropies in bits of the pairwise machine of 50 cells, of half of the bins, and of as many samples."""
    rows = _rows(data)
    if rows.shape != SHAPE:
        raise ValueError(
            f"the published figures are of example50.mat, {SHAPE} bins and cells; {data} has {rows.shape}."
        )
    model = fit(rows, "monte-carlo", weights_every=0, evaluate="none", seed=1, threads=threads).model
    found = infer(model, "tempering", n_sweeps=max(1_000, int(4_000 * effort)), seed=1, threads=threads)
    error = math.hypot(found.log_z_error or 0.0, found.energy_error or 0.0) / math.log(2.0)
    half = len(rows) // 2
    chance = np.random.default_rng(0)
    halves = np.array([_of_patterns(rows[chance.permutation(len(rows))[:half]]) for _ in range(8)])
    drawn = np.array([_of_patterns(_drawn(model, half, seed, threads)) for seed in range(4)])
    return [
        Found("pairwise machine", float(found.entropy or 0.0) / math.log(2.0), error, 17.468, 0.1, MAOZ),
        Found("patterns of half of the bins", float(halves.mean()), float(halves.std(ddof=1)), 11.964, 0.01, MAOZ),
        Found("patterns of as many samples", float(drawn.mean()), float(drawn.std(ddof=1)), 12.422, 0.05, MAOZ),
    ]


def _rows(data: Any) -> np.ndarray:
    return np.ascontiguousarray(load(str(data)).rows, dtype=np.uint8)


def _drawn(model: BoltzmannMachine, n_rows: int, seed: int, threads: int | None) -> np.ndarray:
    run = sample(model, "tempering", n_chains=200, burn_in=200, n_sweeps=1_000, thin=10, seed=seed, threads=threads)
    return run.states.reshape(-1, model.n_units)[:n_rows]


def _of_patterns(rows: np.ndarray) -> float:
    """Return the entropy of the patterns seen, in bits, uncorrected as published."""
    counts = np.unique(np.packbits(rows > 0, axis=1), axis=0, return_counts=True)[1]
    p = counts / counts.sum()
    return float(-(p * np.log2(p)).sum())
