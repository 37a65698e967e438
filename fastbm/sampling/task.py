"""Sampling as a run: burn-in, then every `thin`-th sweep recorded, one block of rows at a time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .. import _checks, rng
from ..model import BoltzmannMachine
from ..store import Stream
from .chains import RULES, check_beta, make_chains, resolve_order

BLOCK_ATTEMPTS = 1 << 24  # single-unit updates a block: about a tenth of a second, so that a stop is prompt
BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class SampleSettings:
    """Resolved settings of `fastbm.sample`; its docstring says what each means."""

    sampler: str
    order: str
    n_chains: int
    n_sweeps: int
    burn_in: int
    thin: int
    beta: tuple[float, ...]
    seed: int
    first_chain: int

    @classmethod
    def check(
        cls,
        *,
        sampler: str,
        order: str | None,
        n_chains: Any,
        n_sweeps: Any,
        burn_in: Any,
        thin: Any,
        beta: Any,
        seed: Any,
        first_chain: Any,
    ) -> SampleSettings:
        """Check every value and resolve defaults."""
        sampler = _checks.choice("sampler", sampler, RULES)
        n_chains = _checks.whole("n_chains", n_chains, least=1)
        check_beta(beta, n_chains)
        n_sweeps, thin = _checks.whole("n_sweeps", n_sweeps), _checks.whole("thin", thin, least=1)
        return cls(
            sampler=sampler,
            order=resolve_order(order, sampler),
            n_chains=n_chains,
            n_sweeps=n_sweeps,
            burn_in=n_sweeps // 10 if burn_in is None else _checks.whole("burn_in", burn_in),
            thin=thin,
            beta=tuple(np.atleast_1d(np.asarray(beta, np.float64)).tolist()),
            seed=rng.resolve(seed),
            first_chain=_checks.whole("first_chain", first_chain),
        )

    @property
    def n_samples(self) -> int:
        """Recorded samples of each chain."""
        return self.n_sweeps // self.thin

    def as_dict(self) -> dict[str, Any]:
        """For the spec."""
        return asdict(self) | {"beta": list(self.beta)}


class SampleTask:
    """One sampling run."""

    unit = "sweep"
    atomic = False

    def __init__(self, model: BoltzmannMachine, settings: SampleSettings, *, initial: Any, threads: int) -> None:
        self.model, self.settings = model, settings
        s = settings
        self._chains = make_chains(
            model,
            s.n_chains,
            rule=s.sampler,
            order=s.order,
            beta=list(s.beta),
            seed=s.seed,
            initial=initial,
            threads=threads,
            first_chain=s.first_chain,
        )
        row_bytes = s.n_chains * (-(-model.n_units // 8) + 8)
        by_work = BLOCK_ATTEMPTS // (model.n_units * s.n_chains)
        self._block = max(1, min(by_work, s.thin * max(1, BLOCK_BYTES // row_bytes)))

    @property
    def detail(self) -> dict[str, Any]:
        """Which kernel runs, and in which numbers."""
        return self._chains.detail

    @property
    def streams(self) -> dict[str, Stream]:
        """What the run writes."""
        chains, n_units = self.settings.n_chains, self.model.n_units
        attrs: dict[str, int | float | str] = {
            "n_units": n_units,
            "bitorder": "little",
            "one": self.model.convention.hi,
        }
        return {
            "samples/states": Stream("|u1", (chains, -(-n_units // 8)), attrs),
            "samples/energy": Stream("<f8", (chains,)),
            "samples/sweep": Stream("<i8"),
        }

    @property
    def _end(self) -> int:
        return self.settings.burn_in + self.settings.n_sweeps

    @property
    def done(self) -> bool:
        """Whether all sweeps are done."""
        return self._chains.n_swept >= self._end

    @property
    def progress(self) -> tuple[int, int]:
        """Sweeps done, and all."""
        return self._chains.n_swept, self._end

    def advance(self) -> dict[str, np.ndarray]:
        """Do some sweeps; return the samples that fell among them."""
        chains, s = self._chains, self.settings
        if chains.n_swept < s.burn_in:
            chains.sweep(min(self._block, s.burn_in - chains.n_swept))
            return {}
        n_done, odd = divmod(chains.n_swept - s.burn_in, s.thin)
        left = s.thin - odd  # sweeps to the next sample
        if n_done == s.n_samples or left > self._block:
            chains.sweep(min(self._block, self._end - chains.n_swept))
            return {}
        n_samples, step = (1, left) if odd else (min(self._block // s.thin, s.n_samples - n_done), s.thin)
        found = chains.record(n_samples, step)
        return {
            "samples/states": found["samples/states"],
            "samples/energy": found["samples/energy"] + self.model.offset,
            "samples/sweep": s.burn_in + s.thin * np.arange(n_done + 1, n_done + n_samples + 1),
        }

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        return self._chains.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self._chains.restore(state)
