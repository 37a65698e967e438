"""Whether there may be states that none of a run's chains has visited, which no diagnostic shows."""

from __future__ import annotations

import numpy as np

from ...sampling import valleys
from ...sampling.chains import sweep_seconds, why_periodic
from ...sampling.settings import SingleUnit
from ..spec import Given
from .samples import Samples

MOST_LOOKED_AT = 256  # samples
LONG_SECONDS = 10.0  # of one thread, by the built-in speeds, of which a look of some tenths of one is a small part


def is_even(run: Samples) -> bool:
    """Return whether the machine that is sampled is even under a flip of all units; with clamped ones it never is."""
    return not holds_units(run) and run._start_is_even


def holds_units(run: Samples) -> bool:
    """Return whether units are clamped."""
    return bool(run.config["sample"].get("n_patterns") and run._reader.inputs["clamp/indices"].size)


def starts_at_one_point(run: Samples) -> bool:
    """Return whether all chains began at the same state."""
    if run._sampler == "exact":
        return False
    if run.config.get("initial") == "up":
        return True
    given = run._reader.inputs.get("initial")
    return given is not None and bool((given == given[0]).all())


def n_swept(run: Samples) -> int:
    """Return how many sweeps a run asks of all chains and replicas together."""
    settings = run.config["sample"]
    return int(settings["n_chains"] * max(len(settings.get("betas") or ()), 1) * settings["n_sweeps"])


def is_long(run: Samples) -> bool:
    """Return whether a run takes so long that what it missed is looked for unasked, and phases from the cold."""
    couplings = run._start.couplings
    return n_swept(run) * sweep_seconds(couplings.n_units, couplings.n_entries) >= LONG_SECONDS


def why_unseen(run: Samples, n_chains: int) -> str:
    """Return why there may be states that none of the `n_chains` of a group has visited; empty if unlikely."""
    if why := _of_updates(run) or _of_mirror(run):
        return why
    if run._sampler == "exact":
        return ""
    if run._sampler in ("wolff", "swendsen-wang") and n_chains > 1:
        return ""  # couplings without frustration, and clusters go from valley to valley
    if run._sampler == "tempering" and n_chains > 1 and int(run.round_trips.sum()) >= valleys.FEWEST_CHAINS:
        return ""  # each a start of its own
    clamped, one_point = bool(run.config["sample"].get("n_patterns")), starts_at_one_point(run)
    return valleys.why_unseen(run._start, _coldest(run), n_chains, one_point=one_point, clamped=clamped)


def _of_mirror(run: Samples) -> str:
    """Return why means of functions lack the mirrors of all states that were seen; empty where there is no reason to.

    Of an even machine these are as probable, and a function may differ between them. Sides are told from the last state
    of a coldest chain, in some of the samples of these chains.
    """
    named = run.config["sample"].get("observables") or {}
    if None not in named.values() or not run.has_states or not is_even(run):
        return ""
    packed = run._peek("samples/states", max(1, run._n_samples // MOST_LOOKED_AT))[:, run.beta == _coldest(run)]
    n_off = np.bitwise_count(packed ^ packed[-1, 0]).sum(axis=-1, dtype=np.int64)
    if (2 * n_off > run._start.n_units).any():
        return ""
    return "all states are on one side of an even machine, whose other side functions may tell apart: average even ones"


def _of_updates(run: Samples) -> str:
    """Return why updates of the run's rule and order may never reach some states; empty where they are safe."""
    given = run._settings
    if given.get("rule", given["sampler"]) != "metropolis":
        return ""
    from .task import subject_of

    _, settings, subject = subject_of(run.config, run._reader.inputs, Given(model=run._start))
    own = settings.own
    assert isinstance(own, SingleUnit)
    return why_periodic(subject.machine, rule=own.update, order=str(own.order), beta=min(settings.beta))


def _coldest(run: Samples) -> float:
    return float(max(run.config["sample"]["beta"]))
