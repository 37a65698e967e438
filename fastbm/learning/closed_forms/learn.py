"""Learning of visible machines from moments in one step, each rule a formula of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..._base import checks
from ..._base.threads import single_threaded_blas
from ...data.moments import Moments
from ...machine.couplings import Dense
from ...machine.machine import BoltzmannMachine
from ...machine.units import SPIN, units as convention
from . import bethe, independent_pair, naive_mean_field, sessak_monasson, tap
from .covariances import Couplings

CONSTANT = 1e-12  # 1 - |m| of spins that never change, up to rounding


class ClosedForm(NamedTuple):
    """A closed form: `couple(mean, covariance)` of spins at beta = 1, its log Z, and whether C is inverted."""

    couple: Callable[[np.ndarray, np.ndarray], Couplings]
    log_z: Callable[[np.ndarray, np.ndarray, Couplings], float]
    inverts: bool = True


CLOSED_FORMS: dict[str, ClosedForm] = {
    "independent-pair": ClosedForm(independent_pair.couple, independent_pair.log_z, inverts=False),
    "naive-mean-field": ClosedForm(naive_mean_field.couple, naive_mean_field.log_z),
    "tap": ClosedForm(tap.couple, tap.log_z),
    "sessak-monasson": ClosedForm(sessak_monasson.couple, sessak_monasson.log_z),
    "bethe": ClosedForm(bethe.couple, bethe.log_z),
}


def learn(
    moments: Moments,
    method: str,
    *,
    beta: float = 1.0,
    flip_noise: float = 0.0,
    ridge: float = 0.0,
    units: str | None = None,
) -> tuple[BoltzmannMachine, float]:
    """Learn a visible machine from moments by a closed form.

    Parameters
    ----------
    moments : Moments
    method : {"independent-pair", "naive-mean-field", "tap", "sessak-monasson", "bethe"}
    beta : float
        The machine is to have these moments at `beta`, above 0.
    flip_noise : float
        Probability, below 1/2, with which each unit is taken to be flipped (`Moments.flipped`).
    ridge : float
        Added to the diagonal of the covariance, in units of the mean variance of a unit.
    units : {"binary", "spin"}, optional
        Of the machine; those of the moments when left out.

    Returns
    -------
    model : BoltzmannMachine
    log_z : float
        The rule's own log Z of the machine at `beta`, in nats; as approximate as the couplings.

    Raises
    ------
    ValueError
        For units that are constant, a covariance that is singular, and pairs for which the rule has no solution.
    """
    rule = CLOSED_FORMS[checks.choice("method", method, CLOSED_FORMS)]
    beta = checks.real("beta", beta, above=0.0)
    ridge = checks.real("ridge", ridge, least=0.0)
    flip_noise = checks.real("flip_noise", flip_noise, least=0.0)
    if flip_noise >= 0.5:
        raise ValueError(f"flip_noise must be below 0.5; got {flip_noise:g}.")
    if ridge and not rule.inverts:
        raise ValueError(f'method "{method}" inverts no covariance, so that ridge does nothing; use flip_noise.')
    target = moments.units if units is None else convention(units).name
    spin = moments.to_units("spin").flipped(flip_noise)
    _refuse_constant(spin.mean)
    covariance = spin.covariance
    covariance[np.diag_indices(len(covariance))] += ridge * float((1.0 - spin.mean**2).mean())
    with single_threaded_blas():
        try:
            found = rule.couple(spin.mean, covariance)
        except np.linalg.LinAlgError:
            raise ValueError(_singular(moments, method)) from None
        log_z = rule.log_z(spin.mean, covariance, found)
    return spin_machine(found, beta).to_units(target), log_z


def spin_machine(found: Couplings, beta: float = 1.0) -> BoltzmannMachine:
    """Return the machine that an inversion found; self-couplings become offset."""
    offset = 0.0 if found.diagonal is None else -0.5 * float(found.diagonal.sum()) / beta
    return BoltzmannMachine.trusted(Dense(found.weights / beta), found.bias / beta, SPIN, 0, offset)


def _refuse_constant(mean: np.ndarray) -> None:
    constant = np.flatnonzero(1.0 - np.abs(mean) < CONSTANT)
    if constant.size:
        i = constant[0]
        raise ValueError(
            f"moments have units that never change, so that their biases are infinite: unit {i} is always "
            f"{'up' if mean[i] > 0 else 'down'}, {constant.size} such units in all. Use flip_noise above 0, or leave "
            "these units out."
        )


def _singular(moments: Moments, method: str) -> str:
    rows = "exact moments" if moments.n_samples is None else f"moments of {moments.n_samples} rows"
    return (
        f'method "{method}" inverts the covariance, which is singular ({rows}, {moments.n_units} units): some units '
        "follow from others, or rows are too few. Use flip_noise or ridge above 0."
    )
