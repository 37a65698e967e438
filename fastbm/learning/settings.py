"""All that a learning run is told, checked; plain values, so that a run can be rebuilt from its file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .. import _checks, rng
from ..model import BoltzmannMachine
from . import presets
from .optimizers import OPTIMIZERS

OPTIMIZER_NAMES = (*OPTIMIZERS, "l-bfgs")


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

    def as_dict(self) -> dict[str, Any]:
        """For the spec."""
        return asdict(self)


def check(model: BoltzmannMachine, n_rows: int, method: str, given: dict[str, Any]) -> FitSettings:
    """Fill in the preset of `method` and check every value; None stands for the preset's."""
    preset, clamped, free = presets.resolve(model, method, given.pop("clamped"), given.pop("free"))
    values = {name: value for name, value in given.items() if value is not None}

    def whole(name: str, default: int, least: int = 1) -> int:
        return _checks.whole(name, values.get(name, default), least=least)

    def real(name: str, default: float) -> float:
        return _checks.real(name, values.get(name, default), least=0.0)

    optimizer = _checks.choice("optimizer", values.get("optimizer", preset.optimizer), OPTIMIZER_NAMES)
    if optimizer == "l-bfgs" and (clamped, free) != ("exact", "exact"):
        raise ValueError(
            f'optimizer="l-bfgs" needs exact phases (method="exact"); got clamped={clamped!r}, free={free!r}. '
            'Use "sgd" or "adam".'
        )
    batch_size = whole("batch_size", preset.batch_size or n_rows)
    if optimizer == "l-bfgs" and batch_size < n_rows:
        raise ValueError(f'optimizer="l-bfgs" needs all {n_rows} rows in each step; got batch_size={batch_size}.')
    evaluate = values.get("evaluate", "auto")
    return FitSettings(
        method=method,
        clamped=clamped,
        free=free,
        optimizer=optimizer,
        beta=_checks.real("beta", values.get("beta", 1.0), above=0.0),
        epochs=whole("epochs", preset.epochs),
        learning_rate=_checks.real("learning_rate", values.get("learning_rate", preset.learning_rate), above=0.0),
        momentum=real("momentum", 0.0),
        batch_size=min(batch_size, n_rows),
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
    )
