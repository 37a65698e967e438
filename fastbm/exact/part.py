"""What a piece of a sum over states says, and how pieces are put together.

A piece is a mixture component: its weight is its share of Z, and averages of the whole are averages over the pieces.
"""

from __future__ import annotations

import math
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
    """

    log_z: float
    energy: float | None = None
    energy_variance: float | None = None
    up: np.ndarray | None = None
    pairs: np.ndarray | None = None


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
        variance += math.fsum(w * (part.energy - energy) ** 2 for w, part in shares if part.energy is not None)
    return Part(top + math.log(total), energy, variance, _average(shares, "up"), _average(shares, "pairs"))


def _average(shares: list[tuple[float, Part]], name: str) -> Any:
    values = [(w, getattr(part, name)) for w, part in shares]
    if any(value is None for _, value in values):
        return None
    total = values[0][0] * values[0][1]
    for w, value in values[1:]:
        total += w * value
    return total
