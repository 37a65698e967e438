"""The options of `infer(model, "exact")`, checked and made final: the engine, the limits, and what is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ..._base import checks
from ...exact.choice import SMALL, Choice, Limits, Request
from ...exact.plan import Wanted
from ...machine.machine import BoltzmannMachine

FREE_VARIANCE_UNITS = 32  # up to here the two products that the variance of the energy costs in blocks do not matter
ALL_PAIRS_UNITS, ALL_PAIRS_SECONDS = 64, 1.0  # elimination gives all pairs of so few units where that costs no more
MOST_DISTRIBUTION, MOST_LOWEST = 20, 1_000_000
MOST_GIGABYTES = 1e15  # more than any machine has, and still a number in bytes

BYTES_A_PAIR = 64.0  # its units, and its numbers in the matrices that are made of them

CUT_FINER = ("gray", "blocks")  # engines that can be asked for more pieces than they make by themselves
USUAL = Limits()

Pairs = str | np.ndarray | None


@dataclass(frozen=True)
class ExactSettings:
    """Options of `exact`, checked; units are those of the whole machine.

    `pairs` None leaves it to the rule of `wanted` which pairs a sum gives that gives only some.
    """

    engine: str | None = None
    limits: Limits = USUAL
    energy_variance: bool | None = None
    pairs: Pairs = None
    n_lowest: int = 0
    distribution: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls,
        model: BoltzmannMachine,
        *,
        engine: str | None,
        max_forecast_seconds: float,
        max_gigabytes: float,
        energy_variance: bool | None,
        pairs: Any,
        n_lowest: int,
        distribution: Any,
    ) -> ExactSettings:
        """Check options against a machine."""
        limits = Limits(max_forecast_seconds, 1e9 * min(max_gigabytes, MOST_GIGABYTES))
        if distribution is not None:
            distribution = _check_distribution(distribution, model.n_units)
        if n_lowest or distribution is not None:
            engine = "gray"
        return cls(engine, limits, energy_variance, _check_pairs(pairs, model.n_units), n_lowest, distribution)

    def refuse_without_moments(self) -> None:
        """Refuse options of what comes with the moments only."""
        for name, value in (("energy_variance", self.energy_variance or None), ("pairs", self.pairs)):
            if value is not None:
                raise ValueError(f"{name} comes with the moments only. Leave it out, or moments=False.")

    def refuse_clamped(self, free: np.ndarray) -> None:
        """Refuse a distribution of units that are clamped."""
        if held := sorted(set(self.distribution or ()) - set(free.tolist())):
            raise ValueError(f"distribution must name units that are free; unit {held[0]} is clamped.")

    def request(
        self,
        model: BoltzmannMachine,
        free: np.ndarray,
        *,
        beta: float,
        moments: bool,
        threads: int,
        min_pieces: int = 1,
        n_prefix: int | None = None,
        workers: int = 0,
    ) -> Request:
        """Return the request for the sum over the machine `model` of the units `free`."""
        only: dict[str, dict[str, Any]] = {}
        if self.n_lowest or self.distribution is not None:
            only["gray"] = {"n_lowest": self.n_lowest, "distribution": self._distribution(free)}
        if min_pieces > 1:
            only |= {name: only.get(name, {}) | {"min_pieces": min_pieces} for name in CUT_FINER}
        if n_prefix is not None:
            only["blocks"] = only.get("blocks", {}) | {"n_prefix": n_prefix}
        wanted = cache(lambda engine: self.wanted(engine, model, free, beta, moments))
        return Request(model, beta, wanted, self.limits, threads, only, workers)

    def wanted(self, engine: str, model: BoltzmannMachine, free: np.ndarray, beta: float, moments: bool) -> Wanted:
        """Return what an engine is asked for."""
        variance = self.energy_variance
        if variance is None:
            variance = engine != "blocks" or model.n_units <= FREE_VARIANCE_UNITS
        pairs = self._pairs(model, free, beta) if moments and engine == "elimination" else None
        return Wanted(moments, moments and bool(variance), pairs)

    def _pairs(self, model: BoltzmannMachine, free: np.ndarray, beta: float) -> np.ndarray | None:
        """Return the pairs to compute: all where asked for or cheap, by the built-in speeds; else the named ones."""
        n = model.n_units
        if isinstance(self.pairs, str) and BYTES_A_PAIR * n * n / 2.0 > self.limits.n_bytes:
            raise ValueError(
                f'pairs="all" of {n} units take {BYTES_A_PAIR * n * n / 2e9:.3g} GB; the limit is max_gigabytes='
                f"{self.limits.n_bytes / 1e9:g}. Name pairs, or leave them out: then those that are coupled are given."
            )
        every = np.stack(np.triu_indices(n, 1), axis=1) if isinstance(self.pairs, str) or n <= ALL_PAIRS_UNITS else None
        if isinstance(self.pairs, str) or n <= SMALL:
            return every
        if self.pairs is not None:
            return _among(self.pairs, free)
        if every is not None:
            request = Request(model, beta, lambda engine: Wanted(pairs=every), self.limits, 1)
            if request.forecast("elimination").seconds <= ALL_PAIRS_SECONDS:
                return every
        return None

    def _distribution(self, free: np.ndarray) -> tuple[int, ...] | None:
        """Return the chosen units, numbered as they are among the free ones."""
        if self.distribution is None:
            return None
        self.refuse_clamped(free)
        return tuple(int(k) for k in np.searchsorted(free, self.distribution))

    def settle(self, choice: Choice, request: Request) -> ExactSettings:
        """Return the settings with nothing left to choose."""
        wanted, n = request.wanted(choice.engine), request.model.n_units
        pairs = self.pairs
        if choice.engine == "elimination" and wanted.moments and pairs is None:
            every = wanted.pairs is not None and len(wanted.pairs) == n * (n - 1) // 2
            pairs = "all" if every else np.empty((0, 2), np.int64)
        variance = self.energy_variance if not wanted.moments else wanted.energy_variance
        return replace(self, engine=choice.engine, energy_variance=variance, pairs=pairs)

    def options(self) -> dict[str, Any]:
        """Return the options of `exact` that these settings stand for, as plain values."""
        found: dict[str, Any] = {
            "engine": self.engine,
            "max_forecast_seconds": self.limits.seconds,
            "max_gigabytes": self.limits.n_bytes / 1e9,
            "energy_variance": self.energy_variance,
            "pairs": self.pairs.tolist() if isinstance(self.pairs, np.ndarray) else self.pairs,
        }
        if self.n_lowest:
            found["n_lowest"] = self.n_lowest
        if self.distribution is not None:
            found["distribution"] = list(self.distribution)
        return found


def _check_pairs(pairs: Any, n_units: int) -> Pairs:
    """Return pairs as (n_pairs, 2) increasing units, each once; "all" or None as they are."""
    if pairs is None:
        return None
    if isinstance(pairs, str) and pairs == "all":
        return pairs
    found = checks.any_array("pairs", pairs)
    if not found.size:
        return np.empty((0, 2), np.int64)
    if found.dtype.kind not in "iu" or found.ndim != 2 or found.shape[1] != 2:
        raise ValueError(f'pairs must be "all" or pairs of units (n_pairs, 2); got {pairs!r}.')
    _check_units("pairs", found, n_units)
    found = np.sort(found.astype(np.int64), axis=1)
    same = np.flatnonzero(found[:, 0] == found[:, 1])
    if same.size:
        raise ValueError(f"pairs must be of two units; pair {int(same[0])} is unit {int(found[same[0], 0])} twice.")
    return np.unique(found, axis=0)


def _check_distribution(units: Any, n_units: int) -> tuple[int, ...]:
    found = checks.any_array("distribution", units)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"distribution must be a list of units; got {units!r}.")
    if found.size > MOST_DISTRIBUTION:
        raise ValueError(f"distribution must name at most {MOST_DISTRIBUTION} units; got {found.size}.")
    _check_units("distribution", found, n_units)
    if len(np.unique(found)) < found.size:
        raise ValueError("distribution must name each unit once.")
    return tuple(int(unit) for unit in found)


def _check_units(argument: str, units: np.ndarray, n_units: int) -> None:
    if units.size and not 0 <= units.min() <= units.max() < n_units:
        raise ValueError(
            f"{argument} must name units from 0 to {n_units - 1}; got {int(units.min())} to {int(units.max())}."
        )


def _among(pairs: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return the pairs whose units are both free, by their indices among the free ones."""
    kept = pairs[np.isin(pairs, free).all(axis=1)]
    return np.searchsorted(free, kept)
