"""The clamped phase of many rows, a part of them at a time, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..model import BoltzmannMachine
from ..rows import Rows
from .gaps import values_of
from .moments import PhaseMoments
from .phase import Phase

PART_NUMBERS = 1 << 21  # values of units of a part


def parts_of(rows: Rows, n_units: int, chosen: np.ndarray | None = None) -> list[slice | np.ndarray]:
    """All rows in slices, or those `chosen` in pieces, that fill at most `PART_NUMBERS` numbers of `n_units` a row."""
    step = max(PART_NUMBERS // n_units, 1)
    if chosen is None:
        return list(rows.blocks(step * rows.n_units))
    return [chosen[first : first + step] for first in range(0, len(chosen), step)]


def clamped_moments(
    phase: Phase,
    model: BoltzmannMachine,
    rows: Rows,
    parts: Iterable[slice | np.ndarray],
    dtype: type,
    shares: np.ndarray | None = None,
) -> PhaseMoments:
    """Average over the rows in all parts, which count alike or by their `shares`."""
    found: PhaseMoments | None = None
    total = 0.0
    for some in parts:
        phase.row_weights = here = None if shares is None else shares[some]
        values = values_of(model.convention, rows, some, dtype)
        part, weight = phase.moments(model, values), float(len(values) if here is None else here.sum())
        found = part if found is None else _joined(found, part, total, weight)
        total += weight
    assert found is not None
    return found


def _joined(first: PhaseMoments, second: PhaseMoments, of_first: float, of_second: float) -> PhaseMoments:
    a = of_first / (of_first + of_second)
    b = 1.0 - a
    log_z = None if first.log_z is None or second.log_z is None else a * first.log_z + b * second.log_z
    pairs = tuple(a * one + b * other for one, other in zip(first.pairs, second.pairs, strict=True))
    return PhaseMoments(a * first.mean + b * second.mean, pairs, log_z)
