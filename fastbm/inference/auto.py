"""Which method `infer(model, "auto")` takes: an exact sum if it fits the budget, else what estimates best."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

from ..clamping import Clamped
from ..exact.choosing import duration
from ..magnitude import refuse_beyond_range
from ..model import BoltzmannMachine
from .exact import forecast_seconds
from .methods import run_method

BUDGET = 60.0  # seconds


@dataclass(frozen=True)
class Settled:
    """The method that was chosen, its options, and `note`, what was known and why."""

    method: str
    options: dict[str, Any] = field(default_factory=dict)
    note: dict[str, Any] = field(default_factory=dict)


def settle(
    model: BoltzmannMachine, *, beta: float, clamp: Any, moments: bool, seed: int, threads: int, budget: float
) -> Settled:
    """Choose a method for a machine, clamped or not, by forecasts alone and a look by mean field.

    Exact sums are taken if their forecast, by the built-in speeds, fits the budget. Otherwise layered machines, half of
    whose units AIS sums in closed form, get "ais" from both ends, and all others "tempering", whose moments can be
    trusted too. How long they run is left to the budget.
    """
    machine, n_sums = _sums(model, clamp)
    forecast = n_sums * forecast_seconds(machine, moments=moments, threads=threads) if n_sums else 0.0
    told = "out of reach" if math.isinf(forecast) else duration(forecast)
    if forecast <= budget:
        why = f"an exact sum takes {told}, within the budget of {duration(budget)}"
        return Settled("exact", {"max_forecast_seconds": budget}, {"why": why})
    refuse_beyond_range(model, beta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is a look, and says itself whether it converged
        look = run_method(model, "mean-field", beta=beta, clamp=clamp, moments=False, seed=seed, threads=threads)
    exact = f"an exact sum ({told}) does not fit the budget of {duration(budget)}"
    if machine.is_layered:
        why, method, options = "layers: AIS sums every second one in closed form", "ais", {"bracket": True}
    else:
        why, method, options = "no layers: tempering gives log Z and moments from the same samples", "tempering", {}
    note = {"why": f"{exact}; {why}", "mean-field log Z": look.log_z, "mean-field converged": look.converged}
    return Settled(method, options, note)


def _sums(model: BoltzmannMachine, clamp: Any) -> tuple[BoltzmannMachine, int]:
    """A machine that is to be summed, and how many alike there are; 0 where nothing is free."""
    if clamp is None:
        return model, 1
    clamped = Clamped.of(model, *clamp)
    return (clamped.machine(0), clamped.n_patterns) if clamped.free.size else (model, 0)
