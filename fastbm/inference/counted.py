"""A machine of few states counted, to hold an estimate against: by products of matrices alone, no kernel is compiled.

Of layered machines the states of the smaller side are counted, the other summed out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from .._base import checks
from .._base.threads import single_threaded_blas
from ..machine.machine import BoltzmannMachine
from .result import Inference, claim
from .scout.marginal import Marginal, has_marginal, sides_of
from .verdict import Verdict, judged

MOST_UNITS = 21  # that are counted, or of one side
FEW_UNITS = 14  # the same, in the time of approximations that have no error bar
MOST_OFF = 1.0  # nats that these may be off
MOST_TERMS = 3_000_000  # states of one side times units of the other
LOW_UNITS = 10  # that are counted together
TOGETHER = 1 << 16  # states, or numbers of one side, at once
BARS, BARS_OF_MEANS = 5.0, 6.0  # by which an estimate may be off, and the worst of many
ROUNDING = 1e-8  # of a number, or of 1


class Counted(NamedTuple):
    """log Z, the mean energy, and how often units are up, (n_units,)."""

    log_z: float
    energy: float
    p: np.ndarray


def confront(model: BoltzmannMachine, found: Inference, beta: float) -> Inference:
    """Return an estimate with the verdict of counting, where there are few states; a warning tells what is wrong."""
    if found.converged is False:
        return found
    truth = count(model, beta)
    reason = "" if truth is None else _contradiction(model, found, truth)
    if not reason:
        return found
    return judged(found, Verdict(False, reason), 'This machine is small enough for infer(model, "exact")')


def confront_approximation(model: BoltzmannMachine, found: Inference, beta: float) -> Inference:
    """Return a result that has no error bar and is no bound, not converged where counting few states says it is far."""
    if not found.converged:
        return found
    truth = count(model, beta, FEW_UNITS)
    if truth is None or abs(gap := truth.log_z - found.log_z) <= MOST_OFF + ROUNDING * abs(truth.log_z):
        return found
    reason = f"counting all states gives log Z {truth.log_z:.6g}, {gap:+.3g} from it: the approximation fails here"
    checks.warn(f'{found.method} has not converged: {reason}. Take infer(model, "exact").')
    return replace(found, converged=False, detail=found.detail | {"doubt": reason})


def count(model: BoltzmannMachine, beta: float, most_units: int = MOST_UNITS) -> Counted | None:
    """Count the states of all units, or of the smaller side; None where they are too many."""
    if has_marginal(model):
        kept, summed = sorted(map(len, sides_of(model)))
        if kept > most_units or summed << kept > MOST_TERMS:
            return None
        parts = _of_one_side(model, beta)
    elif model.n_units > most_units:
        return None
    else:
        parts = _of_all_units(model.to_units("spin"), beta)
    with single_threaded_blas(), np.errstate(over="ignore"):
        log_z, energy, p = zip(*parts, strict=True)
    shares = softmax(log_z)
    return Counted(float(logsumexp(log_z)), float(shares @ energy), shares @ np.array(p))


def _bits(first: int, n_states: int, n_units: int) -> np.ndarray:
    """Return the states of these numbers, the unit 0 running fastest, (n_states, n_units)."""
    numbers = np.arange(first, first + n_states)[:, None]
    return (numbers >> np.arange(n_units) & 1).astype(np.float64)


def _of_all_units(spin: BoltzmannMachine, beta: float) -> Iterator[Counted]:
    n, low = spin.n_units, min(spin.n_units, LOW_UNITS)
    weights, bias = spin.couplings.matrix(), spin.flat_bias

    def energies(s: np.ndarray, units: slice) -> np.ndarray:
        return -0.5 * np.sum(s @ weights[units, units] * s, axis=1) - s @ bias[units]

    lower = 2.0 * _bits(0, 1 << low, low) - 1.0
    inner = energies(lower, slice(low)) + spin.offset
    step = TOGETHER >> low
    for first in range(0, 1 << (n - low), step):
        upper = 2.0 * _bits(first, min(step, (1 << (n - low)) - first), n - low) - 1.0
        both = upper @ -(weights[low:, :low] @ lower.T)
        both += inner
        both += energies(upper, slice(low, n))[:, None]
        shares, log_z = _shares(-beta * both)
        means = np.concatenate([shares.sum(axis=0) @ lower, shares.sum(axis=1) @ upper])
        yield Counted(log_z, float(np.vdot(shares, both)), 0.5 * (1.0 + means))


def _of_one_side(model: BoltzmannMachine, beta: float) -> Iterator[Counted]:
    plain = Marginal.of(model, 1.0)
    n_kept, step = len(plain.kept), max(TOGETHER // len(plain.summed), 1)
    for first in range(0, 1 << n_kept, step):
        up = _bits(first, min(step, (1 << n_kept) - first), n_kept)
        fields = plain.fields(up)
        odds = beta * fields
        p = np.exp(-np.abs(odds))  # of the less likely way, over the other
        own = plain.constant + up @ plain.bias[plain.kept]
        shares, log_z = _shares(beta * own + np.sum(np.maximum(odds, 0.0) + np.log1p(p), axis=1))
        p = np.where(odds > 0.0, 1.0, p) / (1.0 + p)
        energies = -own - np.einsum("ij,ij->i", p, fields)
        means = np.empty(model.n_units)
        means[plain.kept], means[plain.summed] = shares @ up, shares @ p
        yield Counted(log_z, float(shares @ energies), means)


def _shares(log_f: np.ndarray) -> tuple[np.ndarray, float]:
    """Return weights normalised to a sum of 1, in place of their logarithms, and the logarithm of their sum."""
    top = float(log_f.max())
    log_f -= top
    shares = np.exp(log_f, out=log_f)
    total = float(shares.sum())
    shares /= total
    return shares, top + math.log(total)


def _contradiction(model: BoltzmannMachine, found: Inference, truth: Counted) -> str:
    """Return how an estimate is off by more than its error bars, as text; empty where it is not."""
    log_z, error = claim(found)
    if log_z is not None and error is not None and _off(log_z, truth.log_z, error):
        return f"counting all states gives log Z {truth.log_z:.6g}, {truth.log_z - log_z:+.3g} from it"
    energy, error = found.energy, found.energy_error
    if energy is not None and error is not None and _off(energy, truth.energy, error):
        return f"counting all states gives an energy of {truth.energy:.6g}, {truth.energy - energy:+.3g} from it"
    if found.mean is None or found.mean_error is None:
        return ""
    units = model.convention
    mean = units.lo + units.span * truth.p
    far = np.abs(found.mean - mean) - BARS_OF_MEANS * np.asarray(found.mean_error)
    worst = int(np.argmax(far))
    if far[worst] > ROUNDING:
        return f"counting all states gives unit {worst} a mean of {mean[worst]:.4g}, not {found.mean[worst]:.4g}"
    return ""


def _off(value: float, truth: float, error: float) -> bool:
    return not math.isfinite(value) or abs(value - truth) > BARS * error + ROUNDING * max(abs(truth), 1.0)
