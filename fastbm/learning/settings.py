"""All that a learning run is told; plain values, so that a run can be rebuilt from its file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


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
    ais_start: str | list[float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for the spec."""
        return asdict(self)
