"""The mean log Z of a machine whose visible units are held at rows of data."""

from __future__ import annotations

import numpy as np

from ..inference.hidden import has_free_energy
from ..model import BoltzmannMachine
from ..rows import Rows
from .bounds import sums_of_rows
from .distinct import distinct
from .gaps import values_of


def mean_log_sum(
    model: BoltzmannMachine,
    rows: Rows,
    beta: float,
    threads: int,
    weights: np.ndarray | None = None,
    kind: str = "log_likelihood",
) -> float:
    """Average over rows, by weight; a part of the rows at a time. What a row lacks is summed out. `kind` as for
    `bounds.sums_of_rows`.
    """
    if not has_free_energy(model) or not rows.complete:  # each distinct row takes a sum of its own
        rows, weights = distinct(rows, weights)
    total = 0.0
    for some in rows.blocks():
        sums = sums_of_rows(model, values_of(model.convention, rows, some), beta, threads, kind)
        total += float(sums.sum() if weights is None else sums @ weights[some])
    return total / (len(rows) if weights is None else float(weights.sum()))
