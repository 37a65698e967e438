"""What a piece of a sum over states says, and how pieces are put together.

A piece is a mixture component: its weight is its share of Z, and averages of the whole are averages over the pieces.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Part:
    """The sum over some states, and averages over them.

    Attributes
    ----------
    log_z : float
        log sum exp(-beta E), offset included; -inf where nothing is left of the piece.
    energy, energy_variance : float or None
        <E> and <E^2> - <E>^2.
    up : (n_units,) array or None
        P(i up).
    pairs : (n_units, n_units) or (n_pairs,) array or None
        P(i and j up), symmetric with `up` on its diagonal; or of the pairs that the sum names.
    distribution : (2^m,) array or None
        Probabilities of the settings of m chosen units, bit l of the index for the l-th of them.
    lowest : (n_lowest, 2) int64 array or None
        The states of lowest energy, in order: their energies in integer steps, and their numbers, bit i for unit i up.
        A piece of fewer states ends with rows of the largest integer.
    """

    log_z: float
    energy: float | None = None
    energy_variance: float | None = None
    up: np.ndarray | None = None
    pairs: np.ndarray | None = None
    distribution: np.ndarray | None = None
    lowest: np.ndarray | None = None


def combine(parts: Sequence[Part]) -> Part:
    """Put pieces together, in their order; what one of them lacks the whole lacks."""
    log_zs = np.array([part.log_z for part in parts])
    top = float(log_zs.max())
    if not math.isfinite(top) or len(parts) == 1:
        return parts[int(log_zs.argmax())]
    weights = np.exp(log_zs - top)
    total = float(weights.sum())
    shares = [(float(w), part) for w, part in zip(weights / total, parts, strict=True) if w > 0.0]
    energy = _average(shares, "energy")
    variance = _average(shares, "energy_variance")
    if energy is not None and variance is not None:
        energy, variance = float(energy), float(variance)
        gaps = [(w, part.energy - energy) for w, part in shares if part.energy is not None]
        variance = min(variance + sum(w * gap * gap for w, gap in gaps), sys.float_info.max)
    up, pairs, distribution = (_average(shares, name) for name in ("up", "pairs", "distribution"))
    return Part(top + math.log(total), energy, variance, up, pairs, distribution, _join_lowest(parts))


def first_states(rows: np.ndarray, n_lowest: int) -> np.ndarray:
    """Return the first of some states (n, 2), by energy and then by number."""
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))[:n_lowest]]


def _join_lowest(parts: Sequence[Part]) -> np.ndarray | None:
    lists = [part.lowest for part in parts if part.lowest is not None]
    return first_states(np.concatenate(lists), len(lists[0])) if len(lists) == len(parts) else None


def _average(shares: list[tuple[float, Part]], name: str) -> Any:
    values = [(w, getattr(part, name)) for w, part in shares]
    if any(value is None for _, value in values):
        return None
    total = values[0][0] * values[0][1]
    for w, value in values[1:]:
        total += w * value
    return total
