"""Errors of functions of averages by leaving out one block of samples after another.

The samples are cut into g blocks that are longer than they are correlated; theta_j is the function of all but block j,
which holds a part 1/h_j of the samples. With the pseudo-values p_j = h_j theta - (h_j - 1) theta_j,

    error^2 = 1/g sum_j (p_j - theta_J)^2 / (h_j - 1),    theta_J = g theta - sum_j (1 - 1/h_j) theta_j,

where theta_J is theta without its bias of order 1/n_samples.

Busing, Meijer and van der Leeden, Stat. Comput. 9, 3 (1999), doi:10.1023/A:1008800423698.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._base import checks
from .._base.arrays import near_one
from .autocorrelation import MANY_CHAINS, all_at_once, finite, longest_tau

FEWEST, MOST = 8, 64  # blocks
LONG, SHORT = 10.0, 4.0  # lengths of a block in autocorrelation times: good, and barely enough
NORMAL = 1.959963984540054  # standard errors that hold 95 %


class Estimate(NamedTuple):
    """A value and its standard error, NaN where the samples are too few to tell."""

    value: Any
    error: Any


class Blocks(NamedTuple):
    """How samples are cut: along `axis` (0 samples, 1 chains) at `starts`.

    `lost` is the part of the variance that blocks miss as they are correlated with their neighbours, `wider` what makes
    1.96 errors from so few blocks hold the truth in 95 % of cases; `reason` says why there are too few.
    """

    axis: int
    starts: np.ndarray
    sizes: np.ndarray
    lost: float
    wider: float
    reason: str

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum over every block of the mean over the other axis, (n_blocks, ...)."""
        return np.add.reduceat(values.mean(axis=1 - self.axis), self.starts, axis=0)

    def without(self, values: np.ndarray, j: int) -> np.ndarray:
        """Return all but one block."""
        left_out = np.arange(self.starts[j], self.starts[j] + self.sizes[j])
        return np.delete(values, left_out, axis=self.axis)


def cut_blocks(n_samples: int, n_chains: int, tau: float, n_blocks: int | None = None) -> Blocks:
    """Choose blocks of samples, all chains together, or of chains where these are many and their samples few."""
    axis, reason, lost, chosen = 0, "", 0.0, n_blocks is None
    if n_blocks is None:
        n_blocks = min(MOST, int(n_samples / (LONG * tau)))
        if n_blocks < MOST // 4 and n_chains >= max(MANY_CHAINS, n_blocks):
            axis, n_blocks = 1, min(MOST, n_chains)
        elif n_blocks < FEWEST:
            n_blocks = FEWEST
            if n_samples < FEWEST * SHORT * tau:
                reason = (
                    f"{n_samples} samples of {n_chains} chains with tau_int = {tau:.3g} are too few for an error bar: "
                    f"{FEWEST} blocks of {SHORT:g} tau_int, or {MANY_CHAINS} chains, are needed. Sample longer."
                )
        if axis == 0 and not reason:
            # 2 sum_t t rho(t) / (2 tau L), where rho decays exponentially
            lost = (tau - 0.25 / tau) * n_blocks / n_samples
    total = (n_samples, n_chains)[axis]
    edges = np.arange(min(n_blocks, total) + 1) * total // min(n_blocks, total)
    wider = student_widening(len(edges) - 2) if chosen and not reason else 1.0
    return Blocks(axis, edges[:-1], np.diff(edges), lost, wider, reason)


def cut_all(n_samples: int, n_chains: int, tau: float, n_blocks: int | None = None) -> list[Blocks]:
    """Return the blocks that are chosen, and those of whole chains, where these are an error bar of their own too.

    As in `standard_error` the larger error counts, and so that of the chains is not widened.
    """
    blocks = cut_blocks(n_samples, n_chains, tau, n_blocks)
    if n_blocks is not None or blocks.axis == 1 or blocks.reason or n_chains < MANY_CHAINS:
        return [blocks]
    return [blocks, cut_blocks(n_chains, 1, 0.5, min(MOST, n_chains))._replace(axis=1)]


def larger(estimates: list[Estimate]) -> Estimate:
    """Return the first estimate with the largest error of all; one that is not defined does not count."""
    return estimates[0]._replace(error=functools.reduce(np.fmax, [one.error for one in estimates]))


@functools.cache
def student_widening(freedom: int) -> float:
    """Return Student's quantile at 95 % for so many degrees of freedom, over the normal one."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975)) / NORMAL


def combine(whole: Any, parts: np.ndarray, blocks: Blocks, *, corrected: bool = False) -> Estimate:
    """Put together the value of all samples and those of all but one block, (n_blocks, ...)."""
    value, g = np.asarray(whole, np.float64), len(blocks.sizes)
    h = (blocks.sizes.sum() / blocks.sizes).reshape((g,) + (1,) * value.ndim)
    # about the value, so that what does not vary has exactly no error
    off, exponent = near_one(parts - value)
    bias_free = -((1.0 - 1.0 / h) * off).sum(axis=0)
    variance = ((-(h - 1.0) * off - bias_free) ** 2 / (h - 1.0)).mean(axis=0)
    error = blocks.wider * np.sqrt(variance / (1.0 - blocks.lost))
    return Estimate((value + np.ldexp(bias_free, exponent) if corrected else value)[()], np.ldexp(error, exponent)[()])


def jackknife(
    function: Callable[..., Any],
    *values: Any,
    of: str = "means",
    n_blocks: int | None = None,
    corrected: bool = False,
) -> Estimate:
    """Return a function of averages and its standard error.

    Parameters
    ----------
    function : callable
        Of as many arguments as there are `values`. It is called once, with all leave-one-out means at once, so it must
        work element by element along a leading axis of blocks. With `of="arrays"` it is called for every block.
    *values : (n_samples, n_chains, ...) arrays
        All of the same samples and chains.
    of : {"means", "arrays"}
        Whether the function takes means over samples and chains, (...), or the arrays themselves with samples left
        out, as a median or a histogram needs.
    n_blocks : int, optional
        Blocks of samples, all chains together. Left out, as many blocks of at least 10 autocorrelation times (the
        longest among `values`, and for each the longer that `standard_error` knows) as there are, up to 64; where there
        are fewer than 16 and more chains than that (at least 8), the chains are the blocks; else 8 blocks of at least 4
        such times.
    corrected : bool
        Take the bias of order 1 / n_samples off the value.

    Returns
    -------
    Estimate
        Value and error. The error is NaN, with a ConvergenceWarning that tells the reason, where there are not enough
        samples or chains.

    Raises
    ------
    ValueError
        If the values are not of the same samples and chains, or `n_blocks` does not lie between 2 and n_samples.

    Notes
    -----
    Blocks of L samples miss a part (tau_int - 1 / (4 tau_int)) / L of the variance where the autocorrelation decays
    exponentially; errors from blocks that were chosen here are made up for it. With g blocks the error itself is known
    to a part 1 / sqrt(2 g) only; errors from blocks that were chosen here are widened to Student's quantile with g - 1
    degrees of freedom over the normal one (1.21 for 8 blocks, 1.02 for 64), so that 1.96 of them hold the truth in 95 %
    of cases. With 8 chains or more no error is smaller than that from up to 64 blocks of whole chains, by the plain
    formula, which knows of slow modes as the spread of means in `standard_error` does. Errors from given blocks are the
    plain formula alone.

    Measured on autoregressive series, 500 each, 1.96 errors of the mean and of the variance hold the truth in 91 to
    98 % of cases, the fewer the further they are from linear: 86 % for Binder's cumulant of 60 samples of 8 chains.

    References
    ----------
    Busing et al., Stat. Comput. 9, 3 (1999), doi:10.1023/A:1008800423698.

    Examples
    --------
    >>> import numpy as np
    >>> from fastbm.diagnostics import jackknife
    >>> draws = np.random.default_rng(0).normal(size=(1000, 4))
    >>> value, error = jackknife(lambda first, second: second - first**2, draws, draws**2)
    >>> bool(abs(value - 1.0) < 3.0 * error)
    True
    """
    checks.choice("of", of, ("means", "arrays"))
    arrays = [finite(value) for value in values]
    if not arrays or any(array.shape[:2] != arrays[0].shape[:2] for array in arrays):
        raise ValueError(
            "values must be one array or more of the same samples and chains; got shapes "
            f"{', '.join(str(array.shape) for array in arrays) or 'none'}."
        )
    n_samples, n_chains = arrays[0].shape[:2]
    if n_blocks is not None and not 2 <= checks.whole("n_blocks", n_blocks) <= n_samples:
        raise ValueError(f"n_blocks must lie between 2 and n_samples = {n_samples}; got {n_blocks}.")
    tau = 0.5 if n_blocks is not None else max(float(np.max(longest_tau(some))) for some in all_at_once(arrays))
    cuts = cut_all(n_samples, n_chains, tau, n_blocks)
    if of == "means":
        origins = [array[0, 0] for array in arrays]
        apart = [array - origin for array, origin in zip(arrays, origins, strict=True)]
        return larger(
            [
                of_sums(function, [blocks.sums(one) for one in apart], blocks, origins=origins, corrected=corrected)
                for blocks in cuts
            ]
        )
    whole = function(*arrays)
    if cuts[0].reason:
        return unknown_error(whole, cuts[0].reason)
    found = []
    for blocks in cuts:
        parts = [function(*(blocks.without(array, j) for array in arrays)) for j in range(len(blocks.sizes))]
        found.append(combine(whole, np.stack(parts), blocks, corrected=corrected))
    return larger(found)


def of_sums(
    function: Callable[..., Any],
    sums: list[np.ndarray],
    blocks: Blocks,
    *,
    origins: list[np.ndarray] | None = None,
    corrected: bool = False,
) -> Estimate:
    """Jackknife a function of means, given `Blocks.sums` of values less their origins."""
    n, g = blocks.sizes.sum(), len(blocks.sizes)
    counts = np.concatenate([[n], n - blocks.sizes]) if g > 1 else np.array([n, n])
    means = []
    for k, part in enumerate(sums):
        total = part.sum(axis=0)
        left = np.concatenate([total[None], total - part]) / counts.reshape((-1,) + (1,) * total.ndim)
        means.append(left if origins is None else left + origins[k])
    found = np.asarray(function(*means), np.float64)
    if found.shape[:1] != (g + 1,):
        raise ValueError(
            f"function must keep the leading axis of its arguments, {g + 1} sets of means; it returned shape "
            f'{found.shape}. A function that cannot: of="arrays".'
        )
    if blocks.reason:
        return unknown_error(found[0], blocks.reason)
    return combine(found[0], found[1:], blocks, corrected=corrected)


def unknown_error(value: Any, reason: str) -> Estimate:
    """Return a value whose error cannot be told, with a warning that says why."""
    checks.warn(reason)
    array = np.asarray(value, np.float64)
    return Estimate(array[()], np.full(array.shape, math.nan)[()])
