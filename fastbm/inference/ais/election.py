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
from ..._base.threads import fan_out
from ...machine.machine import BoltzmannMachine
from ..scout.bases import log_odds, names
from ..scout.scout import Scout
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

    def trial(one: tuple[str, np.ndarray, int]) -> Trial:
        name, base, own = one
        chains = make_walk(model, beta, base, rng.streams(own, CHAINS), threads, walk)
        chains.begin()
        chains.follow(path)
        chains.finish()
        seen = average(chains.log_w + chains.log_z0)
        error = math.inf if seen.error is None else seen.error
        return Trial(name, base, seen.log_mean, seen.log_mean - BARS * error, seen.ess)

    return sorted(fan_out(trial, bases.values(), threads), key=lambda one: -one.lower)
