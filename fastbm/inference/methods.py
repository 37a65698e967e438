"""The table of inference methods, and the one call that runs any of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from .._base import checks, rng, threads as threads_module
from .._base.threads import single_threaded_blas
from ..kernels.stopwatch import Stopwatch
from ..machine.clamping import Clamped
from ..machine.machine import BoltzmannMachine, check_machine
from ..machine.magnitude import refuse_beyond_range
from .ais.method import MEANS, ais, reverse_ais
from .exact.method import exact
from .fixed_point.bethe import bethe
from .fixed_point.mean_field import mean_field
from .fixed_point.tap import tap
from .idle import refuse_idle
from .importance_sampling import importance_sampling
from .monte_carlo import monte_carlo
from .population_annealing import population_annealing
from .result import Inference, check_pairs, expand, nothing_free, stack
from .sampled_states.method import sampled_states
from .subject import Subject, clamp_of
from .tempering.method import tempering
from .verdict import UNASKED
from .witness import examine

SETTINGS = ("model", "rule", "beta", "clamp", "moments", "seed", "threads", "executor", "plan")


WITNESS = inspect.Parameter("witness", inspect.Parameter.KEYWORD_ONLY, default=True, annotation=bool)


class Knob(NamedTuple):
    """The option that makes a method take longer, and better, about in proportion: a multiple of `least`."""

    name: str
    least: int
    most: int


@dataclass(frozen=True)
class Method:
    """One row of the table. `knob` is what a budget decides; `all_pairs` says that moments come as a full matrix;
    `examined`, that an independent look may contradict the result (see `fastbm.inference.witness`).
    """

    function: Callable[..., Inference]
    knob: Knob | None = None
    all_pairs: bool = False
    examined: bool = False

    @cached_property
    def settings(self) -> set[str]:
        """Which of the common settings the function takes."""
        return set(inspect.signature(self.function).parameters) & set(SETTINGS)

    @cached_property
    def options(self) -> dict[str, inspect.Parameter]:
        """Options that are the method's own."""
        own = {k: p for k, p in inspect.signature(self.function).parameters.items() if k not in SETTINGS}
        return own | ({"witness": WITNESS} if self.examined else {})


SWEEPS = Knob("n_sweeps", 50, 10_000_000)
BETAS = Knob("n_betas", 20, 1_000_000)

METHODS = {
    "exact": Method(exact),
    "sampled-states": Method(sampled_states, knob=SWEEPS, all_pairs=True, examined=True),
    "mean-field": Method(mean_field),
    "tap": Method(tap),
    "bethe": Method(bethe),
    "ais": Method(ais, knob=BETAS, all_pairs=True),
    "gibbs": Method(partial(monte_carlo, rule="gibbs"), knob=SWEEPS, all_pairs=True, examined=True),
    "metropolis": Method(partial(monte_carlo, rule="metropolis"), knob=SWEEPS, all_pairs=True, examined=True),
    "tempering": Method(tempering, knob=SWEEPS, all_pairs=True, examined=True),
    "population-annealing": Method(
        population_annealing, knob=Knob("n_chains", 256, 1 << 20), all_pairs=True, examined=True
    ),
    "reverse-ais": Method(reverse_ais, knob=BETAS),
    "importance-sampling": Method(importance_sampling, knob=Knob("n_sweeps", 250, 100_000), all_pairs=True),
}


def check_options(method: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown method or option, naming the nearest and listing those there are, and what would do nothing."""
    if method == "auto":
        raise ValueError("auto chooses a method for infer alone; name one here.")
    valid = METHODS[checks.choice("method", method, METHODS)].options
    for name in options:
        if name not in valid:
            raise TypeError(
                f"{method} has no option {name!r}.{checks.nearest(name, valid)} It takes: {', '.join(valid) or 'none'}."
            )
    refuse_idle(method, options)


def check_call(
    model: BoltzmannMachine, method: str, beta: float, clamp: Any, options: Mapping[str, Any], moments: bool = False
) -> None:
    """Refuse, before anything is computed or written, what cannot be done; "exact" looks at its costs, and at what it
    can hold, when it plans.
    """
    check_options(method, options)
    if method != "exact":
        refuse_beyond_range(model, beta)
    if clamp is not None:
        if not isinstance(clamp, (tuple, list)) or len(clamp) != 2:
            raise ValueError(f"clamp must be a pair (indices, values); got {clamp!r}.")
        Clamped.of(model, *clamp)
    if moments and METHODS[method].all_pairs:
        check_pairs(model.n_units)


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
    watch = Stopwatch()
    if method == "exact":  # its engines hold BLAS to a thread where they need it, and small sums are soon done
        result = exact(model, beta=beta, clamp=clamp, moments=moments, threads=threads, **options)
    else:
        with single_threaded_blas() if model.is_layered else nullcontext():
            settings = {"moments": moments, "seed": seed, "threads": threads} | options
            try:
                result = _dispatch(model, method, beta, clamp, settings)
            except MemoryError as error:
                raise ValueError(f"{method} does not fit into memory ({error}). Lower {_sizes(method)}.") from None
    if not moments and result.mean is not None:
        result = replace(result, mean=None, mean_error=None, second_moment=None, covariance=None)
    about: dict[str, Any] = {"subject": Subject(model, beta, clamp_of(clamp)), "compile_seconds": watch.compile_seconds}
    return replace(result, method=method, seconds=watch.seconds, **about)


def _sizes(method: str) -> str:
    """The options that say how much is held at once."""
    return " or ".join(name for name in METHODS[method].options if name.startswith("n_"))


def _dispatch(model: BoltzmannMachine, method: str, beta: float, clamp: Any, settings: dict[str, Any]) -> Inference:
    entry = METHODS[method]
    given = {"beta": beta} | {k: v for k, v in settings.items() if k in entry.settings or k not in SETTINGS}
    if clamp is None:
        return _one(entry, model, given, settings)
    indices, values = clamp
    clamped = Clamped.of(model, indices, values)
    results: list[Inference] = []
    for k in range(clamped.n_patterns):
        if not clamped.free.size:
            results.append(nothing_free(clamped, k, beta, settings["moments"]))
            continue
        if "seed" in given and clamped.n_patterns > 1:
            given["seed"] = rng.derive(settings["seed"], k)
        found = _one(entry, clamped.machine(k), given, settings)
        if "witness" in entry.options:  # patterns share that of the first, and its base
            given["witness"] = False
            if "start" in entry.options and (given.get("start") is None or MEANS in found.detail):
                given["start"] = found.detail.get(MEANS, found.detail["start"])
            if k and found.detail.get("doubt") == UNASKED:
                told = {name: value for name, value in found.detail.items() if name != "doubt"}
                found = replace(found, converged=results[0].converged, detail=told)
        results.append(expand(found, clamped, k))
    return stack(results) if np.ndim(values) == 2 else results[0]


def _one(entry: Method, model: BoltzmannMachine, given: Mapping[str, Any], settings: Mapping[str, Any]) -> Inference:
    """Run a method on one machine; what it says of itself is examined."""
    if not entry.examined:
        return entry.function(model, **given)
    witness = given.get("witness", True)
    if not isinstance(witness, (bool, np.bool_)):
        raise TypeError(f"witness must be True or False; got {witness!r}.")
    found = entry.function(model, **{name: value for name, value in given.items() if name != "witness"})
    if witness:
        return examine(model, found, given["beta"], given["seed"], settings["threads"])
    return replace(found, converged=None, detail={"doubt": UNASKED} | found.detail) if found.converged else found


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
    check_machine(model)
    beta = checks.real("beta", beta, least=0.0)
    check_call(model, method, beta, clamp, options, moments)
    return run_method(
        model,
        method,
        beta=beta,
        clamp=clamp,
        moments=moments,
        seed=rng.resolve(seed),
        threads=threads_module.resolve(threads),
        **options,
    )
