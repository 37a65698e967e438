"""The task of annealing along a path: its ends, how it is walked, and what a scout saw before."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base import rng
from ...machine.machine import BoltzmannMachine
from ...sampling.valleys import has_one_valley
from ..scout.bases import unseen_starts
from ..scout.marginal import PAIR_SECONDS, n_pairs
from ..scout.scout import FEWEST_WITNESSES, SCOUT, SCOUT_PART, Scout, attempt_seconds, climbed, scout
from .path import draw_starts
from .walks import rounding, weighed_units
from .way import Way
from .weights import Average, average

DOWN, SAMPLES, WITNESS, SECOND = 1, 2, 4, 5  # what seeds are derived by, besides that of a look around
WITNESS_PART = 0.5  # of the walks, those that stand witness


@dataclass(frozen=True)
class Job:
    """The task of annealing along a path: its ends, how it is walked, and what a scout saw before.

    Attributes
    ----------
    start : str
        The name of the product model, `base` its log-odds.
    rival : (str, float) or None
        The best other base of those that were tried, and the lower end of its log Z.
    scout : Scout or None
        Without bounds by mean field; see `seen`.
    before : Scout or None
        From whose states the base is, and which therefore does not stand witness to it.
    facts : dict
        For `detail`.
    executor : Executor or None
        Lets the chains go, each block of them as a piece.
    """

    model: BoltzmannMachine
    beta: float
    start: str
    base: np.ndarray
    path: np.ndarray
    walk: str
    n_chains: int
    seed: int
    threads: int
    rival: tuple[str, float] | None
    scout: Scout | None
    before: Scout | None
    facts: dict[str, Any]
    executor: Executor | None = None

    def up(self, n_chains: int | None = None, seed: int | None = None) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Return log w, the final states as bits, and details of the walk."""
        streams = rng.streams(self.seed if seed is None else seed, n_chains or self.n_chains)
        walk = self._way(self.path, streams).gone(self.threads, self.executor)
        return walk.log_w + walk.log_z0, walk.bits(), walk.detail

    def down(self, source: str, n_sweeps: int) -> tuple[np.ndarray, bool | None, dict[str, Any]]:
        """Return log w of walks from samples of the machine, whether these are samples, and details."""
        if source == "tempering":
            found = self.scout or self._scout(must=True)
            log_w, facts = self._descend(found.some(self.n_chains), DOWN)
            return log_w, None, facts | {"source": source, "round_trips": found.round_trips}
        samples = rng.derive(self.seed, SAMPLES)
        starts = draw_starts(self.model, self.beta, self.n_chains, source, n_sweeps, samples, self.threads)
        log_w, facts = self._descend(starts.up, DOWN)
        return log_w, starts.converged, facts | starts.detail

    def average(self, log_w: np.ndarray) -> Average:
        """Average the weights of walks, and allow for states and valleys that none of them met, and for rounding.

        All n walks miss a valley of a part 1/n of Z in one case of three.
        """
        step, units = float(np.diff(self.path).max()), weighed_units(self.model, self.walk)
        floors = {
            "unseen": unseen_starts(self.model, self.beta, self.base, len(log_w), step, units),
            "valley": 0.0 if has_one_valley(self.model, self.beta) else 1.0 / len(log_w),
            "rounding": rounding(self.model, self.beta, self.walk),
        }
        return average(log_w, floors=floors)

    def witness_down(self) -> Average | None:
        """Return the average of 1 / w over fewer walks down, from states of the scout; None where it has none."""
        if self.scout is None or self.scout.up is None:
            return None
        log_w, _ = self._descend(self.scout.some(self._n_witnesses), WITNESS)
        return self.average(-log_w).of_groups(self.scout.n_ladders)

    def witness_up(self) -> Average:
        """Return the average of w over fewer walks up."""
        return self.average(self.up(self._n_witnesses, rng.derive(self.seed, WITNESS))[0])

    def seen(self) -> Scout | None:
        """Return what the scout has seen with bounds by mean field, which take a while on large machines."""
        if self.scout is None:
            return None
        seconds = survey_seconds(self.model, self.walk, self.n_chains * len(self.path))
        seed = rng.derive(self.seed, SCOUT)
        return climbed(self.model, self.beta, self.scout, seconds, seed, self.threads, self.before)

    @property
    def _n_witnesses(self) -> int:
        return max(int(WITNESS_PART * self.n_chains), FEWEST_WITNESSES)

    def _descend(self, up: np.ndarray, purpose: int) -> tuple[np.ndarray, dict[str, Any]]:
        streams = rng.streams(rng.derive(self.seed, purpose), len(up))
        walk = self._way(self.path[::-1], streams, up).gone(self.threads, self.executor)
        return walk.log_z0 - walk.log_w, walk.detail

    def _way(self, path: np.ndarray, streams: np.ndarray, starts: np.ndarray | None = None) -> Way:
        return Way(self.model, self.beta, self.base, self.walk, path, streams, starts)

    def _scout(self, must: bool = False) -> Scout:
        work = self.n_chains * len(self.path)
        return survey(self.model, self.beta, self.walk, work, self.seed, self.threads, must)


def survey(
    model: BoltzmannMachine, beta: float, walk: str, n_sweeps: float, seed: int, threads: int, must: bool = False,
    purpose: int = SCOUT,
) -> Scout:  # fmt: skip
    """Scout a machine, for a part of the time that a number of sweeps takes; bounds by mean field are left out."""
    seconds = survey_seconds(model, walk, n_sweeps)
    return scout(model, beta, seconds, rng.derive(seed, purpose), threads, must=must, climb=False)


def survey_seconds(model: BoltzmannMachine, walk: str, n_sweeps: float) -> float:
    """Return how long a survey takes beside so many sweeps."""
    each = model.n_units * attempt_seconds(model)
    if walk == "marginal":
        each = PAIR_SECONDS * n_pairs(model)
    return SCOUT_PART * n_sweeps * each
