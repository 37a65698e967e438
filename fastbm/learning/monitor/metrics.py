"""Metrics of learning: pseudo-likelihood, moment error, and the exact likelihood where it is cheap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...data.rows import Rows
from ...inference.conditional.completions import forecast_of_known
from ...inference.exact.method import forecast_seconds, usual_engine
from ...inference.methods import run_method
from ...machine.couplings import Couplings
from ...machine.machine import BoltzmannMachine
from ..minibatches import distinct
from ..settings import FitSettings
from ..training_set import Sample
from .looks import Look
from .row_sums import mean_log_sum

CALL_SECONDS = 3e-4  # of one exact sum, however small


def root_mean_square(couplings: Couplings, arrays: Sequence[np.ndarray]) -> float:
    """Return the root mean square over the coupled pairs of numbers in the shape of the couplings' arrays."""
    pairs = couplings.to_vector(arrays)
    return float(np.sqrt(pairs @ pairs / max(pairs.size, 1)))


def has_exact_likelihood(model: BoltzmannMachine, rows: Rows, seconds: float) -> bool:
    """Return whether log Z, and the clamped log Z of each distinct row, take no longer than `seconds`."""
    if forecast_seconds(model, moments=False) > seconds:
        return False
    if not rows.complete:
        return forecast_of_known(model, distinct(rows)[0]) <= seconds
    if model.hidden_are_independent:
        return True
    n_patterns = len(distinct(rows)[0])
    each = max(forecast_seconds(model.hidden(), moments=False), CALL_SECONDS)
    return n_patterns * each <= seconds


class Monitors:
    """The metrics of every few epochs: pseudo-likelihood, and the exact likelihood where it is cheap.

    Both are for held-out rows too, where there are any. The pseudo-likelihood, sum_i log p(v_i | other visible units),
    is the mean of the rows of a look, without missing entries; of more than 64 units as many stand for all. Hidden
    units are summed out, which needs them independent. Besag, J. R. Stat. Soc. B 36, 192 (1974),
    doi:10.1111/j.2517-6161.1974.tb00999.x.

    Attributes
    ----------
    names : tuple of str
    """

    def __init__(
        self,
        start: BoltzmannMachine,
        data: Mapping[str, Any],
        settings: FitSettings,
        threads: int,
        looks: Mapping[str, Look],
    ) -> None:
        self._settings, self._threads = settings, threads
        self._rows = {
            prefix: Rows.of(data[name]) for name, prefix in (("rows", ""), ("holdout", "holdout_")) if name in data
        }
        sample = Sample.of(start, data)
        self._by_moments = sample if sample.by_moments(settings) else None
        self._weights = {"": data.get("weights"), "holdout_": None}
        self._looks = {
            prefix: looks[name]
            for name, prefix in (("rows", ""), ("holdout", "holdout_"))
            if start.hidden_are_independent and name in data and looks[name].complete
        }
        self._exact = [
            prefix
            for name, prefix in (("rows", ""), ("holdout", "holdout_"))
            if name in data
            # which L-BFGS tells of the rows itself
            and not (prefix == "" and settings.optimizer == "l-bfgs")
            and has_exact_likelihood(start, Rows.of(data[name]), settings.look_seconds)
        ]
        self._engine = usual_engine(start, moments=False) if self._exact else None
        exact = [f"{prefix}log_likelihood" for prefix in self._exact]
        self.names = (*exact, *(f"{prefix}pseudo_likelihood" for prefix in self._looks))

    def __call__(self, model: BoltzmannMachine) -> dict[str, float]:
        """Return the value of every metric by its name."""
        n = model.n_visible
        found = {f"{prefix}pseudo_likelihood": n * look.at(model)[0] for prefix, look in self._looks.items()}
        if self._exact:
            s = self._settings
            log_z = run_method(
                model,
                "exact",
                beta=s.beta,
                clamp=None,
                moments=False,
                seed=s.seed,
                threads=self._threads,
                engine=self._engine,
            ).log_z
            for prefix in self._exact:
                if self._by_moments is not None and not prefix:
                    mean = self._by_moments.mean_log_factor(model, s.beta)
                else:
                    mean = mean_log_sum(model, self._rows[prefix], s.beta, self._threads, self._weights[prefix])
                found[f"{prefix}log_likelihood"] = mean - log_z
        return found
