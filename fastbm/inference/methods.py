"""The table of inference methods, and the one call that runs any of them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._base import checks, rng, threads as threads_module
from .._base.options import pick, usual
from .._base.threads import single_threaded_blas
from .._base.workers import Pieces, leaving
from ..exact.choice import DIRECT
from ..kernels.stopwatch import Stopwatch
from ..machine.clamping import Clamped
from ..machine.machine import BoltzmannMachine, check_machine
from ..machine.magnitude import refuse_beyond_range
from .ais.method import AIS, ReverseAIS
from .counted import confront_approximation
from .estimator import Drawing, Estimator, Examined
from .exact.method import Exact
from .fixed_point.bethe import Bethe
from .fixed_point.mean_field import MeanField
from .fixed_point.tap import TAP
from .importance_sampling import ImportanceSampling
from .looks import Looks
from .monte_carlo import Gibbs, Metropolis
from .population_annealing import PopulationAnnealing
from .result import Inference, check_pairs, expand, nothing_free, stack
from .sampled_states.method import SampledStates
from .subject import Subject, clamp_of
from .temperatures import expand_curves
from .tempering.method import Tempering
from .verdict import UNASKED

Told = list[tuple[str, type[Warning]]]  # warnings

METHODS: dict[str, type[Estimator]] = {
    cls.name: cls
    for cls in (
        Exact, SampledStates, MeanField, TAP, Bethe, AIS, Gibbs, Metropolis, Tempering, PopulationAnnealing, ReverseAIS,
        ImportanceSampling,
    )
}  # fmt: skip


def make_estimator(method: Any, options: Mapping[str, Any], argument: str = "method") -> Estimator:
    """Return the method that a name and its options, or an object, stand for; `argument` names it in errors.

    Raises
    ------
    TypeError, ValueError
        For a method or option that is unknown, naming the nearest, and for options that would do nothing.
    """
    if isinstance(method, str) and method == "auto":
        raise ValueError("auto chooses a method for infer alone; name one here.")
    cls: Any = pick(argument, method, METHODS, options)
    if isinstance(cls, Estimator):
        return cls
    for name in options:
        if name not in cls.names():
            raise TypeError(
                f"{method} has no option {name!r}.{checks.nearest(name, cls.names())} It takes: "
                f"{', '.join(cls.names()) or 'none'}."
            )
    found: Estimator = cls(**options) if options else usual(cls)
    return found


def check_call(
    model: BoltzmannMachine, method: Any, beta: float, clamp: Any, options: Mapping[str, Any], moments: bool = False
) -> Estimator:
    """Return the method, or refuse what cannot be done, before anything is computed or written.

    "exact" looks at its costs, and at what it can hold, when it plans.
    """
    chosen = make_estimator(method, options)
    if not isinstance(chosen, Exact):
        refuse_beyond_range(model, beta)
    if clamp is not None:
        if not isinstance(clamp, (tuple, list)) or len(clamp) != 2:
            raise ValueError(f"clamp must be a pair (indices, values); got {clamp!r}.")
        Clamped.of(model, *clamp)
    if moments and chosen.all_pairs:
        check_pairs(model.n_units)
    return chosen


def run_method(
    model: BoltzmannMachine,
    method: str | Estimator,
    *,
    beta: float,
    clamp: Any,
    moments: bool,
    seed: int,
    threads: int,
    plan: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    **options: Any,
) -> Inference:
    """Run a method on a machine, or on what clamping leaves of it.

    `plan` is what was chosen before for "exact"; an executor does pieces of what `can_be_cut`.
    """
    watch = Stopwatch()
    chosen = make_estimator(method, options)
    if isinstance(chosen, Exact):  # its engines hold BLAS to a thread where they need it, and small sums are soon done
        result = chosen.sum(model, beta=beta, clamp=clamp, moments=moments, threads=threads, plan=plan)
    else:
        # on more threads products have other bits, and threads of BLAS keep processors busy after them
        with single_threaded_blas():
            try:
                common: dict[str, Any] = {"beta": beta, "moments": moments, "seed": seed, "threads": threads}
                result = _dispatch(model, chosen, clamp, common, executor)
            except MemoryError as error:
                raise ValueError(f"{chosen.name} does not fit into memory ({error}). Lower {_sizes(chosen)}.") from None
    if not moments and result.mean is not None:
        result = replace(result, mean=None, mean_error=None, second_moment=None, covariance=None)
    about: dict[str, Any] = {"subject": Subject(model, beta, clamp_of(clamp)), "compile_seconds": watch.compile_seconds}
    return result.told(method=chosen.name, seconds=watch.seconds, **about)


def can_be_cut(method: str, clamp: Any) -> bool:
    """Return whether an executor has more than one piece to do of a single call."""
    return METHODS[method].cut or (clamp is not None and np.ndim(clamp[1]) == 2)


def _sizes(chosen: Estimator) -> str:
    """Return the names of the options that bound how much is held at once."""
    return " or ".join(name for name in chosen.names() if name.startswith("n_"))


def _dispatch(
    model: BoltzmannMachine, chosen: Estimator, clamp: Any, common: dict[str, Any], executor: Executor | None
) -> Inference:
    """Run a method on a machine, or on each of many clamped patterns, which are pieces."""
    cut = {"executor": executor} if executor is not None and chosen.cut else {}
    if clamp is None:
        return _one(chosen, model, common | cut)
    indices, values = clamp
    clamped = Clamped.of(model, indices, values)
    if clamped.n_patterns > 1:
        results = _each(Patterns(chosen, clamped, common), executor)
    else:
        results = [_pattern(Patterns(chosen, clamped, common | cut), 0)]
    if clamped.free.size:
        results = [expand(expand_curves(found, clamped, k), clamped, k) for k, found in enumerate(results)]
    return stack(results) if np.ndim(values) == 2 else results[0]


class Patterns(NamedTuple):
    """A method and the patterns that are clamped, one after the other, as it runs on the free units."""

    chosen: Estimator
    clamped: Clamped
    common: dict[str, Any]


def _pattern(patterns: Patterns, k: int) -> Inference:
    """Run the method with one pattern clamped; moments are of the free units."""
    chosen, clamped, common = patterns
    if not clamped.free.size:
        return nothing_free(clamped, k, common["beta"], common["moments"])
    own = common | {"seed": rng.derive(common["seed"], k)} if clamped.n_patterns > 1 else common
    return _one(chosen, clamped.machine(k), own)


def _each(patterns: Patterns, executor: Executor | None) -> list[Inference]:
    """Run the method on every pattern, here or by workers: each is another machine, and is examined by itself."""
    numbers = range(patterns.clamped.n_patterns)
    if executor is None or not patterns.clamped.free.size:
        done = [_keeping(patterns, k) for k in numbers]
    else:
        pieces = Pieces(executor, do_pattern, patterns, len(numbers))
        done = [pieces.take() for _ in numbers]
    for text, category, first, n_more in _kinds([told for _, told in done]):
        more = f" So it is with {n_more} pattern{'s' if n_more > 1 else ''} more." if n_more else ""
        checks.warn(f"clamped pattern {first}: {text}{more}", category)
    return [found for found, _ in done]


def _kinds(told: list[Told]) -> list[tuple[str, type[Warning], int, int]]:
    """Return the first warning of each category, the pattern that has it, and how many others have one of these."""
    whose: dict[type[Warning], list[tuple[int, str]]] = {}
    for k, warnings in enumerate(told):
        for category, text in {category: text for text, category in reversed(warnings)}.items():
            whose.setdefault(category, []).append((k, text))
    return [(some[0][1], category, some[0][0], len(some) - 1) for category, some in whose.items()]


def _keeping(patterns: Patterns, k: int) -> tuple[Inference, Told]:
    """Return the result of a pattern and the warnings that belong to it."""
    with checks.keeping_warnings() as told:
        return _pattern(patterns, k), told


def do_pattern(patterns: Patterns, k: int) -> tuple[Inference, Told]:
    """Do a pattern where it has been sent to."""
    with leaving(), single_threaded_blas():
        return _keeping(patterns._replace(common=patterns.common | {"threads": 1}), k)


def _one(chosen: Estimator, model: BoltzmannMachine, common: Mapping[str, Any]) -> Inference:
    """Run a method on one machine, and have its result examined, unless the method does so itself."""
    if isinstance(chosen, Drawing):
        common = {**common, "threads": chosen.worth(model, common["threads"])}
    if isinstance(chosen, Drawing) and chosen.witness:
        drawn = chosen.draw(model, **common)
        looks = Looks(model, drawn.detail, common, halved=not chosen.itself)
        found = looks.beside(drawn, of_log_z=chosen.of_log_z, witness=not chosen.itself)
    else:
        found = chosen.run(model, **common)
        looks = Looks(model, found.detail, common)
    if isinstance(chosen, Examined) and not chosen.witness:
        unasked = bool(found.converged) and not chosen.itself
        return replace(found, converged=None, detail={"doubt": UNASKED} | found.detail) if unasked else found
    if isinstance(chosen, Examined) and not chosen.itself:
        found = looks.examined(found)
    if isinstance(chosen, (Examined, ImportanceSampling)):
        found = looks.confronted(found)
    if isinstance(chosen, (TAP, Bethe)):
        found = confront_approximation(model, found, common["beta"])
    return found


def infer(
    model: BoltzmannMachine,
    method: str | Estimator,
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
    chosen = check_call(model, method, beta, clamp, options, moments)
    # sums of so few units have nothing for a second thread, and to ask how many there are takes a tenth of their time
    alone = threads is None and isinstance(chosen, Exact) and model.n_units <= DIRECT
    return run_method(
        model,
        chosen,
        beta=beta,
        clamp=clamp,
        moments=moments,
        seed=rng.resolve(seed),
        threads=1 if alone else threads_module.resolve(threads),
    )
