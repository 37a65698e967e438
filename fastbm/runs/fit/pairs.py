"""What pairs explain of how units depend on one another: I_2 / I_N, with errors from contiguous blocks of rows.

Schneidman, Still, Berry and Bialek, Phys. Rev. Lett. 91, 238701 (2003), doi:10.1103/PhysRevLett.91.238701; Schneidman,
Berry, Segev and Bialek, Nature 440, 1007 (2006), doi:10.1038/nature04701. Entropies are corrected as by Miller (1955):
half a nat for each parameter over the number of independent rows. What that leaves is measured on rows of the pairwise
machine itself, whose entropy is known, and taken off: a parametric bootstrap (Efron, Ann. Stat. 7, 1 (1979),
doi:10.1214/aos/1176344552). Blocks of rows: Künsch, Ann. Stat. 17, 1217 (1989), doi:10.1214/aos/1176347265.
"""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._base import checks, rng, threads as threads_module
from ..._base.arrays import unlike_rows
from ..._base.shown import brief
from ..._base.threads import single_threaded_blas
from ..._base.workers import Pieces, before_anything, check_executor
from ...data import datasets
from ...data.packing import gather
from ...data.rows import Rows
from ...learning.errors.blocks import FEWEST_BLOCKS, Together
from ...machine.machine import BoltzmannMachine
from ...sampling.exact import draw_exactly
from .verb import fit

MOST_UNITS = 20  # whose patterns can be counted, and whose pairwise machine summed
FEWEST_ROWS = 100
MOST_SETS = 20  # of rows of the pairwise machine
SEVERAL = 10  # blocks that tell how a pattern scatters between them
LEFT = (0.25, 0.5)  # of a bias that is taken off, one standard error: of independent rows, and of some worth few
MOST_BIAS = 0.2  # of the ratio that is not told of
NOTHING = "the units do not depend on one another beyond the noise: there is nothing to explain."
L2 = 1e-9  # which keeps couplings finite that the data leave open, and costs the likelihood nothing


class PairInformation(NamedTuple):
    """Entropies in nats a row, and what pairs explain; what they are off by with so many rows is taken off.

    Each error is one standard error: the root, in squares, of what resamples tell, of the noise with which the bias was
    measured, and of a quarter of it, which truths beyond pairs may leave (up to half where rows are like those before).

    Attributes
    ----------
    independent, pairwise, data : float
        Entropy of units on their own, of the pairwise maximum-entropy machine, and of the patterns of the data.
    i_n, i_n_error : float
        Multi-information I_N = S_independent - S_data.
    i_2, i_2_error : float
        I_2 = S_independent - S_pairwise, the part that pairs make.
    ratio, ratio_error : float
        I_2 / I_N; the error is inf where units of a resample do not depend on one another.
    block : int
        Rows of the contiguous blocks that were drawn; 0 where trials were.
    bias : float
        What was taken off the ratio: without that it is ratio + bias.
    """

    independent: float
    pairwise: float
    data: float
    i_n: float
    i_n_error: float
    i_2: float
    i_2_error: float
    ratio: float
    ratio_error: float
    block: int
    bias: float

    def __repr__(self) -> str:
        return brief(self)


def pair_information(
    data: Any,
    *,
    block: int | str = "auto",
    trials: Any = None,
    n_resamples: int = 100,
    seed: int | None = 0,
    threads: int | None = None,
    executor: Executor | None = None,
) -> PairInformation:
    """Compute how much of the dependence between units pairs explain.

    Parameters
    ----------
    data : (n_rows, n_units) array, or str
        0 and 1, or -1 and 1, in the order of time; at most 20 units. Or the name of a dataset, as for `fit`.
    block : int or "auto"
        Rows that stay together in a resample: neighbours in time are not independent. "auto" takes ten
        autocorrelation times of the slowest of units, the number of units up, and leading principal axes.
    trials : (n_rows,) array, optional
        The trial of each row, as `bm.data.from_spike_times` gives it: whole trials are drawn, in place of
        blocks, so that longer ones weigh more.
    n_resamples : int
        From which the errors come; at least 2.
    seed : int or None
    threads : int, optional
    executor : concurrent.futures.Executor, optional
        Does the resamples, each on one thread; the errors are those without, bit for bit.

    Returns
    -------
    PairInformation

    Raises
    ------
    ValueError
        If there are more than 20 units or fewer than 2, fewer than 100 rows or 20 trials, missing entries, or no
        dependence beyond what so many rows of independent units would show.

    Warns
    -----
    ConvergenceWarning
        If the bias of the ratio is more than 0.2.

    Notes
    -----
    The entropy of the data is biased where patterns are many for the rows, and I_2 / I_N is then too low: rows drawn
    from a pairwise machine of 10 units, of which it is 1, give 0.95 for 2,000 of them and 0.997 for 20,000; of units
    that are up in a few per cent of the rows 0.6 for 2,000 and 0.8 for 10,000. By how much is measured on as many rows,
    up to 20 times, of the pairwise machine that was fitted, and taken off entropies, informations and ratio alike. That
    is itself off by up to a quarter where there is more than pairs. Rows that are like those before them count for as
    many as they are worth by how units, pairs, and patterns scatter between blocks or trials (Rao and Scott's mean
    design effect), but with ``block=1``; rare patterns are then known better than that, and up to half of what is taken
    off is too much.

    Examples
    --------
    >>> import fastbm as bm
    >>> model = bm.models.curie_weiss(5, coupling=1.5)
    >>> rows = bm.sample(model, "exact", n_sweeps=40, n_chains=100).states.reshape(-1, 5)
    >>> found = bm.pair_information(rows, n_resamples=20)
    >>> abs(found.ratio - 1) < 4 * found.ratio_error + 0.02
    True
    """
    check_executor(executor)
    up = _bits(data)
    rows = Rows.of(up)
    together = Together.of(block, trials, rows)
    n_resamples = checks.whole("n_resamples", n_resamples, least=2)
    first, code = unlike_rows(up)
    patterns = up[first]
    worth = _worth(up, code, together)
    whole, machine = _entropies(patterns, np.bincount(code, minlength=len(patterns)), worth, threads)
    if machine is None or whole[0] - whole[2] <= 0.0:
        raise ValueError(NOTHING)
    resampled = _Resampled(patterns, code, together, rng.resolve(seed), n_resamples, worth, machine)
    n_pieces = n_resamples + min(n_resamples, MOST_SETS)
    if executor is None:
        found = np.array([_of_piece(resampled, k, threads) for k in range(n_pieces)])
    else:
        pieces = Pieces(executor, _of_piece, resampled, n_pieces)
        with before_anything():
            found = np.array([pieces.take() for _ in range(n_pieces)])
    own, sets = found[:n_resamples], found[n_resamples:]
    n_varied = machine.n_units
    half = 0.5 * n_varied * np.array([1.0, 0.5 * (n_varied + 1)]) / worth[:2]
    independent, pairwise = whole[:2] - half  # of the machine, without correction
    entropies = np.array(whole) - sets.mean(axis=0) + [independent, pairwise, pairwise]
    told, informations = _with_ratio(np.array(whole)), _with_ratio(entropies)
    if informations[0] <= 0.0:
        raise ValueError(NOTHING)
    bias = told - informations
    if abs(bias[2]) > MOST_BIAS:
        checks.warn(
            f"{len(code)} rows, worth {worth[2]}, are too few for the entropy of their patterns: the ratio is "
            f"{told[2]:.3g} with the bias that rows of the pairwise machine show, and {informations[2]:.3g} without. "
            "Its error holds what may be left of that. Take more rows or fewer units."
        )
    left = np.interp(worth[2] / len(code), [0.0, 1.0], LEFT[::-1])
    spread, noise = (_variances(one, informations) for one in (own, sets))
    errors = np.sqrt(spread + noise / len(sets) + (left * bias) ** 2)
    if (_informations(own)[0] <= 0.0).any():  # which leaves the ratio open
        errors[2] = np.inf
    numbers = [*entropies, *np.stack([informations, errors], axis=1).ravel()]
    return PairInformation._make([*map(float, numbers), together.block, float(bias[2])])


def _with_ratio(entropies: np.ndarray) -> np.ndarray:
    i_n, i_2 = _informations(entropies)
    return np.array([i_n, i_2, i_2 / i_n])


def _variances(entropies: np.ndarray, informations: np.ndarray) -> np.ndarray:
    """Return those of I_N, I_2 and, to first order, their ratio, from entropies (n, 3) that scatter."""
    (i_n, _, ratio), (d_n, d_2) = informations, _informations(entropies)
    return np.array([d_n, d_2, (d_2 - ratio * d_n) / i_n]).var(axis=1, ddof=1)


def _informations(entropies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return I_N and I_2 from entropies (..., 3) as `_entropies` has them."""
    independent, pairwise, words = np.moveaxis(entropies, -1, 0)
    return independent - words, independent - pairwise


class _Resampled(NamedTuple):
    """Rows that are drawn again, `n` times: their patterns, which of them each row is, and how rows stay together.

    After that as many as their patterns are `worth` are drawn from the pairwise machine.
    """

    patterns: np.ndarray
    code: np.ndarray
    together: Together
    seed: int
    n: int
    worth: np.ndarray
    machine: BoltzmannMachine


def _of_piece(rows: _Resampled, k: int, threads: int | None = 1) -> tuple[float, float, float]:
    with single_threaded_blas():  # the same bits wherever it is done
        if k < rows.n:
            drawn = rows.code[rows.together.drawn(rows.seed, k)]
            return _entropies(rows.patterns, np.bincount(drawn, minlength=len(rows.patterns)), rows.worth, threads)[0]
        about = {"seed": rng.derive(rows.seed, rng.MODEL, k), "threads": threads_module.resolve(threads)}
        packed = draw_exactly(rows.machine, 1.0, (1, int(rows.worth[2])), **about)[0]
        up = np.unpackbits(packed, axis=1, count=rows.machine.n_units, bitorder="little")
        first, code = unlike_rows(up)
        return _entropies(up[first], np.bincount(code), np.full(3, len(up)), threads)[0]


def _worth(up: np.ndarray, code: np.ndarray, together: Together) -> np.ndarray:
    """Return how many independent rows are worth as much for each of the entropies of `_entropies`.

    The bias of an entropy follows from the mean design effect of what it is computed from, units, units and pairs, or
    patterns: the variance of sums over blocks, by that of independent rows. Patterns in few blocks are taken together,
    as a rare one by itself seems the more frequent the longer it stays.
    Rao and Scott, J. Am. Stat. Assoc. 76, 221 (1981), doi:10.1080/01621459.1981.10477633.
    """
    if together.block == 1 or not code.any():
        return np.full(3, len(up))
    ends = together.cuts()
    firsts, d = np.array([0, *ends[:-1]]), up - up.mean(axis=0)
    units = _effects(d, firsts)
    pairs = [_effects(d[:, i, None] * d[:, i + 1 :], firsts) for i in range(d.shape[1] - 1)]
    shares, scatter = np.bincount(code) / len(code), np.zeros(code.max() + 1)
    n_blocks = np.zeros(len(shares), np.int64)
    for first, end in zip(firsts, ends, strict=True):
        found = np.bincount(code[first:end], minlength=len(shares))
        scatter += (found - (end - first) * shares) ** 2
        n_blocks += found > 0
    alike = np.where(n_blocks < SEVERAL, 0, np.arange(1, len(shares) + 1))
    expected = np.bincount(alike, len(code) * shares * (1.0 - shares)) * (1.0 - 1.0 / len(ends))
    words = np.bincount(alike, scatter)[alike] / expected[alike]
    effects = np.array([found.mean() for found in (units, np.concatenate([units, *pairs]), words)])
    return np.maximum(FEWEST_BLOCKS, len(up) / np.maximum(1.0, effects)).astype(np.int64)


def _effects(values: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """Return the design effects of columns of values (n_rows, n) that vary, summed over blocks."""
    centred = values - values.mean(axis=0)
    squares = (centred**2).sum(axis=0)
    sums = (np.add.reduceat(centred, firsts) ** 2).sum(axis=0)
    found: np.ndarray = sums[squares > 0.0] / squares[squares > 0.0] * len(firsts) / (len(firsts) - 1)
    return found


def _bits(data: Any) -> np.ndarray:
    given = datasets.load(str(data)).rows if isinstance(data, (str, Path)) else data
    rows, _ = gather([checks.any_array("data", given)], None, "data", keep=True)
    if not rows.complete:
        raise ValueError(
            "data must be complete: patterns with missing entries cannot be counted. Leave these rows out."
        )
    up: np.ndarray = rows[:]
    n_rows, n_units = up.shape
    if not 2 <= n_units <= MOST_UNITS:
        raise ValueError(f"data must have 2 to {MOST_UNITS} units, whose patterns can be counted; got {n_units}.")
    if n_rows < FEWEST_ROWS:
        raise ValueError(f"data must have at least {FEWEST_ROWS} rows; got {n_rows}.")
    return up


def _entropies(
    patterns: np.ndarray, counts: np.ndarray, worth: np.ndarray, threads: int | None
) -> tuple[tuple[float, float, float], BoltzmannMachine | None]:
    """Return the entropies of independent units, of the pairwise machine and of the patterns, corrected.

    And the pairwise machine, of the units that vary, if there are two or more.
    """
    seen = counts > 0
    patterns, counts = patterns[seen], counts[seen]
    n_rows = int(counts.sum())
    p, ups = counts / n_rows, counts @ patterns / n_rows
    words = float(-(p * np.log(p)).sum())
    inner = ups[(ups > 0.0) & (ups < 1.0)]
    independent = float(-(inner * np.log(inner) + (1.0 - inner) * np.log1p(-inner)).sum())
    pairwise, machine, n_varied = independent, None, len(inner)
    if n_varied > 1:
        varied = patterns[:, (ups > 0.0) & (ups < 1.0)]
        with checks.keeping_warnings():  # and saying nothing
            run = fit(
                varied, method="exact", row_weights=counts, units="binary", l2=L2, evaluate="exact", threads=threads
            )
        pairwise, machine = -float(run.evaluation["log_likelihood"][-1]), run.model
    half = 0.5 / worth
    n_pairs = n_varied * (n_varied - 1) // 2
    corrected = (
        independent + half[0] * n_varied,
        pairwise + half[1] * (n_varied + n_pairs),
        words + half[2] * (len(patterns) - 1),
    )
    return corrected, machine
