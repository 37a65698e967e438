"""The free units given the clamped ones: means and draws, for many patterns at once.

Where no two free units are coupled, and where they have few states, both are exact. Otherwise means come from an exact
sum for each pattern, mean field, or Gibbs sampling, of which every sweep gives P(s_i up | all others) rather than s_i
(Rao-Blackwell; Gelfand and Smith, J. Am. Stat. Assoc. 85, 398 (1990), doi:10.1080/01621459.1990.10476213).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import expit

from ..._base import checks, rng
from ..._base.arrays import unlike_rows
from ..._base.threads import fan_out, single_threaded_blas
from ...kernels.inference.listed import average_listed
from ...machine.clamping import Clamped
from ...machine.couplings import Couplings, row_blocks
from ...machine.machine import BoltzmannMachine
from ...machine.units import Units
from ...sampling.chains import Chains, couple_chains
from ..exact.method import forecast_seconds
from ..fixed_point.mean_field import solve
from ..methods import run_method
from .listed import MOST_LISTED, Listed

METHODS = ("auto", "exact", "mean-field", "gibbs")
MOST_UNITS = 1024  # of a machine whose couplings are made a matrix for that, where rows lack different units
STATES = 1 << 17  # of rows with gaps of their own, which a thread lists in half a millisecond
MOST_SUMMED = 24  # units of the smaller layer beyond which no sum of a restricted machine is tried by "auto"
EXACT_SECONDS = 20.0  # "auto" takes exact sums up to here, by their forecast
PATTERN_SECONDS = 1e-3  # that a sum takes at least
LANES = 256  # patterns whose mean-field equations are solved together
TOLERANCE, MOST_SWEEPS = 1e-10, 10_000  # of mean field


@dataclass(frozen=True)
class How:
    """The method by which means or states of free units are found given the clamped ones, and its settings.

    It holds the method, for what is sampled the sweeps averaged and those thrown away before, and how many rows the
    call is for, which share the time that "auto" has for sums.
    """

    method: str
    beta: float
    n_sweeps: int
    burn_in: int
    seed: int
    threads: int
    n_rows: int = 1

    @classmethod
    def of(cls, method: str, beta: float, n_sweeps: int, burn_in: int, seed: int, threads: int) -> How:
        """Check the options of a user; `seed` and `threads` are final."""
        return cls(
            checks.choice("method", method, METHODS),
            checks.real("beta", beta, least=0.0),
            checks.whole("n_sweeps", n_sweeps, least=1),
            checks.whole("burn_in", burn_in),
            seed,
            threads,
        )


def means_given(clamped: Clamped, how: How, rows: np.ndarray) -> np.ndarray:
    """Return the means of the free units in the machine's units, (n_patterns, n_free).

    `rows` number the patterns: a pattern's chain depends on its number alone.
    """
    if not clamped.free.size or (how.method in ("auto", "exact") and _are_independent(clamped.couplings)):
        return _means(clamped.model.convention, how.beta, clamped.bias)
    if how.method == "mean-field":
        return _mean_field(clamped, how)
    if how.method == "gibbs":
        return _sampled(clamped, how, rows)
    if clamped.free.size <= MOST_LISTED:
        listed = Listed(clamped, how.beta, how.threads)
        return np.concatenate(listed.each(lambda p, log_z, some: p @ listed.states))
    return _summed(clamped, how) if how.method == "exact" or _is_short(clamped, how) else _sampled(clamped, how, rows)


def draws_given(clamped: Clamped, how: How, rows: np.ndarray) -> np.ndarray:
    """Draw one state of the free units for each pattern, bits (n_patterns, n_free).

    Independent draws where means need no sampling but for single sums; else the last state of a chain.
    """
    units = clamped.model.convention
    generator = rng.keyed(how.seed, rng.STARTS, int(rows[0]) if len(rows) else 0)
    if not clamped.free.size or (how.method != "gibbs" and _are_independent(clamped.couplings)):
        p = expit(how.beta * units.span * clamped.bias)
        return (generator.random(p.shape) < p).astype(np.uint8)
    if how.method != "gibbs" and clamped.free.size <= MOST_LISTED:
        listed, uniform = Listed(clamped, how.beta, how.threads), generator.random((clamped.n_patterns, 1))

        def one(p: np.ndarray, log_z: np.ndarray, some: slice) -> np.ndarray:
            below = (np.cumsum(p, axis=1) <= uniform[some]).sum(axis=1)
            return listed.states[np.minimum(below, len(listed.states) - 1)]

        return (np.concatenate(listed.each(one)) == units.hi).astype(np.uint8)
    if how.method == "exact":
        raise ValueError(
            f'method="exact" draws for up to {MOST_LISTED} coupled free units; got {clamped.free.size}. Use "gibbs", '
            "or ask for means."
        )
    chains = _chains(clamped, how, rows)
    chains.sweep(how.burn_in + how.n_sweeps)
    return chains.bits()


def are_pooled(model: BoltzmannMachine, up: np.ndarray, lacking: np.ndarray, how: How) -> np.ndarray:
    """Return which rows of a restricted machine are sampled together, (n_rows,): where sums for all would take long."""
    n_gaps, found = lacking.sum(axis=1), np.zeros(len(up), bool)
    if not model.n_hidden or not model.hidden_are_independent:
        return found
    for n in np.unique(n_gaps[n_gaps > 0]):
        some = n_gaps == n
        long = how.method == "gibbs" or (how.method == "auto" and min(n, model.n_hidden) > MOST_SUMMED)
        if not long and how.method == "auto" and n + model.n_hidden > MOST_LISTED:
            row = int(some.argmax())
            there = np.flatnonzero(~lacking[row])
            long = not _is_short(Clamped.of(model, there, model.convention.values(up[row, there], np.float64)), how)
        found[some] = long
    return found


def listed_means(model: BoltzmannMachine, up: np.ndarray, lacking: np.ndarray, how: How) -> np.ndarray:
    """Return P(up) where entries are missing, (n_rows, n_visible), each row with gaps of its own.

    Few units are missing or hidden. Where `lacking` (n_rows, n_visible) is false, 0 is returned; where it is true, the
    bits `up` have no meaning.
    """
    free, down = np.ones((len(up), model.n_units), bool), np.zeros((len(up), model.n_units), np.uint8)
    free[:, : model.n_visible], down[:, : model.n_visible] = lacking, np.where(lacking, 0, up)
    units, means = model.convention, np.zeros(free.shape)
    fields = how.beta * units.span * (model.couplings.field(units.values(down, np.float64)) + model.flat_bias)
    n_states = 1 << free.sum(axis=1)
    ends = np.flatnonzero(np.diff(np.cumsum(n_states) // STATES, append=-1)) + 1

    def one(first: int, end: int) -> None:
        some, room = slice(first, end), np.empty((2, n_states[first:end].max()))
        average_listed(means[some], free[some], fields[some], model.couplings.matrix(), how.beta * units.span**2, room)

    fan_out(lambda ends: one(*ends), pairwise([0, *ends.tolist()]), how.threads)
    return means[:, : model.n_visible]


def surely_listed(n_gaps: np.ndarray, model: BoltzmannMachine, how: How) -> np.ndarray:
    """Return whether so many missing units, with the hidden ones, have few states, which any way to a mean lists."""
    listed: np.ndarray = n_gaps + model.n_hidden <= MOST_LISTED
    return listed & (how.method in ("auto", "exact") and model.n_units <= MOST_UNITS)


def _are_independent(couplings: Couplings) -> bool:
    return not any(np.any(array) for array in couplings.arrays)


def _is_short(clamped: Clamped, how: How) -> bool:
    """Return whether exact sums for all rows of the call, if they are like this one, are soon done."""
    seconds = forecast_seconds(clamped.machine(0), moments=True, beta=how.beta)
    return how.n_rows * max(seconds, PATTERN_SECONDS) <= EXACT_SECONDS


def _means(units: Units, beta: float, field: np.ndarray) -> np.ndarray:
    """Return <s_i> of units in the field of everything else."""
    found: np.ndarray = units.lo + units.span * expit(beta * units.span * field)
    return found


def _summed(clamped: Clamped, how: How) -> np.ndarray:
    """Return the sums by one exact sum for each distinct pattern."""
    first, inverse = unlike_rows(clamped.values)
    unique, found = clamped.values[first], np.empty((len(first), clamped.free.size))
    for some in row_blocks(len(unique), clamped.model.n_units**2):  # second moments come with the means
        result = run_method(
            clamped.model, "exact", beta=how.beta, clamp=(clamped.indices, unique[some]), moments=True, seed=how.seed,
            threads=how.threads, energy_variance=False, pairs=np.empty((0, 2), np.int64),
        )  # fmt: skip
        found[some] = result.mean[:, clamped.free]
    return found[inverse]


def _mean_field(clamped: Clamped, how: How) -> np.ndarray:
    """Find fixed points of m = tanh(beta (W m + b)), from m = 0."""
    units = clamped.model.convention
    spin = clamped
    if units.name == "binary":
        spin = Clamped.of(clamped.model.to_units("spin"), clamped.indices, 2 * clamped.values - 1)

    def one(first: int) -> tuple[np.ndarray, float]:
        bias = spin.bias[first : first + LANES].T
        found = solve(
            spin.couplings, bias, how.beta, np.zeros_like(bias),
            tolerance=TOLERANCE, damping=0.0, max_sweeps=MOST_SWEEPS,
        )  # fmt: skip
        return found.means.T, float(found.residual.max(initial=0.0))

    with single_threaded_blas():
        parts = fan_out(one, range(0, clamped.n_patterns, LANES), how.threads)
    if (worst := max(residual for _, residual in parts)) > 1e-6:
        checks.warn(
            f'mean field given the clamped units did not converge (residual {worst:.1g}). Use method="gibbs".',
        )
    means = np.concatenate([part for part, _ in parts])
    return means if units.name == "spin" else (1.0 + means) / 2.0


def _chains(clamped: Clamped, how: How, rows: np.ndarray) -> Chains:
    """Return one chain for each pattern, from a random state."""
    streams = np.concatenate([rng.streams(how.seed, 1, first=int(row)) for row in rows])
    n_free = clamped.free.size
    start = [rng.keyed(how.seed, rng.INITIAL, int(row)).integers(0, 2, n_free, dtype=np.uint8) for row in rows]
    return couple_chains(
        clamped.couplings, clamped.bias, clamped.model.convention, np.stack(start), streams,
        beta=how.beta, rule="gibbs", order="sequential", seed=how.seed, threads=how.threads,
    )  # fmt: skip


def _sampled(clamped: Clamped, how: How, rows: np.ndarray) -> np.ndarray:
    """Return averages over sweeps of P(s_i up | all others)."""
    units, chains = clamped.model.convention, _chains(clamped, how, rows)
    chains.sweep(how.burn_in)
    total = np.zeros(clamped.bias.shape)
    for _ in range(how.n_sweeps):
        chains.sweep(1)
        values = units.values(chains.bits(), np.float64)
        total += _means(units, how.beta, clamped.couplings.field(values) + clamped.bias)
    return total / how.n_sweeps
