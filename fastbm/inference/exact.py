"""Exact sums over all 2^n states by Gray code; see `fastbm.kernels.enumeration`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _checks
from ..exact.integers import IntegerMachine
from ..kernels.enumeration import enumerate_slice, tabulate_low
from ..model import BoltzmannMachine
from ..threads import fan_out
from .result import Inference, moments_from_up

LOW_UNITS = 10  # a table of 1024 energies, weights and sums stays in the first-level cache
SLICE_STEPS = 1 << 15  # steps of the code a slice: about a tenth of a second
LONGEST_SECONDS = 600.0
SECONDS_PER_STATE = 3e-9
NEGLIGIBLE = 1e-30  # beta times the range of the energies below which moments of the energy are those at beta = 0
MOST_UNITS = 62  # beyond it a step of the code has no 64-bit number


def forecast_seconds(n_units: int, threads: int) -> float:
    """Estimate how long all 2^n states take."""
    return math.ldexp(SECONDS_PER_STATE, min(n_units, 1000)) / threads


def refuse_if_long(n_units: int, threads: int, max_forecast_seconds: float = LONGEST_SECONDS) -> None:
    """Refuse, with the cost and the alternatives, a sum whose forecast is above the limit."""
    limit = _checks.real("max_forecast_seconds", max_forecast_seconds, above=0.0)
    seconds = forecast_seconds(n_units, threads)
    if seconds > limit or n_units > MOST_UNITS:
        raise ValueError(
            f"exact would sum 2^{n_units} states, about {_duration(seconds)} on {threads} threads; the limit is "
            f'max_forecast_seconds={limit:g}. Use "ais", "sampled-states" or "mean-field" for log Z, "gibbs" for '
            "moments, or clamp units."
        )


def exact(
    model: BoltzmannMachine, *, beta: float, moments: bool, threads: int, max_forecast_seconds: float = LONGEST_SECONDS
) -> Inference:
    """Sum over all states.

    Parameters
    ----------
    max_forecast_seconds : float
        Refuse, before starting, what would take longer.

    Returns
    -------
    Inference
        With every field; errors are 0.

    Raises
    ------
    ValueError
        If the forecast is above the limit; the text gives the cost and the alternatives.
    """
    refuse_if_long(model.n_units, threads, max_forecast_seconds)
    form = IntegerMachine.of(model)
    k = min(LOW_UNITS, model.n_units)
    sums, pairs, lowest = _sum_slices(form, k, beta, threads)
    total = sums[0].sum()
    height = sums[1].sum() / total
    low_energy = form.base + math.ldexp(lowest, -form.exponent)
    log_z = math.log(total) - beta * low_energy
    result: dict[str, Any] = {"log_z": log_z, "log_z_error": 0.0, "bound": "exact", "n_samples": 1 << model.n_units}
    if beta * math.ldexp(1.0, 61 - form.exponent) > NEGLIGIBLE:
        energy = low_energy + height / beta
        variance = max(sums[2].sum() / total - height**2, 0.0) / beta**2
        result |= {"energy": energy, "energy_variance": variance}
    else:
        result |= _flat_energy(model)
    result |= {"energy_error": 0.0, "entropy": log_z + beta * result["energy"]}
    if moments:
        up = _pairs_up(sums[0], pairs, k) / total
        result |= moments_from_up(model.convention, up) | {"mean_error": np.zeros(model.n_units)}
    return Inference("exact", **result, detail={"engine": "gray", "lowest energy": low_energy})


def _sum_slices(form: IntegerMachine, k: int, beta: float, threads: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Add the slices of the code in order, relative to the lowest energy of all."""
    n = len(form.fields)
    table = np.empty(1 << k, np.int64)
    tabulate_low(np.ascontiguousarray(form.rises[:k, :k]), table)
    unit = math.ldexp(beta, -form.exponent)
    steps = 1 << (n - k)
    length = min(SLICE_STEPS, max(steps // 2, 1))

    def run(start: int) -> tuple[int, np.ndarray, np.ndarray]:
        sums, pairs = np.zeros((3, 1 << k)), np.zeros((n, n))
        low = enumerate_slice(form.rises, form.fields, table, start, start + length, unit, sums, pairs)
        return low, sums, pairs

    total, all_pairs = np.zeros((3, 1 << k)), np.zeros((n, n))
    lowest = None
    group = length * max(threads, 1)
    for first in range(0, steps, group):
        for low, sums, pairs in fan_out(run, range(first, min(first + group, steps), length), threads):
            if lowest is None or low < lowest:
                if lowest is not None:
                    _lower(total, all_pairs, unit * float(lowest - low))
                lowest = low
            shift = unit * float(low - lowest)
            _lower(sums, pairs, shift)
            total += sums
            all_pairs += pairs
    assert lowest is not None
    return total, all_pairs, lowest


def _lower(sums: np.ndarray, pairs: np.ndarray, shift: float) -> None:
    """Refer a slice's sums to an energy that is lower by `shift` / beta, in place."""
    zeroth, first, second = sums
    second += 2 * shift * first + shift**2 * zeroth
    first += shift * zeroth
    factor = math.exp(-shift)
    sums *= factor
    pairs *= factor


def _pairs_up(low_weights: np.ndarray, pairs: np.ndarray, k: int) -> np.ndarray:
    """The weight with units i and j both up, as a full symmetric matrix."""
    settings = (np.arange(low_weights.size)[:, None] >> np.arange(k)) & 1
    up = np.zeros_like(pairs)
    up[:k, :k] = (settings * low_weights[:, None]).T @ settings
    up[k:, :k] = pairs[k:, :k]
    up[:k, k:] = pairs[k:, :k].T
    high = np.triu(pairs[k:, k:])
    up[k:, k:] = high + np.triu(high, 1).T
    return up


def _flat_energy(model: BoltzmannMachine) -> dict[str, float]:
    """Energy and its variance under the uniform distribution: couplings of spins are uncorrelated there."""
    spin = model.to_units("spin")
    pairs = spin.couplings.to_vector(spin.couplings.arrays)
    return {
        "energy": spin.offset,
        "energy_variance": float((pairs**2).sum()) + float((spin.flat_bias**2).sum()),
    }


def _duration(seconds: float) -> str:
    for size, name in ((365.25 * 86400, "years"), (86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} seconds"
