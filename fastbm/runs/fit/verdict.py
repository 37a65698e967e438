"""The verdict on a learning run at its end, whether its free chains mixed, and the warnings that follow."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..._base import checks
from ...learning import verdicts
from ...learning.errors.statistics import Statistics
from ...learning.monitor.chains import R_HAT_OF_CHAINS, describe_unmixed
from ...learning.verdicts import Verdict
from .learned import Learned


class LastRHat(NamedTuple):
    """R-hat of the free chains, and the epoch (from 1) after which it was computed."""

    r_hat: float
    epoch: int


def last_r_hat(run: Learned) -> LastRHat | None:
    """Return the last R-hat of the free chains; None where none was computed."""
    if "r_hat" not in run.metrics:
        return None
    values = run.metrics["r_hat"]
    known = np.flatnonzero(~np.isnan(values))
    return LastRHat(float(values[known[-1]]), int(run.metrics["step"][known[-1]]) + 1) if len(known) else None


def warn_of_chains(run: Learned, more: str = "") -> bool:
    """Warn once, at the end of a run, that free chains did not mix, with the ways out; return whether it was warned.

    `more` is a text that is added to the warning.
    """
    found = last_r_hat(run)
    if found is None or found.r_hat <= R_HAT_OF_CHAINS:
        return False
    settings = run.config["fit"]
    free, n_sweeps = settings["free"], settings["n_sweeps"]
    if free == "auto":  # what was at work at the end
        n_sweeps, free = int(run.metrics["n_sweeps"][-1]), "tempering" if run.metrics["n_betas"][-1] > 1 else free
    checks.warn(describe_unmixed(found.r_hat, found.epoch, free, n_sweeps, settings["learning_rate"]) + more)
    return True


def verdict_of(run: Learned) -> Verdict | None:
    """Return the verdict of a run that is finished; None where there is none."""
    if f"{verdicts.GROUP}/converged" not in run.streams:
        return None
    columns = {name: run.read(name) for name in verdicts.STREAMS}
    return verdicts.read(columns) if all(map(len, columns.values())) else None


def statistic_of(run: Learned, verdict: Verdict) -> str:
    """Return which parameter the worst moment belongs to, as a text."""
    return Statistics(run.model).name(verdict.statistic)


def warn_of_learning(run: Learned) -> None:
    """Warn once, at the end of a run, of the worst that was found in it, with the way out."""
    found = verdict_of(run)
    if found is not None and found.diverged:
        text = _of_divergence(run, found)
        if not warn_of_chains(run, f" Besides, {text}"):
            checks.warn(text)
    elif found is not None and not math.isnan(found.chain_noise):
        checks.warn(_of_target(run.config["fit"], found.chain_noise))
    elif not warn_of_chains(run) and found is not None and _is_off(run, found):
        checks.warn(_of_moments(run, found))


def doubt_of(run: Learned) -> str:
    """Return why learning has not converged, or why nothing decides it."""
    found, settings = verdict_of(run), run.config["fit"]
    chains = last_r_hat(run)
    if found is not None and found.diverged:
        last, best, independent = found.likelihoods
        if last >= best:
            only = f"{last:.4g} nats{_by_bound(run, found)} only"
            return f"rows came to {only}, where units on their own have {independent:.4g}"
        return f"learning diverged; the best parameters are kept, with {best:.4g} nats a row"
    if found is not None and found.idle:
        return "hidden units do nothing: rows are no likelier than units on their own have them"
    if found is not None and not math.isnan(found.chain_noise):
        return f"the chains' noise, {found.chain_noise:.2g}, is above the moment error that was asked for"
    if chains is not None and chains.r_hat > R_HAT_OF_CHAINS:
        return f"free chains do not mix: r_hat = {chains.r_hat:.3g} after epoch {chains.epoch}"
    if found is not None and _is_off(run, found):
        return f"the moment of {statistic_of(run, found)} is off by {found.largest_z:.3g} times the noise of both"
    if found is not None and found.passed:
        return "moments are the data's as couplings or biases grow without end: there is no finite optimum"
    if settings["optimizer"] == "l-bfgs":
        return _of_gradient(run)
    if settings["optimizer"] == "none":
        return "a formula has no optimum to come to"
    mixed = f"; free chains mix, r_hat = {chains.r_hat:.4g}" if chains is not None else ""
    return f"steps of {settings['method']} come to no rest that could be tested{mixed}"


def _of_gradient(run: Learned) -> str:
    """Return why steps that follow a gradient to where it vanishes did not arrive."""
    gradients, tolerance = run.metrics["gradient"], run.config["fit"]["tolerance"]
    if not len(gradients):
        return "no epoch is done"
    if gradients[-1] > tolerance:
        return f"the gradient is {gradients[-1]:.2g} after {len(gradients)} epochs, above tolerance = {tolerance:g}"
    if run.model.n_hidden and len(gradients) >= run.config["fit"]["epochs"]:
        return "the gradient vanished where the likelihood still has a direction up"
    return "the gradient vanished as couplings or biases grew without end: there is no finite optimum"


def evidence_of(run: Learned) -> str:
    """Return what speaks for learning that has converged."""
    found = verdict_of(run)
    if found is not None and found.statistic >= 0:
        held = " but for the penalty's pull" if _is_penalised(run) else ""
        worst = f"of which the worst is {found.largest_z:.3g} times"
        return f"moments are the data's{held} within the noise of both, {worst}"
    if run.config["fit"]["optimizer"] != "l-bfgs":
        return ""
    return f"the gradient vanished ({run.metrics['gradient'][-1]:.2g})"


def _is_penalised(run: Learned) -> bool:
    settings = run.config["fit"]
    return bool(settings["l2"] or settings["l2_bias"])


def _is_off(run: Learned, found: Verdict) -> bool:
    """Return whether steps that should match the data's moments did not; others stop short by their noise."""
    failed = found.converged is False and not found.passed and found.statistic >= 0
    return failed and run.config["fit"]["optimizer"] == "natural"


def _by_bound(run: Learned, found: Verdict) -> str:
    if "log_likelihood_bound" not in run.evaluation:
        return ""
    return " by a lower bound" if run.evaluation["log_likelihood_bound"][-1] == found.likelihoods[0] else ""


def _of_divergence(run: Learned, found: Verdict) -> str:
    settings = run.config["fit"]
    last, best, independent = found.likelihoods
    if settings["free"] == "none":
        from ...learning.closed_forms.learn import CLOSED_FORMS  # few runs come to this

        if (rule := CLOSED_FORMS.get(settings["method"])) is None:
            more = f"Raise l2 (it was {settings['l2']:g})"
        else:
            more = "Raise flip_noise or ridge" if rule.inverts else "Raise flip_noise"
        return (
            f"the machine that {settings['method']} comes to prefers states unlike the rows, which have {last:.4g} "
            f"nats under it, and {independent:.4g} where units are on their own. {more}, or learn by "
            '"monte-carlo", which looks at the machine\'s own states.'
        )
    if last >= best:
        way = f"Raise epochs (it was {settings['epochs']}), try another seed or start, or lower "
        way += f"learning_rate (it was {settings['learning_rate']:g})."
        return (
            f"learning is worse than nothing learned: rows came to {last:.4g} nats{_by_bound(run, found)}, where units "
            f"on their own have {independent:.4g}. "
            + ("Try another seed or start." if settings["optimizer"] == "l-bfgs" else way)
        )
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


def _of_moments(run: Learned, found: Verdict) -> str:
    settings, n_epochs = run.config["fit"], run.metrics["step"][-1] + 1
    n_chains, n_sweeps = settings["n_chains"], settings["n_sweeps"]
    way = f"epochs (it was {settings['epochs']}), n_chains ({n_chains}) or n_sweeps ({n_sweeps})"
    return (
        f"learning has not converged: after {n_epochs} epochs moments of the machine are not the data's; that of "
        f"{statistic_of(run, found)} is off by {found.largest_z:.3g} times the noise of both. "
        + (f"Ask for less than until={settings['until']}." if n_epochs < settings["epochs"] else f"Raise {way}.")
    )
