"""Resolution of a learning rule: how each phase is inferred, defaults for the rest, and options that are refused.

Options that nothing would look at are better refused than ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from .._base import checks, rng
from .._base.options import option_checks
from ..inference.scout.bases import plain_start
from ..machine.couplings import Dense
from ..machine.machine import BoltzmannMachine
from .closed_forms.learn import CLOSED_FORMS
from .learners.local_objectives import RULES as LOCAL_RULES
from .learners.restricted import chains_of_batch, serves
from .methods import OF_MONITOR, OF_RULES, PRESETS, RULES, Preset
from .optimise.sgd import OPTIMIZERS, PLAIN
from .phases.exact import ClampedExact, FreeExact
from .phases.gibbs import ClampedAnnealed, ClampedGibbs, FreeAnnealed, FreeContrastive, FreeGibbs, FreeRestarted
from .phases.mean_field import ClampedMeanField, ClampedVariational, FreeMeanField
from .phases.phase import OWN_CHAINS, Phase
from .phases.tap import ClampedTap, FreeTap
from .phases.tempering import FreeTempering
from .settings import FitSettings, inverse_temperature
from .training_set import smoothed_means, start_machine

CLAMPED = {
    phase.name: phase
    for phase in (ClampedExact, ClampedGibbs, ClampedAnnealed, ClampedMeanField, ClampedVariational, ClampedTap)
}
FREE = {
    phase.name: phase
    for phase in (
        FreeExact, FreeGibbs, FreeContrastive, FreeRestarted, FreeAnnealed, FreeTempering, FreeMeanField, FreeTap,
    )
}  # fmt: skip
AUTO = "auto"  # "gibbs" first, "tempering" if need be: `fastbm.learning.learners.adaptive`
OFF = (0, False, "constant")  # values that ask for nothing
OPTIMIZER_NAMES = (*OPTIMIZERS, "l-bfgs")
ERRORS = ("fisher", "bootstrap")
N_STARTS = 8  # of hidden units' couplings, for "l-bfgs"
STEPPING = ("optimizer", "learning_rate", "momentum", "schedule", "centring")  # how to step
N_EPOCHS, GAIN = 800, 0.3  # of natural steps, which end by themselves
LOOKS_SECONDS = 5.0  # of exact sums beside a learning that takes none


def resolve(model: BoltzmannMachine, method: str, clamped: str | None, free: str | None) -> tuple[Preset, str, str]:
    """Return the preset and the names of both phases, checked against the machine."""
    preset = PRESETS[checks.choice("method", method, PRESETS)]
    if preset.driver != "phases":
        _check_visible(model, method, clamped, free)
        if preset.driver == "closed" and not isinstance(model.couplings, Dense):
            raise ValueError(
                f"method={method!r} couples all pairs; init has {model.couplings.kind} couplings. Leave init out, "
                'or use method="exact" or "pseudolikelihood", which keep to its pairs.'
            )
        return preset, preset.clamped, preset.free
    if clamped is None:
        clamped = preset.clamped
        if clamped == "exact" and preset.free != "exact" and not model.hidden_are_independent:
            # hidden units that are coupled to one another have no closed form
            clamped = "variational" if model.layout == "deep" else "gibbs"
    free = preset.free if free is None else free
    checks.choice("clamped", clamped, CLAMPED)
    checks.choice("free", free, (*FREE, AUTO))
    if free == "contrastive" and not model.hidden_are_independent:
        raise ValueError(
            'free="contrastive" (method "cd") needs hidden units that are not coupled to one another. Use '
            'method="monte-carlo", "pcd" for layers, or layout="restricted".'
        )
    return preset, clamped, free


def _check_visible(model: BoltzmannMachine, method: str, clamped: str | None, free: str | None) -> None:
    if model.n_hidden:
        raise ValueError(
            f"method={method!r} needs all units visible; got n_hidden={model.n_hidden}. "
            'Use method="pcd" or "monte-carlo".'
        )
    for name, phase in (("clamped", clamped), ("free", free)):
        if phase is not None:
            raise ValueError(
                f'method={method!r} has no phases; got {name}={phase!r}. Leave it out, or use method="pcd".'
            )


def refuse_idle(
    settings: FitSettings, given: Mapping[str, Any], n_hidden: int, n_rows: int, *, gaps: bool = False
) -> None:
    """Refuse those of the `given` options that would not be used under `settings`; name what they go with.

    `gaps` says that entries of rows are missing.
    """
    s = settings
    steps, chains = s.optimizer in OPTIMIZERS, s.free in (*OWN_CHAINS, "auto")
    by_steps = f"{' and '.join(map(repr, OPTIMIZERS))}; the optimizer here is {s.optimizer!r}"
    rows = s.optimizer == "l-bfgs" or (steps and n_rows > 0)
    goes_with = {
        "learning_rate": (steps, f"optimizers {by_steps}"),
        "schedule": (steps, f"optimizers {by_steps}"),
        "momentum": (s.optimizer == "sgd", f"optimizer 'sgd'; here it is {s.optimizer!r}"),
        "batch_size": (rows, f"rows that are learned in steps, by optimizers {by_steps}"),
        "tolerance": (s.optimizer == "l-bfgs", f"optimizer 'l-bfgs'; here it is {s.optimizer!r}"),
        "n_chains": (chains, f"a free phase that is sampled by chains of its own; free is {s.free!r}"),
        "n_sweeps": (chains or s.free == "contrastive", f"a free phase that is sampled; free is {s.free!r}"),
        "n_betas": (s.free in ("tempering", "auto"), f"free='tempering' or 'auto'; free is {s.free!r}"),
        "clamped_sweeps": (
            (n_hidden > 0 or gaps) and s.clamped in ("gibbs", "annealed"),
            f"hidden units, or missing entries, that are sampled given the rows; clamped is {s.clamped!r}, n_hidden "
            f"{n_hidden}",
        ),
        "samples_every": (
            s.free == "auto" or (s.free in FREE and FREE[s.free].samples is not Phase.samples),
            f"free chains that persist, whose states it records; free is {s.free!r}",
        ),
        "n_starts": (
            s.n_starts == 1 or (s.optimizer == "l-bfgs" and n_hidden > 0),
            f"hidden units that are learned by optimizer 'l-bfgs'; the optimizer here is {s.optimizer!r}, n_hidden "
            f"{n_hidden}",
        ),
        "n_resamples": (s.errors == "bootstrap", f"errors='bootstrap'; errors is {s.errors!r}"),
        "block": (s.errors == "bootstrap", f"errors='bootstrap'; errors is {s.errors!r}"),
        "ais_every": (s.optimizer != "none", f"learning in epochs; method={s.method!r} is a formula"),
        "patience": (s.optimizer != "none", f"learning in epochs; method={s.method!r} is a formula"),
    }
    for name, (used, partner) in goes_with.items():
        if name in given and not used and given[name] not in OFF:
            raise ValueError(f"{name} goes with {partner}. Leave {name} out.")
    if s.errors == "fisher" and not _of_maximum_likelihood(s):
        raise ValueError(
            "errors='fisher' goes with rules of maximum likelihood, methods 'exact', 'monte-carlo' and 'pcd'; got "
            f"method={s.method!r} (clamped={s.clamped!r}, free={s.free!r}). Use errors='bootstrap'."
        )
    watched = {"moment_error"} if steps else {"gradient"}
    for name in s.until or ():
        if name not in watched:
            raise ValueError(
                f"until names {name!r}, which optimizer={s.optimizer!r} does not tell; it tells {min(watched)!r}."
            )


def _of_maximum_likelihood(s: FitSettings) -> bool:
    """Return whether the rule estimates the parameters of maximum likelihood, but for noise."""
    sampled = ("exact", "gibbs", "annealed")
    return s.clamped in sampled and s.free in (*sampled, "restarted", "tempering", "auto")


def prepare(
    up: np.ndarray, method: str, options: Mapping[str, Any], units: str, seed: int
) -> tuple[BoltzmannMachine, FitSettings]:
    """Return the machine that learning of rows of bits in memory starts from, and its settings.

    `options` are those of `fit`, with `n_hidden` and perhaps `layout` among them.

    Raises
    ------
    ValueError, TypeError
        As `check` does.
    """
    rest = dict(options)
    n_hidden = checks.whole("n_hidden", rest.pop("n_hidden"))
    layout = rest.pop("layout", None)
    beta = 1.0 if rest.get("beta") is None else inverse_temperature("beta", rest["beta"])
    start = start_machine(smoothed_means(up), n_hidden, layout, units, seed, beta)
    given: dict[str, Any] = {field.name: None for field in fields(FitSettings) if field.name != "method"}
    return start, check(start, len(up), method, {**given, **rest, "seed": seed})


def check(
    model: BoltzmannMachine, n_rows: int, method: str, given: dict[str, Any], *, gaps: bool = False
) -> FitSettings:
    """Fill in the preset of `method` and check every value; None stands for the preset's.

    `n_rows` is 0 where data are moments; `gaps` tells that entries of rows are missing.
    """
    preset, clamped, free = resolve(model, method, given.pop("clamped"), given.pop("free"))
    check_of = option_checks(FitSettings)
    named = (name for name in (*OF_RULES, *OF_MONITOR) if given.get(name) is not None)
    values: dict[str, Any] = {name: check_of[name](name, given[name]) for name in named}
    preset = _settling(preset, values)
    optimizer = _optimizer(preset, method, clamped, free, values)
    _check_rules(preset, method, values)
    batch_size = values.get("batch_size", preset.batch_size or max(n_rows, 1))
    if optimizer == "l-bfgs" and batch_size < n_rows:
        raise ValueError(f'optimizer="l-bfgs" needs all {n_rows} rows in each step; got batch_size={batch_size}.')
    usual: dict[str, Any] = {
        "epochs": preset.epochs,
        "learning_rate": preset.learning_rate,
        "n_sweeps": preset.n_sweeps,
        "n_starts": N_STARTS if optimizer == "l-bfgs" and model.n_hidden else 1,
    }
    fixed: dict[str, Any] = {
        "method": method,
        "clamped": clamped,
        "free": free,
        "optimizer": optimizer,
        "batch_size": min(batch_size, max(n_rows, 1)),
        "seed": rng.resolve(given["seed"]),
        "ais_start": plain_start(model, values.get("ais_start"), "ais_start"),
        "evaluate": None if values.get("evaluate") == "none" else values.get("evaluate", "auto"),
    }
    found = FitSettings(**usual | values | fixed)
    if free != "exact":  # else a look is little beside an epoch
        n_looks = max(1, preset.epochs // found.monitor_every)  # whatever epochs are: a run may be extended
        found = replace(found, look_seconds=min(found.look_seconds, LOOKS_SECONDS / n_looks))
    _check_pretraining(model, found)
    if found.free == AUTO and found.n_chains == 1:
        raise ValueError(
            "free='auto' needs n_chains of at least 2, as it is by comparison that chains tell whether they mix; got 1."
            " Use free='gibbs' or 'tempering' for one chain."
        )
    refuse_idle(found, values, model.n_hidden, n_rows, gaps=gaps)
    _refuse_foreign(method, values)
    if not (serves(model, found) and n_rows and not gaps):
        return found
    n_chains = values.get("n_chains", chains_of_batch(found.batch_size))
    return replace(found, engine="lanes", n_chains=found.n_chains if found.free == "contrastive" else n_chains)


def _settling(preset: Preset, values: dict[str, Any]) -> Preset:
    """Return the preset with natural steps, where it has them and no option of steps was given."""
    asked = values.get("optimizer")
    if asked == "natural" or (preset.settles and not any(name in values for name in STEPPING)):
        return replace(preset, optimizer="natural", epochs=max(preset.epochs, N_EPOCHS), learning_rate=GAIN)
    return preset


def _optimizer(preset: Preset, method: str, clamped: str, free: str, values: dict[str, Any]) -> str:
    name = values.get("optimizer", preset.optimizer)
    if preset.driver == "closed":
        if "optimizer" in values:
            raise ValueError(f"method={method!r} is a formula; got optimizer={name!r}. Leave it out.")
        return "none"
    optimizer = checks.choice("optimizer", name, OPTIMIZER_NAMES)
    if preset.driver == "local" and optimizer != "l-bfgs":
        raise ValueError(f'method={method!r} is learned by "l-bfgs"; got optimizer={optimizer!r}. Leave it out.')
    if optimizer == "l-bfgs" and preset.driver == "phases" and (clamped, free) != ("exact", "exact"):
        raise ValueError(
            f'optimizer="l-bfgs" needs exact phases (method="exact"); got clamped={clamped!r}, free={free!r}. '
            'Use "sgd" or "adam".'
        )
    return optimizer


def asks_moments(method: str, given: Mapping[str, Any]) -> bool:
    """Return whether a rule with these options learns, without hidden units, from the moments of all rows alone."""
    preset = PRESETS.get(method)
    if preset is None or given["errors"] == "bootstrap" or given["batch_size"] is not None:
        return False
    sampled = (given["free"] or preset.free) != "contrastive" and not preset.batch_size
    return preset.driver == "closed" or (preset.driver == "phases" and sampled)


def _check_rules(preset: Preset, method: str, values: dict[str, Any]) -> None:
    """Refuse options that belong to another kind of method."""
    for name, driver, rules in (
        ("l1", "local", LOCAL_RULES),
        ("flip_noise", "closed", CLOSED_FORMS),
        ("ridge", "closed", CLOSED_FORMS),
    ):
        if values.get(name) and preset.driver != driver:
            raise ValueError(
                f"{name} goes with methods {', '.join(map(repr, rules))}; got method={method!r}. "
                "Use one of these, or l2."
            )
    for name in ("l2", "l2_bias", "until"):
        if values.get(name) and preset.driver == "closed":
            raise ValueError(f"method={method!r} is a formula that knows no {name}. Use flip_noise or ridge.")
    optimizer = values.get("optimizer", preset.optimizer)
    if values.get("centring") and (preset.driver != "phases" or optimizer not in PLAIN):
        raise ValueError(
            'centring goes with optimizers "sgd" and "adam"; "l-bfgs" and "natural" see centred parameters anyhow.'
        )


def _check_pretraining(model: BoltzmannMachine, settings: FitSettings) -> None:
    if not (each := settings.pretrain_epochs):
        return
    if model.layout != "deep" or settings.optimizer not in OPTIMIZERS:
        raise ValueError(
            "pretrain_epochs goes with machines of several hidden layers, such as n_hidden=[500, 250], that are "
            f"learned in steps, by optimizers {' and '.join(map(repr, OPTIMIZERS))}. Leave pretrain_epochs out."
        )
    if (needed := each * len(model.couplings.arrays)) >= settings.epochs:
        raise ValueError(
            f"pretrain_epochs={each} for each two of {len(model.couplings.sizes)} layers takes {needed} epochs, which "
            f"leaves none of epochs={settings.epochs} for the whole machine. Lower pretrain_epochs or raise epochs."
        )


def _refuse_foreign(method: str, values: Mapping[str, Any]) -> None:
    """Refuse options of other rules that nothing else has refused."""
    own = {*RULES[method].names(), *OF_MONITOR}
    for name, value in values.items():
        if name not in own and value not in OFF:
            others = ", ".join(repr(other) for other, cls in RULES.items() if name in cls.names())
            raise ValueError(f"{name} goes with methods {others}; got method={method!r}. Leave {name} out.")
