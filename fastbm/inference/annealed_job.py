"""Walks up and down one path between a product model and a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _checks, rng
from ..model import BoltzmannMachine
from .annealed_path import PATHS, adapt_path, check_path, make_walk, product_model
from .annealed_starts import draw_starts

DOWN, SAMPLES = 1, 2  # what the seeds of the way down and of its samples are derived by


@dataclass(frozen=True)
class Job:
    """A path with its ends, and how it is walked."""

    model: BoltzmannMachine
    beta: float
    base: np.ndarray
    path: np.ndarray
    n_chains: int
    seed: int
    threads: int

    def up(self) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Return log w, the final states as bits, and details of the walk."""
        walk = make_walk(self.model, self.beta, self.base, rng.streams(self.seed, self.n_chains), self.threads)
        walk.begin()
        walk.follow(self.path)
        walk.finish()
        return walk.log_w + walk.log_z0, walk.bits(), walk.detail

    def down(self, source: str, n_sweeps: int) -> tuple[np.ndarray, bool | None, dict[str, Any]]:
        """Return log w of walks from samples of the machine, whether these are samples, and details."""
        samples = rng.derive(self.seed, SAMPLES)
        starts = draw_starts(self.model, self.beta, self.n_chains, source, n_sweeps, samples, self.threads)
        streams = rng.streams(rng.derive(self.seed, DOWN), self.n_chains)
        walk = make_walk(self.model, self.beta, self.base, streams, self.threads)
        walk.load(starts.up)
        walk.follow(self.path[::-1])
        return walk.log_z0 - walk.log_w, starts.converged, walk.detail | starts.detail


def make_job(
    model: BoltzmannMachine, beta: float, n_chains: int, n_betas: int, betas: Any, path: str, start: str, seed: int,
    threads: int,
) -> Job:  # fmt: skip
    n_chains = _checks.whole("n_chains", n_chains, least=1)
    steps = check_path(n_betas, betas)
    base = product_model(model, beta, start)
    if _checks.choice("path", path, PATHS) == "adaptive" and betas is None:
        steps = adapt_path(model, beta, base, len(steps), seed, threads)
    return Job(model, beta, base, steps, n_chains, seed, threads)
