"""Uses of a learned machine: hidden means of rows, rows sent up and down, rows filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from ..._base import checks, rng, threads as threads_module
from ..._base.options import flag
from ...machine.checks import check_columns
from ...machine.clamping import Clamped
from ...machine.couplings import row_blocks
from ...machine.machine import BoltzmannMachine, check_machine
from ...machine.magnitude import refuse_beyond_range
from ...sampling.chains import couple_chains
from .completions import are_filled_in, average_gaps, sample_gaps
from .given import How, are_pooled, draws_given, listed_means, means_given, surely_listed

Given = Callable[[Clamped, How, np.ndarray], np.ndarray]

N_SWEEPS, BURN_IN = 100, 100
SHARED = 16  # rows that lack the same entries, from which on their sums share what does not depend on the row


@threads_module.single_threaded_blas()
def transform(
    model: BoltzmannMachine,
    rows: Any,
    *,
    beta: float = 1.0,
    method: str = "auto",
    n_sweeps: int = N_SWEEPS,
    burn_in: int = BURN_IN,
    seed: int | None = 0,
    threads: int | None = None,
) -> np.ndarray:
    """Return the means of the hidden units given each row.

    Parameters
    ----------
    model : BoltzmannMachine
    rows : (n_rows, n_visible) array
        In the machine's units.
    beta : float
        Inverse temperature, that at which the machine was learned.
    method : {"auto", "exact", "mean-field", "gibbs"}
        "auto" is exact where that is soon done: in closed form where no two hidden units are coupled, else by sums over
        their states; otherwise it samples.
    n_sweeps, burn_in : int
        Sweeps that "gibbs" averages, and those thrown away before; one chain for each row.
    seed : int or None
    threads : int, optional

    Returns
    -------
    (n_rows, n_hidden) float64 array
        In the machine's units: from -1 to 1, or from 0 to 1.

    Raises
    ------
    ValueError
        If the machine has no hidden units, or rows are not in its units.

    Examples
    --------
    >>> import fastbm as bm
    >>> model = bm.BoltzmannMachine([[[2.0], [2.0]]], [0.0, 0.0, -2.0], units="binary")
    >>> bm.transform(model, [[0, 0], [0, 1], [1, 1]]).round(3)
    array([[0.119],
           [0.5  ],
           [0.881]])
    """
    _check_model(model, beta)
    if not model.n_hidden:
        raise ValueError("transform needs hidden units; the machine has none. Use reconstruct or complete.")
    how = How.of(method, beta, n_sweeps, burn_in, rng.resolve(seed), threads_module.resolve(threads))
    values = model.convention.values(_bits(model, rows), np.float64)
    return _given(model, np.arange(model.n_visible), values, how, means_given)


@threads_module.single_threaded_blas()
def reconstruct(
    model: BoltzmannMachine,
    rows: Any,
    *,
    n_sweeps: int = 1,
    means: bool = True,
    beta: float = 1.0,
    burn_in: int = BURN_IN,
    seed: int | None = 0,
    threads: int | None = None,
) -> np.ndarray:
    """Send rows up to the hidden units and down again.

    Hidden units are drawn given the row, then visible ones given these, `n_sweeps` times; of the last visible units
    their means are returned. Without hidden units each unit is looked at given all others of the row, after
    `n_sweeps` - 1 Gibbs sweeps.

    Parameters
    ----------
    model : BoltzmannMachine
    rows : (n_rows, n_visible) array
        In the machine's units.
    n_sweeps : int
        Round trips.
    means : bool
        Whether to return means; else states, drawn (without hidden units: after `n_sweeps` Gibbs sweeps).
    beta : float
    burn_in : int
        Sweeps before a draw of many hidden units that are coupled to one another, and before the average over 100 for
        means of many visible units that are.
    seed : int or None
    threads : int, optional

    Returns
    -------
    (n_rows, n_visible) array
        Means are float64, states int8, both in the machine's units.
    """
    _check_model(model, beta)
    n_sweeps, burn_in = checks.whole("n_sweeps", n_sweeps, least=1), checks.whole("burn_in", burn_in)
    means = flag("means", means)
    seed, up, convention = rng.resolve(seed), _bits(model, rows), model.convention
    resolved = threads_module.resolve(threads)
    if not model.n_hidden:
        return _reconstruct_visible(model, up, n_sweeps, means, checks.real("beta", beta, least=0.0), seed, resolved)
    visible, hidden = np.arange(model.n_visible), np.arange(model.n_visible, model.n_units)
    for k in range(n_sweeps):
        ways = [
            How.of("auto", beta, N_SWEEPS, burn_in, rng.derive(seed, k, direction), resolved) for direction in (0, 1)
        ]
        values = convention.values(up, np.float64)
        above = convention.values(_given(model, visible, values, ways[0], draws_given), np.float64)
        if means and k == n_sweeps - 1:
            return _given(model, hidden, above, ways[1], means_given)
        up = _given(model, hidden, above, ways[1], draws_given)
    return convention.values(up)


@threads_module.single_threaded_blas()
def complete(
    model: BoltzmannMachine,
    rows: Any,
    *,
    missing: Any = None,
    draw: bool = False,
    beta: float = 1.0,
    method: str = "auto",
    n_sweeps: int = N_SWEEPS,
    burn_in: int = BURN_IN,
    seed: int | None = 0,
    threads: int | None = None,
) -> np.ndarray:
    """Fill in the missing entries of rows, given those that are there.

    Parameters
    ----------
    model : BoltzmannMachine
        With hidden units or without; hidden units are summed or sampled too.
    rows : (n_rows, n_visible) array
        In the machine's units; NaN, or masked, where an entry is missing. A row of which all is missing gets the
        machine's own means.
    missing : (n_rows, n_visible) or (n_visible,) bool array, optional
        True where an entry is missing, whatever it is; one line of it stands for all rows.
    draw : bool
        Whether missing entries become states, drawn together; else their means.
    beta : float
    method : {"auto", "exact", "mean-field", "gibbs"}
        As for `transform`; "exact" draws only for up to 12 free units, or such as are not coupled to one another.
    n_sweeps, burn_in : int
        Sweeps that "gibbs" averages, and those thrown away before; one chain for each row.
    seed : int or None
    threads : int, optional

    Returns
    -------
    (n_rows, n_visible) array
        The rows as they were, with means (float64) or states (int8) in place of what was missing.

    Raises
    ------
    ValueError
        If an entry that is there is not in the machine's units; the text says in which row, of which unit.

    Notes
    -----
    Rows that lack the same entries are done together; each such set of entries has a cost of its own, but for means by
    sums over all states of up to 12 missing and hidden units, of a restricted machine of up to 12 missing ones, and for
    rows of such a machine that are sampled: these share their matrix products whatever they lack.
    """
    _check_model(model, beta)
    how = How.of(method, beta, n_sweeps, burn_in, rng.resolve(seed), threads_module.resolve(threads))
    draw = flag("draw", draw)
    masked = np.ma.getmaskarray(rows) if isinstance(rows, np.ma.MaskedArray) else False
    array = _table(model, rows.data if isinstance(rows, np.ma.MaskedArray) else rows)
    lacking = _lacking(array, missing) | masked
    given = np.where(lacking, model.convention.hi, array) if array.dtype.kind in "biuf" else array  # which is refused
    up = model.convention.bits("rows", given)
    found = model.convention.values(up, np.int8 if draw else np.float64)
    n_gaps = lacking.sum(axis=1)
    how = replace(how, n_rows=int((n_gaps > 0).sum()))

    def put(rows: np.ndarray, filled: np.ndarray) -> None:
        found[rows] = np.where(lacking[rows], filled, found[rows])

    lo, span = model.convention.lo, model.convention.span
    filled_in = are_filled_in(model, n_gaps, how) & (not draw)
    pooled = are_pooled(model, up, lacking & ~filled_in[:, None], how)
    for some in _blocks(len(up), model.n_units):
        if (chosen := some.start + np.flatnonzero(filled_in[some])).size:
            put(chosen, average_gaps(model, up[chosen], lacking[chosen], how))
        if (chosen := some.start + np.flatnonzero(pooled[some])).size:
            ups = sample_gaps(model, up[chosen], lacking[chosen], _of_block(how, some.start), draw)
            put(chosen, lo + span * ups)
    rest = np.flatnonzero(~filled_in & ~pooled & (n_gaps > 0))
    _, number, sizes = np.unique(np.packbits(lacking[rest], axis=1), axis=0, return_inverse=True, return_counts=True)
    number = number.ravel()
    if not draw:
        listed = (sizes[number] < SHARED) & surely_listed(n_gaps[rest], model, how)
        alone, rest, number = rest[listed], rest[~listed], number[~listed]
        for some in _blocks(len(alone), model.n_units):
            chosen = alone[some]
            put(chosen, lo + span * listed_means(model, up[chosen], lacking[chosen], how))
    order = np.argsort(number, kind="stable")
    for chosen in np.split(rest[order], np.flatnonzero(np.diff(number[order])) + 1) if rest.size else ():
        gap, there = np.flatnonzero(lacking[chosen[0]]), np.flatnonzero(~lacking[chosen[0]])
        values = model.convention.values(up[np.ix_(chosen, there)], np.float64)
        filled = _given(model, there, values, how, draws_given if draw else means_given, chosen)[:, : gap.size]
        found[np.ix_(chosen, gap)] = model.convention.values(filled) if draw else filled
    return found


def _given(
    model: BoltzmannMachine,
    clamped: np.ndarray,
    values: np.ndarray,
    how: How,
    function: Given,
    numbers: np.ndarray | None = None,
) -> np.ndarray:
    """Apply `function` to the units that are not clamped, for all rows of `values`, a block of rows at a time."""
    numbers = np.arange(len(values)) if numbers is None else numbers
    how = replace(how, n_rows=max(how.n_rows, len(values)))
    parts = [
        function(Clamped.of(model, clamped, values[some]), how, numbers[some])
        for some in _blocks(len(values), model.n_units)
    ]
    return np.concatenate(parts)


def _of_block(how: How, first: int) -> How:
    return replace(how, seed=rng.derive(how.seed, first))


def _blocks(n_rows: int, n_units: int) -> Iterator[slice]:
    return row_blocks(n_rows, 4 * n_units)  # about as many tables stand beside each other


def _reconstruct_visible(
    model: BoltzmannMachine, up: np.ndarray, n_sweeps: int, means: bool, beta: float, seed: int, threads: int
) -> np.ndarray:
    n_moves = n_sweeps - 1 if means else n_sweeps
    convention, moved = model.convention, [up]
    if n_moves:
        moved = []
        for some in _blocks(len(up), model.n_units):
            streams = rng.streams(seed, len(up[some]), first=some.start)
            chains = couple_chains(
                model.couplings, model.flat_bias, convention, up[some], streams,
                beta=beta, rule="gibbs", order="sequential", seed=seed, threads=threads,
            )  # fmt: skip
            chains.sweep(n_moves)
            moved.append(chains.bits())
    state = convention.values(np.concatenate(moved))
    if not means:
        return state
    found: np.ndarray = convention.lo + convention.span * expit(beta * convention.span * model.field(state))
    return found


def _check_model(model: Any, beta: Any) -> None:
    check_machine(model)
    refuse_beyond_range(model, checks.real("beta", beta, least=0.0))


def _table(model: BoltzmannMachine, rows: Any) -> np.ndarray:
    array = checks.any_array("rows", check_columns("rows", rows, model.names))
    if array.ndim != 2 or not len(array) or array.shape[1] != model.n_visible:
        raise ValueError(f"rows must have shape (n_rows, {model.n_visible}), n_rows at least 1; got {array.shape}.")
    return array


def _bits(model: BoltzmannMachine, rows: Any) -> np.ndarray:
    """Return whole rows as bits."""
    array = _table(model, rows)
    if array.dtype.kind == "f" and np.isnan(array).any():
        row, unit = (int(k) for k in np.argwhere(np.isnan(array))[0])
        raise ValueError(f"rows must be whole; unit {unit} of row {row} is missing. Fill it in by complete first.")
    return model.convention.bits("rows", array)


def _lacking(rows: np.ndarray, missing: Any) -> np.ndarray:
    """Return which entries are missing, (n_rows, n_visible)."""
    found = np.isnan(rows) if rows.dtype.kind == "f" else np.zeros(rows.shape, bool)
    if missing is None:
        return found
    mask = checks.any_array("missing", missing)
    if mask.dtype != bool:
        raise TypeError(f"missing must be True and False; got dtype {mask.dtype}. Pass missing != 0, or the like.")
    if mask.shape not in (rows.shape, rows.shape[1:]):
        raise ValueError(f"missing must have shape {rows.shape} or {rows.shape[1:]}; got {mask.shape}.")
    return found | mask
