"""Settings of `fastbm.sample`, as they are used and written into the spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from .._base import checks


@dataclass(frozen=True)
class SampleSettings:
    """Resolved settings of `fastbm.sample`; its docstring says what each means.

    `beta` is empty, and `lowest_beta` None, until `resolve` has filled in what the machine's own fields suggest.
    What version 0.1 did not write into its specs has defaults that stand for what it did.
    """

    sampler: str
    order: str
    n_chains: int
    n_sweeps: int
    burn_in: int | str
    thin: int
    beta: tuple[float, ...]
    seed: int
    first_chain: int
    rule: str = ""
    kernel: str = ""
    betas: tuple[float, ...] = ()
    n_betas: int | None = None
    lowest_beta: float | None = None
    schedule: str | None = None
    swap_every: int | None = None
    cluster: bool = False
    target_ess: float | None = None
    engine: str = ""
    max_forecast_seconds: float | None = None
    max_gigabytes: float | None = None
    n_patterns: int = 0
    keep: str = "all"
    k: int | None = None
    until: Mapping[str, float] = field(default_factory=dict)
    observables: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        """Recorded samples of each chain, at most."""
        return self.n_sweeps // self.thin

    @property
    def most_burn_in(self) -> int:
        """Sweeps before the first sample, at most."""
        return self.n_sweeps if self.burn_in == "auto" else int(self.burn_in)

    @property
    def by_chain(self) -> np.ndarray:
        """The inverse temperature at which each chain is recorded, (n_chains,)."""
        return np.repeat(self.beta, self.n_chains // len(self.beta))

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for the spec."""
        found = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> SampleSettings:
        """Read settings that `as_dict` wrote, those in specs of version 0.1 too."""
        if unknown := set(spec) - {one.name for one in fields(cls)}:
            raise checks.StorageError(
                f"the run was told {', '.join(sorted(unknown))}, which this version of fastbm does not know. Resume it "
                "with the version that began it."
            )
        found = {**spec, "rule": spec.get("rule") or spec["sampler"]}
        values: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in found.items()}
        return cls(**values)
