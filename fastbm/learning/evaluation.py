"""The last look at a learned machine: log Z, likelihoods, error bars, and what it gets right of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .. import rng
from ..couplings import Layered
from ..inference.completions import forecast_of_known
from ..inference.exact import forecast_seconds
from ..inference.hidden import hidden_are_independent, machine_of_hidden
from ..inference.methods import run_method
from ..model import BoltzmannMachine
from ..rows import Rows
from ..store import Stream
from .bootstrap import bootstrap_errors
from .distinct import distinct
from .errors import Errors
from .fidelity import Fidelity, fidelity
from .fisher import fisher_errors, has_enough, refuse_information
from .moments import Parameters
from .row_sums import mean_log_sum
from .sample import Sample
from .settings import FitSettings

EXACT_SECONDS = 60.0  # log Z is exact where it takes no longer
AIS_BETAS = 3_000
FIDELITY_SECONDS = 60.0
FLOAT = Stream("<f8")


class Evaluation:
    """What is looked at when learning is over.

    Attributes
    ----------
    method : str or None
        How log Z is computed; None where it cannot be.
    """

    def __init__(
        self,
        start: BoltzmannMachine,
        data: Mapping[str, Any],
        settings: FitSettings,
        classify: dict[str, Any] | None,
        threads: int,
    ) -> None:
        self._start, self._data, self._settings, self._threads = start, data, settings, threads
        self._sample = Sample.of(start, data)
        self._classify = classify
        self._judged = [name for name in ("rows", "holdout") if name in data and self._can_judge(Rows.of(data[name]))]
        self.method = self._choose()
        if settings.errors == "fisher":
            refuse_information(start)

    def _choose(self) -> str | None:
        wanted = self._settings.evaluate
        if wanted != "auto":
            return wanted
        if forecast_seconds(self._start, moments=False) <= EXACT_SECONDS:
            return "exact"
        if not hidden_are_independent(self._start):  # rows need sums over the hidden units, each its own
            each = forecast_seconds(machine_of_hidden(self._start), moments=False)
            n_rows = sum(len(self._data[name]) for name in self._judged)
            return "ais" if each * n_rows <= EXACT_SECONDS else None
        return "ais" if self._start.n_hidden == 0 or isinstance(self._start.couplings, Layered) else None

    def _can_judge(self, rows: Rows) -> bool:
        """Whether what rows lack can be summed out, by forecast; what is asked for by name was checked before."""
        asked = self._settings.evaluate != "auto"
        return asked or rows.complete or forecast_of_known(self._start, distinct(rows)[0]) <= EXACT_SECONDS

    @property
    def streams(self) -> dict[str, Stream]:
        """What a run writes of it."""
        names = []
        if self.method:
            names += ["log_z", "log_z_error"]
            names += ["log_likelihood"] if self._sample.up is None or "rows" in self._judged else []
            names += ["holdout_log_likelihood"] if "holdout" in self._judged else []
        names += ["classifier_error"] if self._classify is not None else []
        found = {f"evaluation/{name}": FLOAT for name in names}
        if self._settings.fidelity:
            found |= {f"fidelity/{k}": v for k, v in Fidelity.streams(self._start.n_visible).items()}
        if self._settings.errors:
            arrays = self._blank_errors().to_rows()
            found |= {name: Stream("<f8", array.shape[1:]) for name, array in arrays.items()}
        return found

    def _blank_errors(self) -> Errors:
        parameters = Parameters.of(self._start)
        return Errors(parameters.weights, parameters.bias, "", {})

    def __call__(self, model: BoltzmannMachine) -> dict[str, np.ndarray]:
        """Look at `model`; one row of everything."""
        found: dict[str, float] = {}
        if self.method:
            found |= self._likelihoods(model)
        if self._classify is not None:
            found["classifier_error"] = self._classifier_error()
        rows = {f"evaluation/{name}": np.array([value]) for name, value in found.items()}
        if self._settings.fidelity:
            seed, beta = rng.derive(self._settings.seed, rng.MONITOR, 1), self._settings.beta
            compared = fidelity(
                model, self._sample.rows, beta=beta, seed=seed, threads=self._threads, max_seconds=FIDELITY_SECONDS
            )
            rows |= {f"fidelity/{name}": array for name, array in compared.rows().items()}
        if self._settings.errors:
            rows |= self._errors(model).to_rows()
        return rows

    def _likelihoods(self, model: BoltzmannMachine) -> dict[str, float]:
        """log Z, and so the likelihood of the data and of the held-out rows."""
        s = self._settings
        assert self.method is not None
        options = {"n_betas": AIS_BETAS} if self.method == "ais" else {}
        seed = rng.derive(s.seed, rng.MONITOR)
        result = run_method(
            model, self.method, beta=s.beta, clamp=None, moments=False, seed=seed, threads=self._threads, **options
        )
        found = {"log_z": result.log_z, "log_z_error": result.log_z_error}
        if self._sample.up is None:
            found["log_likelihood"] = self._mean_log_factor(model) - result.log_z
        for name, prefix in (("rows", ""), ("holdout", "holdout_")):
            if name in self._judged:
                weights = self._sample.weights if name == "rows" else None
                mean = mean_log_sum(model, Rows.of(self._data[name]), s.beta, self._threads, weights)
                found[f"{prefix}log_likelihood"] = mean - result.log_z
        return found

    def _mean_log_factor(self, model: BoltzmannMachine) -> float:
        """The mean of -beta E over the data, from their moments alone."""
        data, couplings = self._sample.clamped(), model.couplings
        pairs = couplings.to_vector(couplings.arrays) @ couplings.to_vector(data.pairs)
        return self._settings.beta * float(pairs + model.flat_bias @ data.mean - model.offset)

    def _values(self, name: str) -> np.ndarray:
        return self._start.convention.values(Rows.of(self._data[name])[:], np.int8)

    def _classifier_error(self) -> float:
        from .classifier import BoltzmannClassifier  # which learns by tasks of its own

        assert self._classify is not None
        machines = BoltzmannClassifier(**{"units": self._start.units, "threads": self._threads, **self._classify})
        machines.fit(self._values("rows"), self._data["labels"])
        return machines.error(self._values("holdout"), self._data["holdout_labels"])

    def _errors(self, model: BoltzmannMachine) -> Errors:
        s = self._settings
        seed = rng.derive(s.seed, rng.MONITOR, 2)
        if s.errors == "bootstrap":
            return bootstrap_errors(
                lambda counts: self._refit(model, counts), len(self._sample.rows), n_resamples=s.n_resamples, seed=seed
            )
        enough = self._sample.up is not None and has_enough(model, len(self._sample.up))
        rows = self._sample.rows if enough else None  # without, samples of the machine tell the information
        n_rows = self._sample.n_rows
        assert n_rows is not None
        return fisher_errors(
            model, n_rows=n_rows, beta=s.beta, rows=rows, l2=s.l2, l2_bias=s.l2_bias, seed=seed, threads=self._threads
        )

    def _refit(self, model: BoltzmannMachine, counts: np.ndarray) -> Parameters:
        """What is learned, from `model` on, of rows drawn again."""
        from .task import FitTask  # which makes evaluations

        s = self._settings
        every = s.monitor_every if s.patience else s.epochs + 1  # held-out rows say when to stop here too
        settings = replace(s, errors=None, fidelity=False, evaluate=None, monitor_every=every, weights_every=0)
        chosen = np.repeat(np.arange(len(counts)), counts)
        data: dict[str, Any] = {"rows": self._sample.rows.chosen(chosen)}
        if self._sample.weights is not None:
            data["weights"] = self._sample.weights[chosen]
        if s.patience:
            data["holdout"] = self._data["holdout"]
        task = FitTask(model, data, settings, classify=None, threads=self._threads)
        while not task.done:
            task.advance()
        return task.parameters
