"""The table of inference methods, and the one call that runs any of them."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from .. import _checks, rng, threads as threads_module
from ..clamping import Clamped
from ..model import BoltzmannMachine
from ..threads import single_threaded_blas
from .annealed import ais, refuse_no_layers
from .exact import exact, refuse_if_long
from .mean_field import mean_field
from .monte_carlo import monte_carlo
from .result import Inference, expand, moments_of, stack
from .sampled_states import sampled_states

SETTINGS = ("model", "rule", "beta", "moments", "seed", "threads")


@dataclass(frozen=True)
class Method:
    """One row of the table. `refuse(model, n_free, threads, options)` raises where the method cannot be had."""

    function: Callable[..., Inference]
    refuse: Callable[[BoltzmannMachine, int, int, dict[str, Any]], None] = lambda model, n_free, threads, options: None

    @cached_property
    def settings(self) -> set[str]:
        """Which of the common settings the function takes."""
        return set(inspect.signature(self.function).parameters) & set(SETTINGS)

    @cached_property
    def options(self) -> dict[str, inspect.Parameter]:
        """Its own options."""
        return {k: p for k, p in inspect.signature(self.function).parameters.items() if k not in SETTINGS}


def _refuse_long_sums(model: BoltzmannMachine, n_free: int, threads: int, options: dict[str, Any]) -> None:
    refuse_if_long(n_free, threads, **{k: v for k, v in options.items() if k == "max_forecast_seconds"})


def _refuse_no_layers(model: BoltzmannMachine, n_free: int, threads: int, options: dict[str, Any]) -> None:
    refuse_no_layers(model)


METHODS = {
    "exact": Method(exact, _refuse_long_sums),
    "sampled-states": Method(sampled_states),
    "mean-field": Method(mean_field),
    "ais": Method(ais, _refuse_no_layers),
    "gibbs": Method(partial(monte_carlo, rule="gibbs")),
    "metropolis": Method(partial(monte_carlo, rule="metropolis")),
}


def check_options(method: str, options: dict[str, Any]) -> None:
    """Refuse an unknown method or option, naming the nearest and listing those there are."""
    valid = METHODS[_checks.choice("method", method, METHODS)].options
    for name in options:
        if name not in valid:
            raise TypeError(
                f"{method} has no option {name!r}.{_checks.nearest(name, valid)} It takes: "
                f"{', '.join(valid) or 'none'}."
            )


def check_call(model: BoltzmannMachine, method: str, clamp: Any, threads: int, options: dict[str, Any]) -> None:
    """Refuse, before anything is computed or written, what cannot be done."""
    check_options(method, options)
    n_free = model.n_units
    if clamp is not None:
        if not isinstance(clamp, (tuple, list)) or len(clamp) != 2:
            raise ValueError(f"clamp must be a pair (indices, values); got {clamp!r}.")
        n_free = Clamped.of(model, *clamp).free.size
    METHODS[method].refuse(model, n_free, threads, options)


def run_method(
    model: BoltzmannMachine,
    method: str,
    *,
    beta: float,
    clamp: Any,
    moments: bool,
    seed: int,
    threads: int,
    **options: Any,
) -> Inference:
    """Run a checked method on a machine, or on what clamping leaves of it."""
    start = time.perf_counter()
    with single_threaded_blas() if model.is_layered else nullcontext():
        result = _dispatch(model, method, beta, clamp, {"moments": moments, "seed": seed, "threads": threads} | options)
    if not moments:
        result = replace(result, mean=None, mean_error=None, second_moment=None, covariance=None)
    return replace(result, method=method, seconds=time.perf_counter() - start)


def _dispatch(model: BoltzmannMachine, method: str, beta: float, clamp: Any, settings: dict[str, Any]) -> Inference:
    entry = METHODS[method]
    given = {"beta": beta} | {k: v for k, v in settings.items() if k in entry.settings or k not in SETTINGS}
    if clamp is None:
        return entry.function(model, **given)
    indices, values = clamp
    clamped = Clamped.of(model, indices, values)
    results = []
    for k in range(clamped.n_patterns):
        if not clamped.free.size:
            results.append(_nothing_free(clamped, k, beta))
            continue
        if "seed" in given and clamped.n_patterns > 1:
            given["seed"] = rng.derive(settings["seed"], k)
        results.append(expand(entry.function(clamped.machine(k), **given), clamped, k))
    return stack(results) if np.ndim(values) == 2 else results[0]


def _nothing_free(clamped: Clamped, pattern: int, beta: float) -> Inference:
    """All units are clamped: a single state is left."""
    energy = float(clamped.offset[pattern])
    mean = clamped.full_states(pattern, np.empty(0))
    moments: dict[str, Any] = {**moments_of(mean, np.outer(mean, mean))}
    return Inference(
        "exact",
        log_z=-beta * energy,
        log_z_error=0.0,
        bound="exact",
        energy=energy,
        energy_error=0.0,
        energy_variance=0.0,
        entropy=0.0,
        mean_error=np.zeros_like(mean),
        n_samples=1,
        **moments,
    )


def infer(
    model: BoltzmannMachine,
    method: str,
    *,
    beta: float = 1.0,
    clamp: tuple[Any, Any] | None = None,
    moments: bool = True,
    seed: int | None = 0,
    threads: int | None = None,
    **options: Any,
) -> Inference:
    """Check the arguments and run one method; `fastbm.infer` adds storage."""
    if not isinstance(model, BoltzmannMachine):
        raise TypeError(f"model must be a BoltzmannMachine; got {type(model).__name__}.")
    check_call(model, method, clamp, threads_module.resolve(threads), options)
    return run_method(
        model,
        method,
        beta=_checks.real("beta", beta, least=0.0),
        clamp=clamp,
        moments=moments,
        seed=rng.resolve(seed),
        threads=threads_module.resolve(threads),
        **options,
    )
