"""What a learning run says of itself at its end, and the warnings that follow from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..._base import checks
from ...learning import verdicts
from ...learning.errors.statistics import Statistics
from ...learning.verdicts import Verdict
from ..fit.run import warn_of_chains

if TYPE_CHECKING:
    from ..run import Run


def verdict_of(run: Run) -> Verdict | None:
    """The verdict of a run that is finished; None where there is none."""
    if f"{verdicts.GROUP}/converged" not in run.streams:
        return None
    columns = {name: run.read(name) for name in verdicts.STREAMS}
    return verdicts.read(columns) if all(map(len, columns.values())) else None


def statistic_of(run: Run, verdict: Verdict) -> str:
    """What the worst moment belongs to: the name of its parameter."""
    return Statistics(run.model).name(verdict.statistic)


def warn_of_learning(run: Run) -> None:
    """Say once, at the end of a run, the worst that is to be said of it, and the way out."""
    found = verdict_of(run)
    if found is not None and found.diverged:
        text = _of_divergence(run.config["fit"], found)
        if not warn_of_chains(run, f" Besides, {text}"):
            checks.warn(text)
    elif found is not None and not math.isnan(found.chain_noise):
        checks.warn(_of_target(run.config["fit"], found.chain_noise))
    elif not warn_of_chains(run) and found is not None and _is_off(run, found):
        checks.warn(_of_moments(run, found))


def _is_off(run: Run, found: Verdict) -> bool:
    """Whether steps that should have come to the data's moments did not; other steps leave them open by their noise."""
    return found.converged is False and found.statistic >= 0 and run.config["fit"]["optimizer"] == "natural"


def _of_divergence(settings: dict[str, Any], found: Verdict) -> str:
    last, best, independent = found.likelihoods
    return (
        f"learning diverged: rows came to {last:.4g} nats, where units on their own have {independent:.4g} and the "
        f"best look was {best:.4g}. The parameters of that are kept. Lower learning_rate (it was "
        f"{settings['learning_rate']:g}) or raise n_chains or l2."
    )


def _of_target(settings: dict[str, Any], noise: float) -> str:
    target, n_chains = settings["until"]["moment_error"], settings["n_chains"]
    return (
        f'until={{"moment_error": {target:g}}} cannot be met: the noise of {n_chains} chains is {noise:.2g}, to which '
        f"learning came down. Raise n_chains to at least {round(1.2 * n_chains * (noise / target) ** 2)}, or n_sweeps "
        f"(it was {settings['n_sweeps']})."
    )


def _of_moments(run: Run, found: Verdict) -> str:
    settings = run.config["fit"]
    return (
        f"learning has not converged: after {run.metrics['step'][-1] + 1} epochs moments of the machine are not the "
        f"data's; that of {statistic_of(run, found)} is off by {found.largest_z:.3g} times the noise of both. Raise "
        f"epochs (it was {settings['epochs']}), n_chains ({settings['n_chains']}) or n_sweeps ({settings['n_sweeps']})."
    )
