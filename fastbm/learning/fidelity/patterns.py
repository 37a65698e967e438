"""How often each pattern of the units was seen, beside what a machine and independent units say of it.

Schneidman, Berry, Segev and Bialek, Nature 440, 1007 (2006), doi:10.1038/nature04701, figure 2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._base import checks
from ..._base.shown import brief
from ...data import datasets as data_module
from ...inference.likelihood import log_likelihood
from ...machine.checks import check_columns
from ...machine.machine import BoltzmannMachine, check_machine


class PatternFrequencies(NamedTuple):
    """Patterns that were seen, the most frequent first, and their probabilities.

    Attributes
    ----------
    patterns : (n_patterns, n_visible) int8 array
        In the machine's units.
    counts : (n_patterns,) int64 array
        How many rows show each.
    data, machine, independent : (n_patterns,) array
        Its frequency among the rows, and its probability by the machine and by units on their own, whose means are the
        data's.
    divergence, independent_divergence : float
        Jensen-Shannon divergence of the data from the machine, and from independent units, in nats: from 0 to log 2.
        All patterns count, those that were not seen as well. Some of it is noise of the rows: see `noise`.
    noise : float
        The divergence expected of as many rows drawn from the distribution of the data itself, (n_patterns - 1) / (8
        n_rows), for patterns that are seen often.
    """

    patterns: np.ndarray
    counts: np.ndarray
    data: np.ndarray
    machine: np.ndarray
    independent: np.ndarray
    divergence: float
    independent_divergence: float
    noise: float

    def __repr__(self) -> str:
        return brief(self)


def pattern_frequencies(
    model: BoltzmannMachine, rows: Any, *, beta: float = 1.0, threads: int | None = None, **options: Any
) -> PatternFrequencies:
    """Compare how often patterns were seen with their probabilities.

    Parameters
    ----------
    model : BoltzmannMachine
        Its visible units are those of the rows.
    rows : (n_rows, n_visible) array
        In the machine's units; best held out.
    beta : float
    threads : int, optional
    **options
        As for `log_likelihood`: how log Z is computed, exactly unless told ("method", ...).

    Returns
    -------
    PatternFrequencies

    Raises
    ------
    ValueError, TypeError
        For rows that do not fit the machine, have missing entries, or a log Z that takes too long.

    References
    ----------
    Schneidman, Berry, Segev and Bialek, Nature 440, 1007 (2006), doi:10.1038/nature04701. Lin, IEEE Trans. Inf. Theory
    37, 145 (1991), doi:10.1109/18.61115 (the divergence).

    Examples
    --------
    >>> import fastbm as bm
    >>> model = bm.BoltzmannMachine([[0.0, 0.5], [0.5, 0.0]], units="spin")
    >>> found = bm.pattern_frequencies(model, [[1, 1], [1, 1], [-1, -1], [1, -1]])
    >>> found.data, found.machine.round(3)
    (array([0.5 , 0.25, 0.25]), array([0.366, 0.366, 0.134]))
    """
    check_machine(model)
    given = data_module.check_rows(check_columns("rows", rows, model.names), "rows")
    up = model.check_states(given, argument="rows", n_units=model.n_visible)
    patterns, counts = np.unique(up, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    patterns, counts = patterns[order], counts[order].astype(np.int64)
    n_rows = int(counts.sum())
    shown = model.convention.values(patterns)
    each = log_likelihood(model, shown, beta=checks.real("beta", beta, least=0.0), threads=threads, **options).each
    data, machine = counts / n_rows, np.exp(each)
    mean = data @ patterns
    independent = np.where(patterns == 1, mean, 1.0 - mean).prod(axis=1)
    noise = (len(counts) - 1) / (8.0 * n_rows)
    divergences = _divergence(data, machine), _divergence(data, independent)
    return PatternFrequencies(shown, counts, data, machine, independent, *divergences, noise)


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Return the Jensen-Shannon divergence of p, 0 on all that is not listed, from q, whose rest lies there."""
    middle = (p + q) / 2
    there = float((p * np.log(p / middle)).sum() + (q[q > 0] * np.log(q[q > 0] / middle[q > 0])).sum())
    return 0.5 * (there + max(0.0, 1.0 - float(q.sum())) * float(np.log(2.0)))
