"""What methods that visit many temperatures say of each: log Z, energy, heat capacity and entropy as curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from .result import Inference

KEY = "temperatures"  # in `Inference.detail`


@dataclass(frozen=True)
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

    @classmethod
    def of(cls, inference: Inference, pattern: int | None = None) -> Temperatures:
        """Return the curves of a result of "tempering" or "population-annealing", stored ones too.

        Parameters
        ----------
        inference : Inference
        pattern : int, optional
            Which one, where units were clamped at many patterns.
        """
        detail = inference.detail
        if "patterns" in detail:
            n_patterns = len(detail["patterns"])
            if pattern is None or not 0 <= pattern < n_patterns:
                raise ValueError(f"pattern must say which of the {n_patterns} clamped patterns; got {pattern!r}.")
            detail = detail["patterns"][pattern]
        elif pattern is not None:
            raise ValueError(f"pattern goes with many clamped patterns, and there are none; got {pattern!r}.")
        if KEY not in detail:
            raise ValueError(
                f"{inference.method} visits one temperature, so it has no curves. Use "
                'infer(model, "tempering") or "population-annealing".'
            )
        return cls(**{one.name: np.asarray(detail[KEY][one.name], np.float64) for one in fields(cls)})

    def as_detail(self) -> dict[str, np.ndarray]:
        """Plain arrays, for `Inference.detail`."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def curves(
    betas: np.ndarray,
    log_z: np.ndarray,
    log_z_terms: np.ndarray,
    energy: np.ndarray,
    variance: np.ndarray,
    energy_terms: np.ndarray,
    variance_terms: np.ndarray,
    error_of: Callable[[np.ndarray], np.ndarray],
    log_z_floor: np.ndarray | float = 0.0,
) -> Temperatures:
    """Put curves together from values and what every sample adds to them, by the delta method.

    Parameters
    ----------
    log_z_terms, energy_terms, variance_terms : (..., n_betas) array
        First-order terms: the mean of each over all samples is the deviation of log Z, <E> and the variance of E that
        the samples' noise makes, about 0.
    error_of : callable
        The standard errors of the mean of such terms, (n_betas,).
    log_z_floor : (n_betas,) array or float
        Error of log Z that is not in the terms, independent of them.
    """
    entropy_error = error_of(log_z_terms + betas * energy_terms)
    return Temperatures(
        betas=betas,
        log_z=log_z,
        log_z_error=np.hypot(error_of(log_z_terms), log_z_floor),
        energy=energy,
        energy_error=error_of(energy_terms),
        heat_capacity=betas * (betas * variance),
        heat_capacity_error=betas * (betas * error_of(variance_terms)),
        entropy=log_z + betas * energy,
        entropy_error=np.hypot(entropy_error, log_z_floor),
    )
