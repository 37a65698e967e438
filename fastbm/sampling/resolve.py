"""What is chosen for a run once, before its first commit: ladder or schedule, kernel, engine of exact samples."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .._base import checks
from ..machine.couplings import Couplings
from ..machine.magnitude import refuse_beyond_range
from .annealing import resolve_schedule
from .arguments import takes_ends, with_ends
from .clamped import Conditioned
from .engine.choice import check_kernel, choose_kernel, natural_kernel
from .exact import choose_engine
from .houdayer import levels_that_pay
from .ladder import energy_profile, equal_steps
from .own_temperatures import hot_beta, own_betas
from .samplers import SAMPLERS
from .settings import SampleSettings

HOTTEST = 0.1  # of the target: where a ladder or a schedule begins at the latest


def resolve(settings: SampleSettings, subject: Conditioned, kernel: str | None, threads: int) -> SampleSettings:
    """Return settings in which nothing is left to choose.

    Raises
    ------
    ValueError
        If the kernel or engine that is asked for, or any engine, cannot take the machine, or its scale is beyond range.
    """
    refuse_beyond_range(subject.model, max((*settings.beta, *settings.betas), default=0.0), odds=math.inf)
    settings = _choose_betas(_choose_ends(settings, subject, threads), subject, threads)
    if settings.cluster:
        _warn_if_idle(settings, subject)
    takes = SAMPLERS[settings.sampler].takes
    if "engine" in takes:
        return replace(settings, engine=choose_engine(settings, subject, threads))
    if "kernel" not in takes:
        return settings
    machine = subject.machine
    biases = machine.flat_bias if subject.bias is None else subject.bias
    betas, per_chain = _of_lanes(settings)
    lanes: dict[str, Any] = {
        "beta": betas, "order": settings.order, "first_chain": settings.first_chain * per_chain,
    }  # fmt: skip
    couplings = machine.couplings
    if kernel is None:
        return replace(settings, kernel=choose_kernel(couplings, biases, machine.convention, **lanes))
    return replace(settings, kernel=check_kernel(kernel, couplings, biases, machine.convention, **lanes))


def _warn_if_idle(settings: SampleSettings, subject: Conditioned) -> None:
    """Warn where cluster moves are asked for and would be made at no temperature."""
    machine = subject.machine
    if not len(levels_that_pay(machine.couplings, machine.convention, np.array(settings.betas))):
        checks.warn(
            "cluster moves are left out at every temperature of this ladder, which ends at "
            f"beta = {settings.beta[0]:g}: where units have more than 4 neighbours clusters percolate below "
            "beta = 1 / J, J being the root mean square coupling of spins.",
            UserWarning,
        )


def of_old_spec(settings: SampleSettings, couplings: Couplings) -> SampleSettings:
    """Return the settings of a spec that names no kernel, as version 0.1 wrote them: it had one for each kind of
    couplings.
    """
    if settings.kernel or "kernel" not in SAMPLERS[settings.sampler].takes:
        return settings
    return replace(settings, kernel=natural_kernel(couplings, settings.order))


def n_lanes(settings: SampleSettings) -> int:
    """Return the number of replicas that are swept: n_chains, or all those of the ladders."""
    return settings.n_chains * (len(settings.betas) if settings.sampler == "tempering" else 1)


def _of_lanes(settings: SampleSettings) -> tuple[np.ndarray, int]:
    """Inverse temperatures of the replicas as they start, and their number for each chain."""
    if settings.sampler == "tempering":
        return np.tile(settings.betas, settings.n_chains), len(settings.betas)
    return settings.by_chain, 1


def _choose_ends(settings: SampleSettings, subject: Conditioned, threads: int) -> SampleSettings:
    """Take from the machine's own fields what was not given: the temperature of a search, and any hot end."""
    s = settings
    if s.beta:
        return with_ends(s, s.beta[0], min(hot_beta(subject), HOTTEST * s.beta[0])) if takes_ends(s) else s
    hot, moving, cold = own_betas(subject, threads)
    beta = cold if takes_ends(s) or SAMPLERS[s.sampler].ends else moving
    if math.isinf(beta):  # all states are alike
        beta = 1.0
    return with_ends(s, beta, min(hot, HOTTEST * beta))


def _choose_betas(settings: SampleSettings, subject: Conditioned, threads: int) -> SampleSettings:
    s = settings
    if s.betas or s.lowest_beta is None:
        return s
    low, high = s.lowest_beta, s.beta[0]
    if s.sampler == "annealing":
        knots = resolve_schedule(
            subject.machine, str(s.schedule), beta_low=low, beta=high, rule=s.rule, seed=s.seed, threads=threads
        )
        return replace(s, betas=tuple(knots))
    profile = energy_profile(subject.machine, low, high, rule=s.rule, seed=s.seed, threads=threads)
    return replace(s, betas=tuple(equal_steps(profile, s.n_betas).tolist()))
