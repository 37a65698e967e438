"""Ladders of inverse temperatures from 0, where log Z is known, to the target: given ones checked, others made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._base import checks
from ...machine.machine import BoltzmannMachine
from ...sampling.ladder import energy_profile, equal_steps


def check_ladder(betas: Any, beta: float) -> np.ndarray:
    """Check a ladder: strictly increasing from exactly 0 to `beta`."""
    ladder = checks.finite_array("betas", betas)
    if ladder.ndim != 1 or not ladder.size:
        raise ValueError(f"betas must list inverse temperatures; got shape {ladder.shape}.")
    wrong = np.flatnonzero(np.diff(ladder) <= 0)
    if wrong.size:
        j = int(wrong[0]) + 1
        hint = " Turn it round: betas[::-1]." if (np.diff(ladder) < 0).all() else ""
        raise ValueError(
            f"betas must increase, the hottest first and the target last; got {ladder[j]:g} at {j} after "
            f"{ladder[j - 1]:g}.{hint}"
        )
    if ladder[0] != 0.0:
        raise ValueError(
            f"betas must begin at 0.0, the one temperature at which log Z is known; the first is {ladder[0]:g}. Put "
            '0.0 in front; for moments alone use fastbm.sample(model, sampler="tempering").'
        )
    if ladder[-1] != beta:
        raise ValueError(
            f"betas must end at beta, the target: the last is {ladder[-1]:g} and beta is {beta:g}. Pass "
            f"beta={ladder[-1]:g}, or another ladder."
        )
    return ladder


def make_ladder(
    model: BoltzmannMachine,
    beta: float,
    betas: Any,
    n_betas: Any,
    *,
    in_words: bool = False,
    seed: int,
    threads: int,
) -> np.ndarray:
    """Return the ladder that is given, or one of equal thermodynamic length from a pilot run, as `energy_profile`."""
    if betas is not None:
        if n_betas is not None:
            raise ValueError("betas say all that n_betas would: leave one of them out.")
        return check_ladder(betas, beta)
    n_betas = None if n_betas is None else checks.whole("n_betas", n_betas, least=2)
    if beta == 0.0:
        return np.zeros(1)
    return equal_steps(energy_profile(model, 0.0, beta, in_words=in_words, seed=seed, threads=threads), n_betas)


def free_log_z(model: BoltzmannMachine) -> float:
    """Return log Z at beta = 0."""
    return model.n_units * math.log(2.0)
