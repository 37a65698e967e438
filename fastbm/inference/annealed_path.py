"""The two ends of an annealing path and the steps between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _checks, rng
from ..model import BoltzmannMachine
from .walks import make_walk

PATHS = ("linear", "adaptive")
N_BETAS = 1_000  # of a path, unless told
PILOT_CHAINS = 64
PILOT_PART = 4  # the pilot takes one step for this many of the run, within the two limits that follow
FEWEST, MOST = 20, 200
EVEN = 0.1  # part of a path's length that is spread evenly in t


def check_path(n_betas: int | None, betas: Any) -> np.ndarray:
    """Return a path in equal steps, or the user's own."""
    if betas is None:
        return np.linspace(0.0, 1.0, _checks.whole("n_betas", N_BETAS if n_betas is None else n_betas, least=2))
    path = _checks.finite_array("betas", betas)
    if path.ndim != 1 or len(path) < 2 or path[0] != 0.0 or path[-1] != 1.0 or np.any(np.diff(path) <= 0):
        raise ValueError(f"betas must increase from 0.0 to 1.0; got {np.array2string(path, threshold=6)}.")
    return path


def adapt_path(
    model: BoltzmannMachine, beta: float, base: np.ndarray, n_betas: int, kind: str, seed: int, threads: int
) -> np.ndarray:
    """Return a path whose steps raise the variance of log w equally, as a short pilot saw it.

    A step adds (step sigma)^2, where sigma^2 is the variance of d log f_t / dt at t, so that steps of equal length
    integral sigma dt share it equally (Gelman and Meng, Stat. Sci. 13, 163 (1998), doi:10.1214/ss/1028905934).
    """
    streams = rng.streams(rng.derive(seed, rng.PILOT), PILOT_CHAINS)
    walk = make_walk(model, beta, base, streams, threads, kind)
    grid = np.linspace(0.0, 1.0, min(max(n_betas // PILOT_PART, FEWEST), MOST) + 1)
    walk.begin()
    before, length = walk.log_w, [0.0]
    for k in range(len(grid) - 1):
        walk.follow(grid[k : k + 2])
        after = walk.log_w
        length.append(length[-1] + float((after - before).std()))
        before = after
    whole = length[-1] or 1.0
    measure = (1.0 - EVEN) * np.array(length) / whole + EVEN * grid
    path = np.interp(np.linspace(0.0, measure[-1], n_betas), measure, grid)
    path[0], path[-1] = 0.0, 1.0
    return path
