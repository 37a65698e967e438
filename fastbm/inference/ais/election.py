"""The choice of the product model that walks begin at by default: every base is tried shortly, with chains of its own.

The one with the highest lower end of log Z is taken: weights that are even neither elect a base nor exclude it, as the
chains of a base that leads into one valley all agree. The trials' chains are not used again: the largest of several
estimates is too high.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._base import rng
from ..._base.threads import take_turns
from ...machine.machine import BoltzmannMachine
from ..scout.bases import log_odds, names
from ..scout.scout import Scout
from .walk import Walk
from .walks import make_walk
from .weights import average

CHAINS, PART, FEWEST = 16, 10, 20  # of a trial: chains, a part of the steps, and steps at least
BARS = 2.0  # of its error, between an estimate and its lower end


class Trial(NamedTuple):
    """A base that was tried: its log-odds, the estimate of log Z, and a lower bound of that."""

    name: str
    base: np.ndarray
    log_z: float
    lower: float
    ess: float


def tried(
    model: BoltzmannMachine, beta: float, walk: str, n_betas: int, found: Scout | None, seed: int, threads: int
) -> list[Trial]:
    """Try every base of the machine; return the trials, the best first."""
    path = np.linspace(0.0, 1.0, max(n_betas // PART, FEWEST))
    bases: dict[bytes, tuple[str, np.ndarray, int]] = {}
    for k, name in enumerate(names(model, found)):
        base = log_odds(model, beta, name, found)
        bases.setdefault(base.tobytes(), (name, base, rng.derive(seed, rng.PILOT, k)))

    tries, walks = list(bases.values()), dict[int, Walk]()

    def go(first: int, last: int, k: int) -> None:
        if not first:
            _, base, own = tries[k]
            walks[k] = make_walk(model, beta, base, rng.streams(own, CHAINS), threads, walk)
            walks[k].begin()
        walks[k].follow(path[first : last + 1])
        if last == len(path) - 1:
            walks[k].finish()

    team = min(threads, len(tries))  # whose members all have as much to do
    take_turns(go, len(tries), len(path) - 1, team // math.gcd(team, len(tries)), team)
    trials = []
    for k, (name, base, _) in enumerate(tries):
        seen = average(walks[k].log_w + walks[k].log_z0)
        error = math.inf if seen.error is None else seen.error
        trials.append(Trial(name, base, seen.log_mean, seen.log_mean - BARS * error, seen.ess))
    return sorted(trials, key=lambda one: -one.lower)
