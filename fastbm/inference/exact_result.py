"""From what a sum over states says to a result: moments in the machine's units, full or on some pairs only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..clamping import Clamped
from ..exact.choosing import MOST_UNITS
from ..exact.part import Part
from ..exact.plan import Sum
from ..model import BoltzmannMachine
from .result import Inference, expand, moments_from_up

Pairs = str | np.ndarray | None


def inference_of(model: BoltzmannMachine, part: Part, beta: float, detail: dict[str, Any]) -> Inference:
    """The result for `model`; second moments only where the part has a full matrix."""
    found: dict[str, Any] = {}
    if part.energy is not None:
        found = {"energy": part.energy, "energy_error": 0.0, "entropy": part.log_z + beta * part.energy}
    if part.pairs is not None and part.pairs.ndim == 2:
        found |= moments_from_up(model.convention, part.pairs)
    elif part.up is not None:
        found["mean"] = model.convention.lo + model.convention.span * part.up
    if part.up is not None:
        found["mean_error"] = np.zeros(model.n_units)
    return Inference(
        "exact",
        log_z=part.log_z,
        log_z_error=0.0,
        bound="exact",
        energy_variance=part.energy_variance,
        n_samples=1 << model.n_units if model.n_units <= MOST_UNITS else None,
        detail=detail,
        **found,
    )


def detail_of(planned: Sum, why: str, seconds: float) -> dict[str, Any]:
    """What a result says of how it was made."""
    return {"engine": planned.name, "why": why, "forecast seconds": seconds, **planned.detail}


def lists_of(planned: Sum, part: Part, clamped: Clamped | None, pattern: int) -> dict[str, Any]:
    """What `detail` holds of states and distributions, which only the Gray code gives."""
    if part.lowest is None and part.distribution is None:
        return {}
    found: dict[str, Any] = getattr(planned, "found")(part)  # noqa: B009 (no other engine has it)
    if clamped is not None and "lowest states" in found:
        found["lowest states"] = clamped.full_states(pattern, found["lowest states"])
    return found


def only_state(clamped: Clamped, pattern: int) -> dict[str, Any]:
    """The list of lowest states where all units are clamped."""
    states = clamped.full_states(pattern, np.empty((1, 0), np.int8))
    return {"lowest energies": clamped.offset[pattern : pattern + 1].copy(), "lowest states": states}


def in_whole(
    found: Inference,
    machine: BoltzmannMachine,
    part: Part,
    named: np.ndarray | None,
    whole: BoltzmannMachine,
    clamped: Clamped | None,
    pattern: int,
    chosen: Pairs,
) -> Inference:
    """The result for the whole machine, of which `machine` is what is free; `named` are the pairs in `part`."""
    n = machine.n_units
    if part.up is None or part.pairs is None or named is None:
        return found if clamped is None else expand(found, clamped, pattern)
    if len(named) == n * (n - 1) // 2:
        up = np.diag(part.up)
        up[named[:, 0], named[:, 1]] = up[named[:, 1], named[:, 0]] = part.pairs
        full: dict[str, Any] = dict(moments_from_up(machine.convention, up))
        found = replace(found, **full)
        return found if clamped is None else expand(found, clamped, pattern)
    i, j = named.T
    mean = np.asarray(found.mean)
    covariance = machine.convention.span**2 * (part.pairs - part.up[i] * part.up[j])
    variance = machine.convention.span**2 * part.up * (1.0 - part.up)
    if clamped is not None:
        found = expand(found, clamped, pattern)
        mean, free = np.asarray(found.mean), clamped.free
        held = _held_pairs(whole, clamped, chosen)
        i, j = np.concatenate([free[named], held]).T
        covariance = np.concatenate([covariance, np.zeros(len(held))])
        free_variance, variance = variance, np.zeros(whole.n_units)
        variance[free] = free_variance
    second = covariance + mean[i] * mean[j]
    return replace(
        found,
        second_moment=_symmetric(i, j, second, variance + mean**2),
        covariance=_symmetric(i, j, covariance, variance),
    )


def _held_pairs(whole: BoltzmannMachine, clamped: Clamped, chosen: Pairs) -> np.ndarray:
    """Coupled and chosen pairs of which at least one unit is clamped."""
    indptr, indices, _ = whole.couplings.csr()
    rows = np.repeat(np.arange(whole.n_units), np.diff(indptr))
    pairs = np.stack([rows, indices], axis=1)[rows < indices]
    if isinstance(chosen, np.ndarray):
        pairs = np.unique(np.concatenate([pairs, chosen]), axis=0)
    return pairs[np.isin(pairs, clamped.indices).any(axis=1)]


def _symmetric(i: np.ndarray, j: np.ndarray, values: np.ndarray, diagonal: np.ndarray) -> Any:
    """A scipy.sparse.csr_array of the pairs, both ways round, and the diagonal."""
    from scipy.sparse import csr_array

    n = len(diagonal)
    own = np.arange(n)
    rows, columns = np.concatenate([i, j, own]), np.concatenate([j, i, own])
    whole = csr_array((np.concatenate([values, values, diagonal]), (rows, columns)), shape=(n, n))
    whole.sort_indices()
    return whole
