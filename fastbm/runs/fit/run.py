"""Whether the free chains of a learning run mixed, told at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._base import checks
from ...learning.monitor.chains import R_HAT_OF_CHAINS

if TYPE_CHECKING:
    from ..run import Run


class LastRHat(NamedTuple):
    """R-hat of the free chains, and the epoch (from 1) after which it was told."""

    r_hat: float
    epoch: int


def last_r_hat(run: Run) -> LastRHat | None:
    """The last R-hat of the free chains that there is; None where nothing told it."""
    if "r_hat" not in run.metrics:
        return None
    values = run.metrics["r_hat"]
    known = np.flatnonzero(~np.isnan(values))
    return LastRHat(float(values[known[-1]]), int(run.metrics["step"][known[-1]]) + 1) if len(known) else None


def warn_of_chains(run: Run, more: str = "") -> bool:
    """Say once, at the end of a run, that free chains did not mix, the ways out, and what `more` there is to be said;
    whether that was said.
    """
    found = last_r_hat(run)
    if found is None or found.r_hat <= R_HAT_OF_CHAINS:
        return False
    settings = run.config["fit"]
    free, n_sweeps = settings["free"], settings["n_sweeps"]
    if free == "auto":  # what was at work at the end
        n_sweeps, free = int(run.metrics["n_sweeps"][-1]), "tempering" if run.metrics["n_betas"][-1] > 1 else free
    ways = [f"raise n_sweeps (it was {n_sweeps})"]
    ways += {"gibbs": ['use free="tempering" or free="auto"'], "tempering": ["raise n_betas"]}.get(free, [])
    ways.append(f"lower learning_rate (it was {settings['learning_rate']:g})")
    text = ", or ".join(ways)
    checks.warn(
        f"free chains do not mix: r_hat = {found.r_hat:.3g} after epoch {found.epoch}, above {R_HAT_OF_CHAINS:g}; what "
        f"was learned may be biased. {text[0].upper()}{text[1:]}.{more}",
    )
    return True
