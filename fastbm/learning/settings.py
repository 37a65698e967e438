"""All that a learning run is told, checked; plain values, so that a run can be rebuilt from its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from .. import _checks, rng
from ..inference.hidden_layers import is_deep
from ..model import BoltzmannMachine
from . import presets
from .idle import refuse_idle
from .lanes import serves
from .optimizers import OPTIMIZERS, PLAIN
from .schedule import SCHEDULES

OPTIMIZER_NAMES = (*OPTIMIZERS, "l-bfgs")
ERRORS = ("fisher", "bootstrap")
N_STARTS = 8  # of hidden units' couplings, for "l-bfgs"
STEPPING = ("optimizer", "learning_rate", "momentum", "schedule", "centring")  # how to step
N_EPOCHS, GAIN = 800, 0.3  # of natural steps, which end by themselves
STOPPING = ("moment_error", "gradient")  # metrics that a run may wait for


@dataclass(frozen=True)
class FitSettings:
    """Resolved settings of `fastbm.fit`; its docstring says what each means."""

    method: str
    clamped: str
    free: str
    optimizer: str
    beta: float
    epochs: int
    learning_rate: float
    momentum: float
    batch_size: int
    n_chains: int
    n_sweeps: int
    clamped_sweeps: int
    l2: float
    l2_bias: float
    tolerance: float
    seed: int
    weights_every: int
    samples_every: int
    monitor_every: int
    evaluate: str | None
    l1: float = 0.0
    engine: str = "phases"
    schedule: str = "constant"
    centring: bool = False
    n_betas: int = 10
    until: dict[str, float] | None = None
    patience: int = 0
    flip_noise: float = 0.0
    ridge: float = 0.0
    errors: str | None = None
    n_resamples: int = 100
    fidelity: bool = False
    pretrain_epochs: int = 0
    ais_every: int = 0
    n_starts: int = 1

    def as_dict(self) -> dict[str, Any]:
        """For the spec."""
        return asdict(self)


def check(
    model: BoltzmannMachine, n_rows: int, method: str, given: dict[str, Any], *, gaps: bool = False
) -> FitSettings:
    """Fill in the preset of `method` and check every value; None stands for the preset's.

    `n_rows` is 0 where data are moments; `gaps` tells that entries of rows are missing.
    """
    preset, clamped, free = presets.resolve(model, method, given.pop("clamped"), given.pop("free"))
    values = {name: value for name, value in given.items() if value is not None}

    def whole(name: str, default: int, least: int = 1) -> int:
        return _checks.whole(name, values.get(name, default), least=least)

    def real(name: str, default: float) -> float:
        return _checks.real(name, values.get(name, default), least=0.0)

    preset = _settling(preset, values)
    optimizer = _optimizer(preset, method, clamped, free, values)
    _check_rules(preset, method, values)
    batch_size = whole("batch_size", preset.batch_size or max(n_rows, 1))
    if optimizer == "l-bfgs" and batch_size < n_rows:
        raise ValueError(f'optimizer="l-bfgs" needs all {n_rows} rows in each step; got batch_size={batch_size}.')
    evaluate = values.get("evaluate", "auto")
    errors = values.get("errors")
    found = FitSettings(
        method=method,
        clamped=clamped,
        free=free,
        optimizer=optimizer,
        beta=_checks.real("beta", values.get("beta", 1.0), above=0.0),
        epochs=whole("epochs", preset.epochs),
        learning_rate=_checks.real("learning_rate", values.get("learning_rate", preset.learning_rate), above=0.0),
        momentum=_momentum(real("momentum", 0.0)),
        batch_size=min(batch_size, max(n_rows, 1)),
        n_chains=whole("n_chains", 128),
        n_sweeps=whole("n_sweeps", preset.n_sweeps),
        clamped_sweeps=whole("clamped_sweeps", 10),
        l2=real("l2", 0.0),
        l2_bias=real("l2_bias", 0.0),
        tolerance=_checks.real("tolerance", values.get("tolerance", 1e-6), above=0.0),
        seed=rng.resolve(given["seed"]),
        weights_every=whole("weights_every", 1, least=0),
        samples_every=whole("samples_every", 0, least=0),
        monitor_every=whole("monitor_every", 1),
        evaluate=None if evaluate == "none" else _checks.choice("evaluate", evaluate, ("auto", "exact", "ais")),
        l1=real("l1", 0.0),
        schedule=_checks.choice("schedule", values.get("schedule", "constant"), SCHEDULES),
        centring=_flag("centring", values.get("centring", False)),
        n_betas=whole("n_betas", 10, least=2),
        until=_until(values.get("until")),
        patience=whole("patience", 0, least=0),
        flip_noise=real("flip_noise", 0.0),
        ridge=real("ridge", 0.0),
        errors=None if errors is None else _checks.choice("errors", errors, ERRORS),
        n_resamples=whole("n_resamples", 100, least=2),
        fidelity=_flag("fidelity", values.get("fidelity", False)),
        pretrain_epochs=whole("pretrain_epochs", 0, least=0),
        ais_every=whole("ais_every", 0, least=0),
        n_starts=whole("n_starts", N_STARTS if optimizer == "l-bfgs" and model.n_hidden else 1),
    )
    _check_pretraining(model, found)
    if found.free == presets.AUTO and found.n_chains == 1:
        raise ValueError(
            "free='auto' needs n_chains of at least 2, as it is by comparison that chains tell whether they mix; got 1."
            " Use free='gibbs' or 'tempering' for one chain."
        )
    refuse_idle(found, values, model.n_hidden, n_rows, gaps=gaps)
    return replace(found, engine="lanes") if serves(model, found) and n_rows and not gaps else found


def _settling(preset: presets.Preset, values: dict[str, Any]) -> presets.Preset:
    """The preset with natural steps, where it has them and nothing else was told of how to step."""
    asked = values.get("optimizer")
    if asked == "natural" or (preset.settles and not any(name in values for name in STEPPING)):
        return replace(preset, optimizer="natural", epochs=max(preset.epochs, N_EPOCHS), learning_rate=GAIN)
    return preset


def _optimizer(preset: presets.Preset, method: str, clamped: str, free: str, values: dict[str, Any]) -> str:
    name = values.get("optimizer", preset.optimizer)
    if preset.driver == "closed":
        if "optimizer" in values:
            raise ValueError(f"method={method!r} is a formula; got optimizer={name!r}. Leave it out.")
        return "none"
    optimizer = _checks.choice("optimizer", name, OPTIMIZER_NAMES)
    if preset.driver == "local" and optimizer != "l-bfgs":
        raise ValueError(f'method={method!r} is learned by "l-bfgs"; got optimizer={optimizer!r}. Leave it out.')
    if optimizer == "l-bfgs" and preset.driver == "phases" and (clamped, free) != ("exact", "exact"):
        raise ValueError(
            f'optimizer="l-bfgs" needs exact phases (method="exact"); got clamped={clamped!r}, free={free!r}. '
            'Use "sgd" or "adam".'
        )
    return optimizer


def _check_rules(preset: presets.Preset, method: str, values: dict[str, Any]) -> None:
    """Refuse what another kind of method would take."""
    for name, driver, rules in (
        ("l1", "local", presets.RULES),
        ("flip_noise", "closed", presets.CLOSED_FORMS),
        ("ridge", "closed", presets.CLOSED_FORMS),
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
    if not is_deep(model) or settings.optimizer not in OPTIMIZERS:
        raise ValueError(
            "pretrain_epochs goes with machines of several hidden layers, such as n_hidden=[500, 250], that are "
            f"learned in steps, by optimizers {' and '.join(map(repr, OPTIMIZERS))}. Leave pretrain_epochs out."
        )
    if (needed := each * len(model.couplings.arrays)) >= settings.epochs:
        raise ValueError(
            f"pretrain_epochs={each} for each two of {len(model.couplings.sizes)} layers takes {needed} epochs, which "
            f"leaves none of epochs={settings.epochs} for the whole machine. Lower pretrain_epochs or raise epochs."
        )


def _momentum(value: float) -> float:
    if value >= 1.0:
        raise ValueError(f"momentum must be below 1, or steps grow without end; got {value:g}.")
    return value


def _until(given: Any) -> dict[str, float] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given:
        raise TypeError(f'until must be a dict such as {{"moment_error": 0.02}}; got {given!r}.')
    return {
        _checks.choice("until", name, STOPPING): _checks.real(f"until[{name!r}]", value, above=0.0)
        for name, value in given.items()
    }


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)
