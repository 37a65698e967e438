"""Likelihoods by annealed importance sampling along learning, where the exact ones take too long.

Salakhutdinov and Murray, ICML (2008), p. 872, doi:10.1145/1390156.1390266.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._base import checks, rng
from ..._base.streams import Stream
from ...data.rows import Rows
from ...inference.methods import run_method
from ...machine.machine import BoltzmannMachine
from ..settings import FitSettings
from .looks import places_of_some
from .row_sums import FILL_IN, mean_log_sum, refuse_long_sums

N_BETAS, N_CHAINS = 1_000, 128  # as much work as some hundred mini-batches
MOST_ROWS = 4_096  # of the data; of held-out rows all
FLOAT = Stream("<f8")


class AisLooks:
    """Estimates by annealed importance sampling of log Z and the mean log-likelihood, or of its lower bound.

    log Z has a standard error. The likelihood is that of at most 4096 rows and of all held-out ones; deep machines have
    the lower bound.

    The rows are the same at every look: all with their weights, or of more than 4096 some, drawn by weight. What a row
    lacks is summed out. Seeds follow from the run's and the epoch.

    Raises
    ------
    ValueError
        Where each row would need a long sum of its own: hidden units are coupled to one another but for layers, or
        too much is missing.
    """

    def __init__(self, start: BoltzmannMachine, data: Mapping[str, Any], settings: FitSettings, threads: int) -> None:
        deep = start.layout == "deep"
        if not deep and not start.hidden_are_independent:
            raise ValueError(
                f"ais_every={settings.ais_every} needs hidden units that are not coupled to one another, or layers of "
                'them, so that rows have a closed sum or bound. Leave it out, or use layout="restricted".'
            )
        self._settings, self._threads = settings, threads
        self._kind = "log_likelihood_bound" if deep else "log_likelihood"
        rows, self._weights = Rows.of(data["rows"]), data.get("weights")
        if len(rows) > MOST_ROWS:
            generator = rng.keyed(settings.seed, rng.MONITOR, 6)
            rows, self._weights = rows.chosen(places_of_some(rows, generator, self._weights, MOST_ROWS)), None
        self._rows = {"": rows}
        if "holdout" in data:
            self._rows["holdout_"] = Rows.of(data["holdout"])
        asked = f"ais_every={settings.ais_every}"
        if deep and not all(rows.complete for rows in self._rows.values()):
            raise ValueError(
                f"{asked} needs whole rows for the bounds of machines of several hidden layers; entries of data or "
                f"holdout are missing. Leave it out, or {FILL_IN}."
            )
        refuse_long_sums(start, self._rows.values(), asked, "Leave it out, or hold out rows that lack fewer")

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that a run writes at every estimate."""
        likelihoods = {f"likelihood/{prefix}{self._kind}": FLOAT for prefix in self._rows}
        about = {f"likelihood/{name}": FLOAT for name in ("log_z", "log_z_error", "ess")}
        return {"likelihood/epoch": Stream("<i8"), **about, **likelihoods}

    def __call__(self, model: BoltzmannMachine, epoch: int) -> dict[str, np.ndarray]:
        """Return one row of every stream for `model` after `epoch`."""
        s = self._settings
        with warnings.catch_warnings():  # errors and ess say it at every look
            warnings.simplefilter("ignore", checks.ConvergenceWarning)
            result = run_method(
                model, "ais", beta=s.beta, clamp=None, moments=False, seed=rng.derive(s.seed, rng.MONITOR, 7, epoch),
                threads=self._threads, n_betas=N_BETAS, n_chains=N_CHAINS, start=s.ais_start, witness=False,
            )  # fmt: skip
        found = {"log_z": result.log_z, "log_z_error": result.log_z_error, "ess": result.ess}
        for prefix, rows in self._rows.items():
            weights = None if prefix else self._weights
            mean = mean_log_sum(model, rows, s.beta, self._threads, weights, self._kind)
            found[f"{prefix}{self._kind}"] = mean - result.log_z
        return {"likelihood/epoch": np.array([epoch])} | {
            f"likelihood/{name}": np.array([value]) for name, value in found.items()
        }
