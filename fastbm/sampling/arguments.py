"""The arguments of `fastbm.sample`: each checked once, and filled in where that needs no machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._base import checks, rng
from .._base.options import pick
from .chains import check_betas
from .observables import check_observables
from .samplers import SAMPLERS, Tempering
from .settings import OPEN, Cooled, Sampler, SampleSettings
from .times import LOG

KEEP = ("all", "best")
LIMITS = ("ess", "r_hat")
DEFAULT_K = 100


def make_sampler(sampler: Any, given: Mapping[str, Any], own: Mapping[str, Any]) -> Sampler:
    """Return the sampler that a name and its options, or an object, stand for.

    Parameters
    ----------
    sampler : str or Sampler
    given : mapping
        Arguments of `sample`, those left out being None.
    own : mapping
        Options that must be the sampler's own.
    """
    own = {name: value for name, value in own.items() if value is not None}
    cls: Any = pick("sampler", sampler, SAMPLERS, own)
    name = sampler if isinstance(sampler, str) else sampler.name
    for option in (*own, *(one for one in OPEN if given[one] is not None)):
        takes = (*cls.takes, *cls.names())
        if option not in takes:
            _refuse_foreign(name, option)
    found: Sampler = cls(**own) if isinstance(sampler, str) else cls
    return found


def samplers_with(option: str) -> list[str]:
    """Return the samplers that take an option, or an argument of `sample`."""
    return [name for name, cls in SAMPLERS.items() if option in (*cls.names(), *cls.takes)]


def _refuse_foreign(sampler: str, option: str) -> None:
    """Refuse an option that the sampler would not use."""
    others = ", ".join(map(repr, samplers_with(option)))
    raise ValueError(f"sampler={sampler!r} does not take {option}; {option} goes with sampler {others}.")


def check(sampler: Any, given: Mapping[str, Any], own: Mapping[str, Any]) -> SampleSettings:
    """Check the arguments of `sample`, those left out being None, and fill in what needs no machine."""
    chosen = make_sampler(sampler, given, own)
    n_chains = checks.whole("n_chains", given["n_chains"], least=1)
    n_sweeps = checks.whole("n_sweeps", _or(given["n_sweeps"], chosen.sweeps), least=int(chosen.ends))
    keep = checks.choice("keep", given["keep"], KEEP)
    thin = _thin(given["thin"])
    settings = SampleSettings(
        own=chosen.completed(),
        n_chains=n_chains,
        n_sweeps=n_sweeps,
        burn_in=_burn_in(given["burn_in"], n_sweeps, chosen, hot=keep == "best" or thin == LOG),
        thin=thin,
        beta=_beta(chosen, given["beta"], n_chains, searches=chosen.searches or keep == "best"),
        seed=rng.resolve(given["seed"]),
        first_chain=checks.whole("first_chain", _or(given["first_chain"], 0)),
        keep=keep,
        k=_k(given["k"], keep),
        until=_until(given["until"], n_chains),
        observables=check_observables(_or(given["observables"], ()))[0],
    )
    check_together(settings)
    return settings


def check_together(s: SampleSettings) -> None:
    """Check the arguments that depend on one another."""
    betas = s.own.betas if isinstance(s.own, Cooled) else ()
    if betas and betas[-1] != s.beta[0]:
        raise ValueError(f"betas must end at beta, the target: the last is {betas[-1]:g} and beta is {s.beta[0]:g}.")
    if isinstance(s.own, Tempering) and s.own.cluster and s.n_chains % 2:
        raise ValueError(f"cluster pairs ladders 2k and 2k + 1, so n_chains must be even; got {s.n_chains}.")
    if s.thin == LOG:
        _check_log(s)
        return
    if s.own.ends and s.keep == "all" and s.thin != 1:
        raise ValueError(
            f'thin says how often sampler={s.sampler!r} looks for best states, so it goes with keep="best"; it '
            "records one sample, at its end."
        )
    if int(s.thin) > s.n_sweeps > 0 and not (s.own.ends and s.keep == "all"):
        raise ValueError(
            f"thin must be at most n_sweeps, or no sample is ever taken; got thin={s.thin} and "
            f"n_sweeps={s.n_sweeps}. Lower thin or raise n_sweeps."
        )
    if s.keep == "best" and isinstance(s.own, Tempering) and s.own.record == "all":
        raise ValueError('record="all" records samples, and keep="best" records none; leave one of them out.')
    if isinstance(s.own, Tempering) and "states" in s.observables and _on_levels(s.own, s.observables["states"]):
        raise ValueError('observables: the name "states" is that of the states of a ladder; give another.')
    if s.keep == "best" and s.observables:
        raise ValueError('observables are measured on samples, and keep="best" records none; leave one of them out.')


def _on_levels(own: Tempering, measured: str | None) -> bool:
    """Return whether an observable is measured at all temperatures of a ladder, or states are recorded there."""
    return own.record == "all" or measured is not None


def _check_log(s: SampleSettings) -> None:
    """Refuse samples at logarithmic times where there is no relaxation, or where an even series is asked for."""
    why = ""
    if s.own.ends:
        why = f"sampler={s.sampler!r} has an end of its own, at which it records"
    elif not s.own.relaxes:
        why = f"draws of sampler={s.sampler!r} are independent, so that there is no relaxation. Leave thin out"
    elif s.keep == "best":
        why = 'keep="best" looks for states at even times. Give thin as a number of sweeps'
    elif s.until:
        why = "until asks for effective samples of an even series. Leave it out: n_sweeps is the end"
    elif s.burn_in == "auto":
        why = 'burn_in="auto" waits for the end of a relaxation. Give a number of sweeps to wait'
    if why:
        raise ValueError(f'thin="log" records a relaxation, and {why}.')


def _thin(given: Any) -> int | str:
    if given is None:
        return 1
    if isinstance(given, str):
        if given != LOG:
            raise ValueError(f'thin must be a whole number of sweeps, or "log"; got {given!r}.')
        return given
    return checks.whole("thin", given, least=1)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _beta(sampler: Sampler, given: Any, n_chains: int, *, searches: bool) -> tuple[float, ...]:
    betas = sampler.betas if isinstance(sampler, Cooled) else ()
    if given is None:
        return betas[-1:] if betas else () if searches else (1.0,)
    found = tuple(check_betas(given, n_chains).tolist())
    if len(found) > 1 and not sampler.many_betas:
        others = ", ".join(repr(name) for name, cls in SAMPLERS.items() if cls.many_betas)
        raise ValueError(
            f"sampler={sampler.name!r} takes one beta, its target; got {len(found)}. A list of beta, one for each "
            f"group of chains, goes with sampler {others}."
        )
    return found


def _burn_in(given: Any, n_sweeps: int, sampler: Sampler, *, hot: bool) -> int | str:
    """Return the burn-in; none unless given where the start may be seen (`hot`)."""
    if sampler.ends:
        return 0
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(f'burn_in must be a whole number of sweeps, or "auto"; got {given!r}.')
        return given
    if given is None:  # what is hot at the start is no best state, but does no harm either
        return 0 if hot or not sampler.relaxes else n_sweeps // 10
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
