"""Walks up and down one path between a product model and a machine, and what stands witness to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _checks, rng
from ..model import BoltzmannMachine
from .annealed_path import PATHS, adapt_path, check_path
from .annealed_starts import draw_starts
from .annealed_weights import Average, average
from .bases import check_start, log_odds
from .election import tried
from .marginal import PAIR_SECONDS, n_pairs
from .scouting import Scout, attempt_seconds, scout
from .walks import check_walk, make_walk

DOWN, SAMPLES, SCOUT, WITNESS = 1, 2, 3, 4  # what seeds are derived by
SCOUT_PART = 0.35  # of what the walks take, for the tempering
WITNESS_PART = 0.5  # of the walks, those that stand witness
FEWEST_WITNESSES = 16


@dataclass(frozen=True)
class Job:
    """A path with its ends, how it is walked, and what was seen before.

    Attributes
    ----------
    start : str
        The name of the product model, `base` its log-odds.
    rival : (str, float) or None
        The best other base of those that were tried, and the lower end of its log Z.
    scout : Scout or None
    told : dict
        For `detail`.
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
    told: dict[str, Any]

    def up(self, n_chains: int | None = None, seed: int | None = None) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Return log w, the final states as bits, and details of the walk."""
        streams = rng.streams(self.seed if seed is None else seed, n_chains or self.n_chains)
        walk = make_walk(self.model, self.beta, self.base, streams, self.threads, self.walk)
        walk.begin()
        walk.follow(self.path)
        walk.finish()
        return walk.log_w + walk.log_z0, walk.bits(), walk.detail

    def down(self, source: str, n_sweeps: int) -> tuple[np.ndarray, bool | None, dict[str, Any]]:
        """Return log w of walks from samples of the machine, whether these are samples, and details."""
        if source == "tempering":
            found = self.scout or self._scout(must=True)
            log_w, told = self._descend(found.some(self.n_chains), DOWN)
            return log_w, None, told | {"source": source, "round_trips": found.round_trips}
        samples = rng.derive(self.seed, SAMPLES)
        starts = draw_starts(self.model, self.beta, self.n_chains, source, n_sweeps, samples, self.threads)
        log_w, told = self._descend(starts.up, DOWN)
        return log_w, starts.converged, told | starts.detail

    def witness_down(self) -> Average | None:
        """The average of 1 / w over fewer walks down, from states of the scout; None where it has none."""
        if self.scout is None or self.scout.up is None:
            return None
        log_w, _ = self._descend(self.scout.some(self._n_witnesses), WITNESS)
        return average(-log_w)

    def witness_up(self) -> Average:
        """The average of w over fewer walks up."""
        return average(self.up(self._n_witnesses, rng.derive(self.seed, WITNESS))[0])

    @property
    def _n_witnesses(self) -> int:
        return max(int(WITNESS_PART * self.n_chains), FEWEST_WITNESSES)

    def _descend(self, up: np.ndarray, purpose: int) -> tuple[np.ndarray, dict[str, Any]]:
        streams = rng.streams(rng.derive(self.seed, purpose), len(up))
        walk = make_walk(self.model, self.beta, self.base, streams, self.threads, self.walk)
        walk.load(up)
        walk.follow(self.path[::-1])
        return walk.log_z0 - walk.log_w, walk.detail

    def _scout(self, must: bool = False) -> Scout:
        work = self.n_chains * len(self.path)
        return look(self.model, self.beta, self.walk, work, self.seed, self.threads, must)


def look(
    model: BoltzmannMachine, beta: float, walk: str, n_sweeps: int, seed: int, threads: int, must: bool = False
) -> Scout:
    """Scout for a part of the time that so many sweeps take."""
    each = model.n_units * attempt_seconds(model)
    if walk == "marginal":
        each = PAIR_SECONDS * n_pairs(model)
    return scout(model, beta, SCOUT_PART * n_sweeps * each, rng.derive(seed, SCOUT), threads, must=must)


def make_job(
    model: BoltzmannMachine, beta: float, n_chains: int, n_betas: int | None, betas: Any, path: str | None, start: Any,
    walk: str | None, seed: int, threads: int, witness: bool, must: bool = False,
) -> Job:  # fmt: skip
    """Check a call, and choose what it leaves open; `must` asks for states of a scout in any case."""
    n_chains = _checks.whole("n_chains", n_chains, least=1)
    if not isinstance(witness, (bool, np.bool_)):
        raise TypeError(f"witness must be True or False; got {witness!r}.")
    steps, kind = check_path(n_betas, betas), check_walk(model, walk)
    check_start(model, start)
    found = None
    must = must or (isinstance(start, str) and start == "tempering")
    if witness or must:
        found = look(model, beta, kind, n_chains * len(steps), seed, threads, must)
    rival, told = None, {}
    if start is None and witness:
        trials = tried(model, beta, kind, len(steps), found, seed, threads)
        start, base = trials[0].name, trials[0].base
        told = {"trials": {one.name: {"log_z": one.log_z, "ess": one.ess} for one in trials}}
        rival = (trials[1].name, trials[1].lower) if len(trials) > 1 else None
    else:
        if start is None:
            start = "uniform" if model.base_rates is None else "data"
        base = log_odds(model, beta, start, found)
    if path is not None and _checks.choice("path", path, PATHS) == "adaptive" and betas is None:
        steps = adapt_path(model, beta, base, len(steps), kind, seed, threads)
    name = start if isinstance(start, str) else "means"
    return Job(model, beta, name, base, steps, kind, n_chains, seed, threads, rival, found, told)
