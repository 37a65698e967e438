"""What `fastbm.sample` is asked for, checked once, and what needs no machine filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .._base import checks, rng
from ..exact.choice import LARGEST_GIGABYTES, LONGEST_SECONDS
from .annealing import SCHEDULES
from .chains import RULES, check_beta, resolve_order
from .exact import ENGINES
from .observables import check_observables
from .samplers import SAMPLERS, SPECIAL, Row, names_with
from .settings import SampleSettings

KEEP = ("all", "best")
LIMITS = ("ess", "r_hat")
DEFAULT_K = 100
TARGET_ESS = 0.9


def check(given: Mapping[str, Any]) -> SampleSettings:
    """Check the arguments of `sample`, those left out being None, and fill in what needs no machine."""
    sampler = checks.choice("sampler", given["sampler"], SAMPLERS)
    row = SAMPLERS[sampler]
    _refuse_foreign(sampler, row, given)
    n_chains = checks.whole("n_chains", given["n_chains"], least=1)
    rule = row.rule or checks.choice("rule", _or(given["rule"], "gibbs"), RULES)
    n_sweeps = checks.whole("n_sweeps", _or(given["n_sweeps"], row.n_sweeps), least=int(row.ends))
    betas = _ladder(given["betas"], rising="swap_every" in row.takes)
    keep = checks.choice("keep", given["keep"], KEEP)
    settings = SampleSettings(
        sampler=sampler,
        rule=rule,
        order=resolve_order(given["order"], rule) if "order" in row.takes else "",
        n_chains=n_chains,
        n_sweeps=n_sweeps,
        burn_in=_burn_in(given["burn_in"], n_sweeps, row, keep),
        thin=checks.whole("thin", _or(given["thin"], 1), least=1),
        beta=_beta(sampler, row, given["beta"], betas, n_chains, searches=row.searches or keep == "best"),
        seed=rng.resolve(given["seed"]),
        first_chain=checks.whole("first_chain", _or(given["first_chain"], 0)),
        betas=betas,
        keep=keep,
        k=_k(given["k"], keep),
        until=_until(given["until"], n_chains),
        observables=check_observables(_or(given["observables"], ()))[0],
        **_of_schedule(row, given),
        **_of_tables(row, given),
    )
    _check_together(settings, given)
    return settings


def takes_ends(settings: SampleSettings) -> bool:
    """Whether ladder or schedule goes from `lowest_beta` to `beta`."""
    return "lowest_beta" in SAMPLERS[settings.sampler].takes and not settings.betas


def with_ends(settings: SampleSettings, beta: float, lowest_beta: float) -> SampleSettings:
    """Fill in the ends that are not given, and check both."""
    given = bool(settings.beta)
    if not given:
        settings = replace(settings, beta=(beta,))
    if not takes_ends(settings):
        return settings
    if settings.lowest_beta is None:
        settings = replace(settings, lowest_beta=lowest_beta)
    _check_ends(settings, "" if given else ", which the machine's fields suggest: give another one")
    return settings


def _check_ends(s: SampleSettings, whose: str) -> None:
    low, high = float(s.lowest_beta or 0.0), s.beta[0]
    if not high:
        raise ValueError(f"beta must be above 0 for sampler={s.sampler!r}, which cools down to it; got 0.")
    if low >= high:
        raise ValueError(f"lowest_beta must be below beta, the target; got {low:g} and {high:g}{whose}.")
    if s.schedule == "geometric" and not low:
        raise ValueError('lowest_beta must be above 0 for schedule="geometric"; "linear" and "adaptive" take 0.')


def _check_together(s: SampleSettings, given: Mapping[str, Any]) -> None:
    """What depends on several arguments."""
    if s.betas:
        if s.betas[-1] != s.beta[0]:
            raise ValueError(
                f"betas must end at beta, the target: the last is {s.betas[-1]:g} and beta is {s.beta[0]:g}."
            )
        for name in ("n_betas", "lowest_beta", "schedule"):
            if given[name] is not None:
                raise ValueError(f"betas say all that {name} would: leave one of them out.")
    if s.cluster and s.n_chains % 2:
        raise ValueError(f"cluster pairs ladders 2k and 2k + 1, so n_chains must be even; got {s.n_chains}.")
    if SAMPLERS[s.sampler].ends and s.keep == "all" and s.thin != 1:
        raise ValueError(
            f'thin says how often sampler={s.sampler!r} looks for best states, so it goes with keep="best"; it '
            "records one sample, at its end."
        )
    if s.thin > s.n_sweeps > 0 and not (SAMPLERS[s.sampler].ends and s.keep == "all"):
        raise ValueError(
            f"thin must be at most n_sweeps, or no sample is ever taken; got thin={s.thin} and "
            f"n_sweeps={s.n_sweeps}. Lower thin or raise n_sweeps."
        )
    if s.keep == "best" and s.observables:
        raise ValueError('observables are measured on samples, and keep="best" records none; leave one of them out.')


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _refuse_foreign(sampler: str, row: Row, given: Mapping[str, Any]) -> None:
    """Refuse arguments that the sampler would not use."""
    for name in SPECIAL:
        if given[name] is not None and name not in row.takes:
            others = ", ".join(map(repr, names_with(name)))
            raise ValueError(f"sampler={sampler!r} does not take {name}; {name} goes with sampler {others}.")


def _beta(
    sampler: str, row: Row, given: Any, betas: tuple[float, ...], n_chains: int, *, searches: bool
) -> tuple[float, ...]:
    if given is None and not betas and searches:
        return ()
    value = (betas[-1] if betas else 1.0) if given is None else given
    check_beta(value, n_chains)
    found = tuple(np.atleast_1d(np.asarray(value, np.float64)).tolist())
    if len(found) > 1 and "many betas" not in row.takes:
        others = ", ".join(map(repr, names_with("many betas")))
        raise ValueError(
            f"sampler={sampler!r} takes one beta, its target; got {len(found)}. A list of beta, one for each group of "
            f"chains, goes with sampler {others}."
        )
    return found


def _ladder(given: Any, *, rising: bool) -> tuple[float, ...]:
    """Inverse temperatures, the hottest first and the target last; those of a schedule may stay where they are."""
    if given is None:
        return ()
    values = checks.finite_array("betas", given)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"betas must list at least two inverse temperatures; got shape {values.shape}.")
    if values.min() < 0:
        raise ValueError(f"betas must be at least 0; got {values.min():g}.")
    steps = np.diff(values)
    wrong = np.flatnonzero(steps <= 0 if rising else steps < 0)
    if wrong.size:
        j = int(wrong[0]) + 1
        raise ValueError(
            f"betas must increase, the hottest first and the target last; got {values[j]:g} at {j} after "
            f"{values[j - 1]:g}."
        )
    return tuple(values.tolist())


def _burn_in(given: Any, n_sweeps: int, row: Row, keep: str) -> int | str:
    if row.ends:
        return 0
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(f'burn_in must be a whole number of sweeps, or "auto"; got {given!r}.')
        return given
    if given is None:  # what is hot at the start is no best state, but does no harm either
        return 0 if keep == "best" or not row.relaxes else n_sweeps // 10
    return checks.whole("burn_in", given)


def _k(given: Any, keep: str) -> int | None:
    if keep == "best":
        return checks.whole("k", _or(given, DEFAULT_K), least=1)
    if given is not None:
        raise ValueError('k is the number of best states, so it goes with keep="best".')
    return None


def _until(given: Any, n_chains: int) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f'until must be a dict such as {{"ess": 1000}} or {{"r_hat": 1.01}}; got {given!r}.')
    found = {}
    for name, value in given.items():
        checks.choice("until", name, LIMITS)
        found[name] = checks.real(f"until[{name!r}]", value, above=1.0 if name == "r_hat" else 0.0)
    if "r_hat" in found and n_chains < 2:
        raise ValueError('until={"r_hat": ...} compares chains, so n_chains must be at least 2; got 1.')
    return found


def _of_schedule(row: Row, given: Mapping[str, Any]) -> dict[str, Any]:
    """What only samplers with several temperatures take."""
    found: dict[str, Any] = {}
    if "n_betas" in row.takes and given["n_betas"] is not None:
        found["n_betas"] = checks.whole("n_betas", given["n_betas"], least=2)
    if "lowest_beta" in row.takes and given["lowest_beta"] is not None:
        found["lowest_beta"] = checks.real("lowest_beta", given["lowest_beta"], least=0.0)
    if "swap_every" in row.takes:
        found["swap_every"] = checks.whole("swap_every", _or(given["swap_every"], 1), least=1)
    if "cluster" in row.takes:
        found["cluster"] = _cluster(given["cluster"])
    if "target_ess" in row.takes:
        target = checks.real("target_ess", _or(given["target_ess"], TARGET_ESS), above=0.0)
        if target >= 1.0:
            raise ValueError(f"target_ess is a part of the population, between 0 and 1; got {target:g}.")
        found["target_ess"] = target
    if "schedule" in row.takes and given["betas"] is None:
        found["schedule"] = checks.choice("schedule", _or(given["schedule"], "linear"), SCHEDULES)
    return found


def _of_tables(row: Row, given: Mapping[str, Any]) -> dict[str, Any]:
    """What only exact samples take; the engine is chosen later unless it is given."""
    if "engine" not in row.takes:
        return {}
    seconds, size = _or(given["max_forecast_seconds"], LONGEST_SECONDS), _or(given["max_gigabytes"], LARGEST_GIGABYTES)
    return {
        "engine": "" if given["engine"] is None else checks.choice("engine", given["engine"], ENGINES),
        "max_forecast_seconds": checks.real("max_forecast_seconds", seconds, above=0.0),
        "max_gigabytes": checks.real("max_gigabytes", size, above=0.0),
    }


def _cluster(given: Any) -> bool:
    if given is None or isinstance(given, bool):
        return bool(given)
    return checks.choice("cluster", given, ("houdayer",)) == "houdayer"
