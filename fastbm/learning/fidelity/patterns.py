"""How often each pattern of the units was seen, beside what a machine and independent units say of it.

Schneidman, Berry, Segev and Bialek, Nature 440, 1007 (2006), doi:10.1038/nature04701, figure 2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._base import checks, rng, threads as threads_module
from ..._base.arrays import unlike_rows
from ..._base.shown import brief
from ...data import datasets as data_module
from ...inference.likelihood import log_likelihood
from ...machine.checks import check_columns
from ...machine.machine import BoltzmannMachine, check_machine
from ...sampling.exact import draw_exactly

N_CHAINS = 256  # by which rows are drawn
SECONDS = 10.0  # that tables to draw from may take by forecast
FEWEST_DRAWN, MOST_SETS = 1 << 13, 64  # rows, and sets of as many as there are, that tell the noise


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
        The divergence of as many rows drawn from the machine itself, which are independent; NaN where that takes
        too long. Rows that are like those before them, as bins of spikes may be, diverge by more.
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
    beta, n_rows = checks.real("beta", beta, least=0.0), len(up)
    sets = _drawn(model, beta, n_rows, threads)
    drawn = np.concatenate([up, *sets])
    first, which = unlike_rows(drawn)
    whole = drawn[first]
    each = log_likelihood(model, model.convention.values(whole), beta=beta, threads=threads, **options).each
    counts, *of_sets = (np.bincount(part, minlength=len(whole)) for part in which.reshape(1 + len(sets), n_rows))
    noise = np.mean([_divergence(own[own > 0] / n_rows, np.exp(each[own > 0])) for own in of_sets]) if sets else np.nan
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    patterns, counts, machine = whole[order], counts[order], np.exp(each[order])
    data = counts / n_rows
    mean = data @ patterns
    independent = np.where(patterns == 1, mean, 1.0 - mean).prod(axis=1)
    divergences = _divergence(data, machine), _divergence(data, independent)
    shown = model.convention.values(patterns)
    return PatternFrequencies(shown, counts, data, machine, independent, *divergences, float(noise))


def _drawn(model: BoltzmannMachine, beta: float, n_rows: int, threads: int | None) -> list[np.ndarray]:
    """Return sets of as many rows of bits from the machine; none where it cannot be drawn from exactly."""
    # hidden units may be summed over pattern by pattern
    n_sets = 1 if model.n_hidden else min(MOST_SETS, max(1, FEWEST_DRAWN // n_rows))
    n_draws = -(-n_sets * n_rows // N_CHAINS)
    about: dict[str, Any] = {"seed": rng.derive(0, rng.MONITOR), "threads": threads_module.resolve(threads)}
    try:
        packed = draw_exactly(model, beta, (n_draws, N_CHAINS), max_forecast_seconds=SECONDS, **about)
    except ValueError:
        return []
    packed = packed.reshape(n_draws * N_CHAINS, -1)[: n_sets * n_rows]
    up = np.unpackbits(packed, axis=1, count=model.n_visible, bitorder="little")
    return list(up.reshape(n_sets, n_rows, model.n_visible))


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Return the Jensen-Shannon divergence of p, 0 on all that is not listed, from q, whose rest lies there."""
    middle = (p + q) / 2
    there = float((p * np.log(p / middle)).sum() + (q[q > 0] * np.log(q[q > 0] / middle[q > 0])).sum())
    return 0.5 * (there + max(0.0, 1.0 - float(q.sum())) * float(np.log(2.0)))
