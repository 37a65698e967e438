"""Curves over many temperatures: log Z, energy, heat capacity and entropy, with their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from .._base import checks
from .._base.arrays import near_one
from .._base.threads import fan_out
from ..machine.clamping import Clamped
from ..machine.units import Units
from ..sampling.unseen import Unseen
from .estimator import VISITORS
from .result import Inference

KEY = "temperatures"  # in `Inference.detail`
MOST_MEANS = 1 << 24
TOGETHER = 1 << 16  # numbers of some temperatures that stay in the second cache
FEWEST_SPREAD = 4  # ladders from which on their spread is an error bar too, widened by Student's quantile


@dataclass(frozen=True, eq=False)
class Temperatures:
    """Thermodynamics along a ladder of inverse temperatures, each curve with its standard errors.

    Attributes
    ----------
    betas : (n_betas,) array
        Increasing; the last is the target.
    log_z, log_z_error : (n_betas,) array
        In nats, offset included.
    energy, energy_error : (n_betas,) array
        <E>, in the units of the model.
    heat_capacity, heat_capacity_error : (n_betas,) array
        beta^2 (<E^2> - <E>^2) of the whole machine.
    entropy, entropy_error : (n_betas,) array
        log Z + beta <E>, in nats; the error knows of the correlation of the two terms.
    mean, mean_error : (n_betas, n_units) array or None
        <s_i>, in the machine's units; None where moments were not asked for, or would take more than 2^24 numbers.
    """

    betas: np.ndarray
    log_z: np.ndarray
    log_z_error: np.ndarray
    energy: np.ndarray
    energy_error: np.ndarray
    heat_capacity: np.ndarray
    heat_capacity_error: np.ndarray
    entropy: np.ndarray
    entropy_error: np.ndarray
    mean: np.ndarray | None = None
    mean_error: np.ndarray | None = None

    def plot(self) -> Any:
        """Draw the curves with their errors: `plots.figure` of them."""
        from .._base.late import public

        return public("plots").figure(self)

    @classmethod
    def of(cls, inference: Inference, pattern: int | None = None) -> Temperatures:
        """Return the curves of a result of "tempering" or "population-annealing", stored ones too.

        Parameters
        ----------
        inference : Inference
        pattern : int, optional
            Which one, where units were clamped at many patterns.
        """
        if not isinstance(inference, Inference):
            raise TypeError(f"inference must be what infer returned; got {type(inference).__name__}.")
        detail = inference.detail
        if "patterns" in detail:
            n_patterns = len(detail["patterns"])
            if pattern is None or not 0 <= (pattern := checks.whole("pattern", pattern)) < n_patterns:
                raise ValueError(f"pattern must say which of the {n_patterns} clamped patterns; got {pattern!r}.")
            detail = detail["patterns"][pattern]
        elif pattern is not None:
            raise ValueError(f"pattern goes with many clamped patterns, and there are none; got {pattern!r}.")
        start = detail.get("start", "uniform")
        if KEY not in detail and inference.method in VISITORS and start != "uniform":
            raise ValueError(
                f'{inference.method} came from start="{start}", and levels between a product model and the machine are '
                'no temperatures, so it has no curves. Use start="uniform".'
            )
        if KEY not in detail and inference.method == "tempering":
            raise ValueError("one sample tells no errors, and so has no curves. Raise n_sweeps or n_chains.")
        if KEY not in detail:
            raise ValueError(
                f"{inference.method} visits one temperature, so it has no curves. Use "
                'infer(model, "tempering") or "population-annealing".'
            )
        found = detail[KEY]
        return cls(**{one.name: np.asarray(found[one.name], np.float64) for one in fields(cls) if one.name in found})

    def as_detail(self) -> dict[str, np.ndarray]:
        """Return the curves as plain arrays, for `Inference.detail`."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: array for name, array in found.items() if array is not None}

    def with_means(
        self,
        units: Units,
        n_up: Sequence[np.ndarray],
        of: np.ndarray,
        weights: np.ndarray,
        missed: Unseen,
        error_of: Callable[[np.ndarray], np.ndarray],
        threads: int = 1,
    ) -> Temperatures:
        """Return the curves with means of units added.

        Parameters
        ----------
        n_up : sequence of (n_groups, n_units) array
            How often units were up in each of some independent ladders or populations, at every temperature.
        of : (n_groups,) array
            Out of how many.
        weights : (n_groups, n_betas) array
            Of their average, with sum 1.
        missed : Unseen
            What samples left unseen at every temperature.
        error_of : callable
            The standard errors of the mean of terms (n_groups, ...) that are independent.
        threads : int
            They change no bit.
        """
        weights, (n_groups, n_units) = weights.T[..., None], n_up[0].shape
        mean, error = np.empty((2, len(n_up), n_units))
        step = max(1, TOGETHER // (n_groups * n_units))

        def average(k: int) -> None:
            some = slice(k, k + step)
            own, parts = np.stack(n_up[some]) / of[:, None], weights[some]
            mean[some] = (parts * own).sum(axis=1)
            terms = n_groups * parts * (own - mean[some, None])
            error[some] = np.maximum(error_of(terms.swapaxes(0, 1)), missed.chance[some, None])

        fan_out(average, range(0, len(n_up), step), threads)
        return replace(self, mean=units.lo + units.span * mean, mean_error=units.span * error)


def expand_curves(result: Inference, clamped: Clamped, pattern: int) -> Inference:
    """Return a result whose curves have the clamped units' means in their places (their value, error 0)."""
    found = result.detail.get(KEY, {})
    if "mean" not in found:
        return result
    error = np.zeros((len(found["betas"]), clamped.model.n_units))
    error[:, clamped.free] = found["mean_error"]
    whole = {"mean": clamped.full_states(pattern, found["mean"]), "mean_error": error}
    return replace(result, detail=result.detail | {KEY: found | whole})


def means_fit(n_groups: int, n_betas: int, n_units: int) -> bool:
    """Return whether means at all temperatures can be gathered."""
    return n_groups * n_betas * n_units <= MOST_MEANS


def spread_error(terms: np.ndarray) -> np.ndarray:
    """Return the standard errors of means of independent terms, (n_groups, ...), whose mean is 0.

    Few terms tell their own spread badly: errors are widened, so that 1.96 of them hold the truth in 95 % of cases. A
    single term tells nothing.
    """
    n = len(terms)
    if n == 1:
        return np.full(terms.shape[1:], np.inf)
    terms, exponent = near_one(terms)
    error = widening(n) * np.sqrt((terms**2).sum(axis=0) / (n * (n - 1)))
    return np.ldexp(error, exponent)


def widening(n_terms: int) -> float:
    """Return Student's quantile at 95 % for the spread of so many terms, over the normal one."""
    return float(stdtrit(n_terms - 1, 0.975)) / 1.96


class Errors(NamedTuple):
    """Standard errors (n_betas,) as samples tell them; that of log Z + beta <E> knows how both are correlated."""

    log_z: np.ndarray
    energy: np.ndarray
    variance: np.ndarray
    entropy: np.ndarray


def curves(
    betas: np.ndarray,
    log_z: np.ndarray,
    energy: np.ndarray,
    variance: np.ndarray,
    errors: Errors,
    missed: Unseen,
    floor: np.ndarray | float = 0.0,
) -> Temperatures:
    """Put curves together from values and what samples tell of their errors.

    `missed` is what samples left unseen at every temperature: no error is smaller than what this may add. `floor`
    (n_betas,) or a number is an error of log Z that is independent of the others.
    """
    rise = betas * missed.energy
    return Temperatures(
        betas=betas,
        log_z=log_z,
        log_z_error=np.hypot(errors.log_z, floor),
        energy=energy,
        energy_error=np.maximum(errors.energy, missed.chance * missed.energy),
        heat_capacity=betas * (betas * variance),
        heat_capacity_error=np.maximum(betas * (betas * errors.variance), missed.chance * rise**2),
        entropy=log_z + betas * energy,
        entropy_error=np.maximum(np.hypot(errors.entropy, floor), missed.chance * rise),
    )
