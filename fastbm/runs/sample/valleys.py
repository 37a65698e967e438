"""Whether there may be states that none of a run's chains has visited, which no diagnostic shows."""

from __future__ import annotations

from ...sampling import valleys
from ...sampling.chains import why_periodic
from ...sampling.settings import SingleUnit
from ..spec import Given
from .samples import Samples


def is_even(run: Samples) -> bool:
    """Return whether the machine that is sampled is even under a flip of all units; with clamped ones it never is."""
    return not run.config["sample"].get("n_patterns") and run._start_is_even


def starts_at_one_point(run: Samples) -> bool:
    """Return whether all chains began at the same state."""
    if run._sampler == "exact":
        return False
    if run.config.get("initial") == "up":
        return True
    given = run._reader.inputs.get("initial")
    return given is not None and bool((given == given[0]).all())


def why_unseen(run: Samples, n_chains: int) -> str:
    """Return why there may be states that none of the `n_chains` of a group has visited; empty if unlikely."""
    if why := _of_updates(run):
        return why
    if run._sampler == "exact":
        return ""
    if run._sampler in ("wolff", "swendsen-wang") and n_chains > 1:
        return ""  # couplings without frustration, and clusters go from valley to valley
    if run._sampler == "tempering" and int(run.round_trips.sum()) >= valleys.FEWEST_CHAINS:
        return ""  # each a start of its own
    clamped, one_point = bool(run.config["sample"].get("n_patterns")), starts_at_one_point(run)
    return valleys.why_unseen(run._start, _coldest(run), n_chains, one_point=one_point, clamped=clamped)


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
