"""The verdict on chains that were made for moments: whether they agree in energies, units and pairs of units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import diagnostics
from .._base import checks
from ..diagnostics.bits import FALSE_ALARM, beyond_chance, r_hat_limit
from ..diagnostics.drift import drifts
from ..machine.machine import BoltzmannMachine
from ..sampling import valleys
from .chain_counts import PairHalves
from .target_moments import OfUnits

FEWEST_SAMPLES, FEWEST = 32, 256  # of a chain and in all, of which fewer leave error bars themselves uncertain


@dataclass(frozen=True)
class ChainVerdict:
    """`converged` is None, with the `reason`, where chains agree but may all have missed a valley, or are short."""

    converged: bool | None
    r_hat: float
    reason: str


def judge_chains(
    model: BoltzmannMachine,
    beta: float,
    energies: np.ndarray,
    r_hat: float,
    units: OfUnits,
    n_blocks: int,
    errors: np.ndarray,
    pairs: PairHalves | None,
    *,
    one_point: bool,
    frozen: bool,
    doubt: str,
) -> ChainVerdict:
    """Judge chains by their energies and the fractions of time that units are up.

    Energies are (n_samples, n_chains), and of that `r_hat`; the fractions, told from so many blocks of samples, have
    the standard `errors`.

    The means of an even machine are known, and those of the chains must be so within their errors. `doubt` says why
    chains that agree may never reach some states.
    """
    r_hat = math.inf if frozen else _r_hat(energies, r_hat, units, n_blocks, pairs)
    if frozen:
        return ChainVerdict(False, r_hat, "the only chain did not move after the burn-in")
    if not r_hat <= diagnostics.R_HAT_LIMIT:
        return ChainVerdict(
            False,
            r_hat,
            f"r_hat = {r_hat:.3g} (above {diagnostics.R_HAT_LIMIT}); the chains disagree and the error bars are too "
            "small",
        )
    if reason := _contradiction(model, beta, energies, units.p, errors):
        return ChainVerdict(False, r_hat, reason)
    reason = doubt or valleys.why_unseen(model, beta, energies.shape[1], one_point=one_point)
    if not reason and (len(energies) < FEWEST_SAMPLES or energies.size < FEWEST):
        reason = (
            f"{energies.size} samples, {len(energies)} of a chain, are too few for error bars to be trusted: "
            f"raise n_sweeps, to {FEWEST_SAMPLES} samples of a chain and {FEWEST} in all"
        )
    return ChainVerdict(None if reason else True, r_hat, reason)


def _r_hat(energies: np.ndarray, r_hat: float, units: OfUnits, n_blocks: int, pairs: PairHalves | None) -> float:
    """Return the largest R-hat of the energy, the units and the pairs; infinite where samples are too few to tell."""
    if len(energies) < 4:
        return math.inf
    known = [r_hat]
    if n_blocks >= 4:
        limit = r_hat_limit(n_blocks // 2, *units.of_chains.shape, worth=1.0)
        known.append(beyond_chance(units.r_hat, limit))
    if pairs is not None:
        known.append(pairs.r_hat())
    return max(known)


def _contradiction(
    model: BoltzmannMachine, beta: float, energies: np.ndarray, p: np.ndarray, errors: np.ndarray
) -> str:
    """Return what contradicts chains that agree: a mean that is known, or a drift; empty where nothing does."""
    from scipy.special import stdtrit

    n_chains = energies.shape[1]
    if n_chains >= diagnostics.MANY_CHAINS and len(energies) >= 32 and drifts(energies):
        return "the energies of the first part of the run differ from the rest: the chains still relax"
    if not valleys.is_even(model, beta):
        return ""
    z = np.abs(p - 0.5) / errors
    widest = -float(stdtrit(max(n_chains - 1, 3), FALSE_ALARM / (2 * model.n_units)))
    if z.max() <= widest:
        return ""
    return (
        f"without biases the means of spins are 0, and that of unit {int(z.argmax())} is {z.max():.3g} error bars off: "
        "the chains stay on one side"
    )


def warn_of_chains(rule: str, verdict: ChainVerdict, *, frozen: bool) -> None:
    """Warn why chains have not converged, with the ways out."""
    if verdict.converged is not False:
        return
    way_out = "Pass n_chains above 1" if frozen else "Run longer"
    checks.warn(f'{rule} has not converged: {verdict.reason}. {way_out}, or compare with "ais".')
