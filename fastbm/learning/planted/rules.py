"""The rules of a comparison: how they are read and checked, and how one learns from rows of a planted machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._base import checks
from ...inference.exact.method import refuse_if_long
from ...kernels.stopwatch import Stopwatch
from ...machine.machine import BoltzmannMachine
from .. import make
from ..learn import way_out
from ..methods import OF_RULES, PRESETS, RULES
from ..rules import prepare
from ..settings import FitSettings
from ..training_set import Sample

SMALLEST = np.array([[0, 1], [1, 0]], np.uint8)  # rows to try the options of a rule on


class Learned(NamedTuple):
    """A learned machine at beta = 1; `converged` is None where the rule cannot decide it."""

    machine: BoltzmannMachine
    converged: bool | None
    seconds: float


def read_rules(
    entries: Any, options: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the method and the options of every rule by its label.

    An entry is the name of a method of `fit`, or a dict of "method", options and perhaps a "label"; `options` are those
    of every rule with that method, which entries overrule.
    """
    if isinstance(entries, (str, Mapping)):
        entries = [entries]
    if not isinstance(entries, Sequence) or not entries:
        raise TypeError(f"rules must list names of methods, or dicts such as {EXAMPLE}; got {entries!r}.")
    shared: dict[str, Any] = {} if options is None else dict(options)
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for entry in entries:
        label, method, chosen = _read_rule(entry)
        merged = {**shared.get(method, {}), **chosen}
        if label in found:
            raise ValueError(f"rules name {label!r} twice. Give one of them a label, such as {EXAMPLE}.")
        _check_rule(label, method, merged)
        found[label] = (method, merged)
    if extra := set(shared) - {method for method, _ in found.values()}:
        raise ValueError(f"options names {min(extra)!r}, which is not among the rules: {', '.join(found)}.")
    return found


EXAMPLE = '{"method": "rise", "l1": 0.02, "label": "sparse rise"}'


def _read_rule(entry: Any) -> tuple[str, str, dict[str, Any]]:
    given = {"method": entry} if isinstance(entry, str) else entry
    if not isinstance(given, Mapping) or "method" not in given:
        raise TypeError(f"rules must be names of methods, or dicts such as {EXAMPLE}; got {entry!r}.")
    chosen = dict(given)
    method = checks.choice("rules", chosen.pop("method"), PRESETS)
    label = chosen.pop("label", None)
    if label is None:
        label = ", ".join([method, *(f"{name} = {value}" for name, value in chosen.items())])
    if not isinstance(label, str) or not label:
        raise TypeError(f"label must be a text; got {label!r} for rule {method!r}.")
    return label, method, chosen


def _check_rule(label: str, method: str, options: Mapping[str, Any]) -> None:
    """Refuse options that the rule takes on no machine."""
    known = ["n_hidden", "layout", *(name for name in OF_RULES if name != "beta")]
    for name in options:
        if name not in known:
            raise TypeError(
                f"rule {label!r} has no option {name!r}.{checks.nearest(name, known)} Options are those of fit."
            )
    try:
        few = {name: value for name, value in options.items() if name != "layout" or "n_hidden" in options}
        prepare(SMALLEST, method, {"n_hidden": 0, **few}, "spin", 0)
    except (ValueError, TypeError) as error:
        raise type(error)(f"rule {label!r}: {error}") from None


def learn(
    up: np.ndarray,
    planted: BoltzmannMachine,
    method: str,
    options: Mapping[str, Any],
    *,
    seed: int,
    threads: int,
    budget: float | None,
) -> Learned:
    """Learn a machine, at beta = 1, from rows of bits that a planted one gave.

    Rules that have phases get as many hidden units as the planted machine has, unless `n_hidden` is among the options.

    Raises
    ------
    ValueError
        Where the rule cannot take the rows or the machine, or needs more than `budget` seconds.
    """
    watch = Stopwatch()
    like = {} if options.get("n_hidden") == 0 else _like(planted, method)
    start, settings = prepare(up, method, {**like, **options}, planted.units, seed)
    _refuse_long_sums(start, settings, threads)
    driver = make.make(start, Sample.of(start, {"rows": up}), settings, threads)
    n_epochs = 0
    while n_epochs < settings.epochs and not driver.done:
        n_epochs += bool(driver.epoch(n_epochs))  # which may do a part of an epoch
        if budget is not None and watch.seconds > budget:
            raise ValueError(f"not learned within budget = {budget:g} s.")
    parameters = driver.parameters
    if not all(np.isfinite(array).all() for array in parameters.arrays):
        raise checks.Diverged(f"learning diverged: parameters are not finite. {way_out(settings)}")
    driver.judge(n_epochs)
    return Learned(parameters.machine(start), driver.converged, watch.seconds)


def _refuse_long_sums(start: BoltzmannMachine, settings: FitSettings, threads: int) -> None:
    """Refuse exact phases that would take too long, with the forecast."""
    if settings.free == "exact":
        refuse_if_long(start, threads)
    if settings.clamped == "exact" and not start.hidden_are_independent:
        refuse_if_long(start.hidden(), threads)


def warm_up(method: str, hidden: bool, threads: int) -> None:
    """Apply a rule to all states of three units once, so that no measured time includes the loading of its kernels."""
    up = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(np.uint8)
    nothing = BoltzmannMachine([np.zeros((3, 2))] if hidden else np.zeros((3, 3)), units="spin")
    few = {"epochs": 2} if "epochs" in RULES[method].names() else {}
    learn(up, nothing, method, few, seed=0, threads=threads, budget=None)


def _like(planted: BoltzmannMachine, method: str) -> dict[str, Any]:
    """Return options for hidden units like the planted machine's, where the rule can learn these."""
    if not planted.n_hidden or PRESETS[method].driver != "phases":
        return {"n_hidden": 0}
    return {"n_hidden": planted.n_hidden, "layout": "restricted" if planted.hidden_are_independent else "general"}
