"""Choices that are made for a run once, before its first commit: temperatures, then ladder, kernel or engine."""

from __future__ import annotations

import math
from dataclasses import replace

from ..machine.couplings import Couplings
from ..machine.magnitude import refuse_beyond_range
from .annealing import Annealing
from .clamped import Conditioned
from .own_temperatures import hot_beta, own_betas
from .settings import Cooled, SampleSettings, SingleUnit

HOTTEST = 0.1  # of the target: where a ladder or a schedule begins at the latest


def resolve(settings: SampleSettings, subject: Conditioned, threads: int) -> SampleSettings:
    """Return settings in which nothing is left to choose.

    Raises
    ------
    ValueError
        If the kernel or engine that is asked for, or any engine, cannot take the machine, or its scale is beyond range.
    """
    betas = settings.own.betas if isinstance(settings.own, Cooled) else ()
    refuse_beyond_range(subject.model, max((*settings.beta, *betas), default=0.0), odds=math.inf)
    settings = _choose_ends(settings, subject, threads)
    return settings.own.resolve(settings, subject, threads)


def of_old_spec(settings: SampleSettings, couplings: Couplings) -> SampleSettings:
    """Return the settings of a spec that names no kernel, as version 0.1 wrote them.

    That version had one kernel for each kind of couplings.
    """
    own = settings.own
    return replace(settings, own=own.of_old_spec(couplings)) if isinstance(own, SingleUnit) else settings


def _choose_ends(s: SampleSettings, subject: Conditioned, threads: int) -> SampleSettings:
    """Fill in inverse temperatures that were not given, of a search and any hot end, from the machine's own fields."""
    cooled = isinstance(s.own, Cooled) and not s.own.betas
    anneals = cooled and isinstance(s.own, Annealing)
    if s.beta and (not cooled or getattr(s.own, "lowest_beta", None) is not None):
        return _with_ends(s, s.beta[0], 0.0)
    if s.beta and not anneals:
        return _with_ends(s, s.beta[0], min(hot_beta(subject), HOTTEST * s.beta[0]))
    own = own_betas(subject, threads)
    hot, cold = (own.first, own.last) if anneals else (own.hot, own.cold)
    beta = s.beta[0] if s.beta else cold if cooled or s.own.ends else own.moving
    if math.isinf(beta):  # all states are alike
        beta = 1.0
    return _with_ends(s, beta, min(hot, HOTTEST * beta))


def _with_ends(settings: SampleSettings, beta: float, lowest_beta: float) -> SampleSettings:
    """Fill in the ends that are not given, and check both."""
    given = bool(settings.beta)
    if not given:
        settings = replace(settings, beta=(beta,))
    own = settings.own
    if not isinstance(own, Cooled) or own.betas:
        return settings
    if own.lowest_beta is None:
        settings = settings.with_own(lowest_beta=lowest_beta)
    _check_ends(settings, "" if given else ", which the machine's fields suggest: give another one")
    return settings


def _check_ends(s: SampleSettings, whose: str) -> None:
    own = s.own
    assert isinstance(own, Cooled)
    low, high = float(own.lowest_beta or 0.0), s.beta[0]
    if not high:
        raise ValueError(f"beta must be above 0 for sampler={s.sampler!r}, which cools down to it; got 0.")
    if low >= high:
        raise ValueError(f"lowest_beta must be below beta, the target; got {low:g} and {high:g}{whose}.")
    if isinstance(own, Annealing) and own.schedule == "geometric" and not low:
        raise ValueError('lowest_beta must be above 0 for schedule="geometric"; "linear" and "adaptive" take 0.')
