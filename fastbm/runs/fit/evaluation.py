"""The evaluation of a learned machine: log Z, likelihoods, error bars, and how well it reproduces its data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..._base import checks, rng
from ..._base.streams import Stream
from ...data.rows import Rows
from ...inference.ais.method import AIS
from ...inference.conditional.completions import forecast_of_known
from ...inference.exact.method import forecast_seconds
from ...inference.methods import run_method
from ...inference.scout.scout import attempt_seconds
from ...learning.classifier.classifier import BoltzmannClassifier
from ...learning.errors.blocks import block_of
from ...learning.errors.bootstrap import bootstrap_errors, warn_of_errors
from ...learning.errors.errors import Errors
from ...learning.errors.fisher import fisher_errors, has_enough, refuse_information
from ...learning.fidelity.fidelity import Fidelity, fidelity, refuse_many_units
from ...learning.learn import AIS_BETAS, learn
from ...learning.learners.closed import learn_resample
from ...learning.methods import PRESETS
from ...learning.minibatches import distinct
from ...learning.moments import Parameters
from ...learning.monitor.row_sums import mean_log_sum, name_of_likelihood
from ...learning.settings import FitSettings
from ...learning.training_set import Sample
from ...machine.machine import BoltzmannMachine

EXACT_SECONDS = 60.0  # log Z is exact where it takes no longer
AIS_SECONDS, FEWEST_BETAS = 0.3, 100  # of annealing after rules that need no log Z, unless it is asked for
FIDELITY_SECONDS = 60.0
FLOAT = Stream("<f8")


class Evaluation:
    """The evaluation that ends a run of `fit`: log Z, likelihoods, error bars, fidelity, a classifier's error.

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
        whole = all(Rows.of(data[name]).complete for name in ("rows", "holdout") if name in data)
        bounded = settings.evaluate != "exact" and whole
        self._likelihood = name_of_likelihood(start, data) if bounded else "log_likelihood"
        self._judged = [name for name in ("rows", "holdout") if name in data and self._can_judge(Rows.of(data[name]))]
        self.method = self._choose()
        if settings.ais_start is not None and self.method != "ais" and not settings.ais_every:
            raise ValueError(
                'ais_start goes with ais_every or evaluate="ais"; log Z here is looked at '
                f"{'by ' + repr(self.method) if self.method else 'nowhere'}. Leave ais_start out."
            )
        if settings.errors == "fisher":
            refuse_information(start)
        if settings.fidelity:
            refuse_many_units(start)

    def _choose(self) -> str | None:
        wanted = self._settings.evaluate
        if wanted != "auto":
            return wanted
        if forecast_seconds(self._start, moments=False) <= EXACT_SECONDS:
            return "exact"
        return "ais" if self._likelihood else None

    @property
    def _has_bracket(self) -> bool:
        """Return whether annealing also runs backwards along the path, for an upper bound of log Z."""
        return self._settings.evaluate == "ais" and self._start.is_layered

    @property
    def _n_likelihoods(self) -> list[str]:
        """Names of the likelihoods of rows and of held-out rows that can be computed."""
        kind = self._likelihood or "log_likelihood"
        names = [kind] if self._sample.up is None or "rows" in self._judged else []
        return names + ([f"holdout_{kind}"] if "holdout" in self._judged else [])

    @property
    def _bracket_names(self) -> list[str]:
        return [
            "log_z_lower", "log_z_lower_error", "log_z_upper", "log_z_upper_error", "upper_holds",
            *(f"{name}_{end}" for name in self._n_likelihoods for end in ("lower", "upper")),
        ]  # fmt: skip

    def _can_judge(self, rows: Rows) -> bool:
        """Return whether missing entries can be summed out, by forecast; a sum asked for by name was checked."""
        asked = self._settings.evaluate != "auto"
        return asked or rows.complete or forecast_of_known(self._start, distinct(rows)[0]) <= EXACT_SECONDS

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that a run writes of its evaluation."""
        names = []
        if self.method:
            names += ["log_z", "log_z_error", *self._n_likelihoods]
            names += self._bracket_names if self._has_bracket else []
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
        """Evaluate `model`; return one row of every stream."""
        found: dict[str, float] = {}
        if self.method:
            found |= self._likelihoods(model)
        if self._classify is not None:
            found["classifier_error"] = self._classifier_error()
        rows = {f"evaluation/{name}": np.array([value]) for name, value in found.items()}
        if self._settings.fidelity:
            seed, beta = rng.derive(self._settings.seed, rng.MONITOR, 1), self._settings.beta
            compared = fidelity(
                model,
                self._sample.rows,
                row_weights=self._sample.weights,
                beta=beta,
                seed=seed,
                threads=self._threads,
                max_seconds=FIDELITY_SECONDS,
            )
            rows |= {f"fidelity/{name}": array for name, array in compared.rows().items()}
        if self._settings.errors:
            rows |= self._errors(model).to_rows()
        return rows

    def _likelihoods(self, model: BoltzmannMachine) -> dict[str, float]:
        """Return log Z, and with it the likelihoods of the data and of the held-out rows; nats."""
        s = self._settings
        assert self.method is not None
        options: dict[str, Any] = {"n_betas": self._n_betas, "start": s.ais_start} if self.method == "ais" else {}
        if self._has_bracket:
            options["bracket"] = True
        seed = rng.derive(s.seed, rng.MONITOR)
        result = run_method(
            model, self.method, beta=s.beta, clamp=None, moments=False, seed=seed, threads=self._threads, **options
        )
        found = {"log_z": result.log_z, "log_z_error": result.log_z_error}
        kind = self._likelihood or "log_likelihood"
        by_moments = not model.n_hidden and not self._sample.has_gaps
        if by_moments:
            found["log_likelihood"] = self._mean_log_factor(model) - result.log_z
        for name, prefix in (("rows", ""), ("holdout", "holdout_")):
            if name in self._judged and not (name == "rows" and by_moments):
                weights = self._sample.weights if name == "rows" else None
                mean = mean_log_sum(model, Rows.of(self._data[name]), s.beta, self._threads, weights, kind)
                found[f"{prefix}{kind}"] = mean - result.log_z
        return found | (self._bracket(found, result.log_z, result.detail) if self._has_bracket else {})

    @property
    def _n_betas(self) -> int:
        """The number of temperatures of annealing."""
        s = self._settings
        if s.evaluate != "auto" or PRESETS[s.method].driver == "phases":
            return AIS_BETAS
        each = AIS.n_chains * self._start.n_units * attempt_seconds(self._start)
        return int(np.clip(AIS_SECONDS / each, FEWEST_BETAS, AIS_BETAS))

    def _bracket(self, found: dict[str, float], log_z: float, detail: Mapping[str, Any]) -> dict[str, float]:
        """Return both bounds of log Z, and the bounds of the likelihoods that follow; nats.

        `upper_holds` is 1 where backward walks began at samples of the machine, else 0: the upper bound then bounds
        nothing.
        """
        ends = {name: float(detail[name]) for name in self._bracket_names if name in detail}
        for name in self._n_likelihoods:
            ends[f"{name}_lower"] = found[name] + log_z - ends["log_z_upper"]
            ends[f"{name}_upper"] = found[name] + log_z - ends["log_z_lower"]
        return ends

    def _mean_log_factor(self, model: BoltzmannMachine) -> float:
        """Return the mean of -beta E over the data, which is linear in their moments."""
        data, couplings = self._sample.clamped(), model.couplings
        pairs = couplings.to_vector(couplings.arrays) @ couplings.to_vector(data.pairs)
        return self._settings.beta * float(pairs + model.flat_bias @ data.mean - model.offset)

    def _values(self, name: str) -> np.ndarray:
        return self._start.convention.values(Rows.of(self._data[name])[:], np.int8)

    def _classifier_error(self) -> float:

        assert self._classify is not None
        machines = BoltzmannClassifier(**{"units": self._start.units, "threads": self._threads, **self._classify})
        machines.fit(self._values("rows"), self._data["labels"])
        return machines.error(self._values("holdout"), self._data["holdout_labels"])

    def _errors(self, model: BoltzmannMachine) -> Errors:
        s = self._settings
        seed = rng.derive(s.seed, rng.MONITOR, 2)
        if s.errors == "bootstrap":
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", checks.ConvergenceWarning)
                # what free="auto" answers is no failure of a fit
                warnings.filterwarnings("ignore", "free chains do not mix", checks.ConvergenceWarning)
                found = bootstrap_errors(
                    lambda counts: self._refit(model, counts),
                    len(self._sample.rows),
                    n_resamples=s.n_resamples,
                    seed=seed,
                    block=block_of(s.block, self._sample.rows),
                )
            warn_of_errors(caught, s.n_resamples)
            return found
        enough = self._sample.up is not None and has_enough(model, len(self._sample.up))
        rows = self._sample.rows if enough else None  # without, samples of the machine tell the information
        n_rows = self._sample.n_rows
        assert n_rows is not None
        return fisher_errors(
            model, n_rows=n_rows, beta=s.beta, rows=rows, l2=s.l2, l2_bias=s.l2_bias, seed=seed, threads=self._threads
        )

    def _refit(self, model: BoltzmannMachine, counts: np.ndarray) -> Parameters:
        """Learn again, from `model` on, from resampled rows, row k taken `counts[k]` times; return the parameters."""
        s = self._settings
        every = s.monitor_every if s.patience else s.epochs + 1  # held-out rows say when to stop here too
        quiet: dict[str, Any] = {
            "errors": None,
            "fidelity": False,
            "evaluate": None,
            "weights_every": 0,
            "ais_every": 0,
            "ais_start": None,
            "pretrain_epochs": 0,
            "n_starts": 1,
        }
        settings = replace(s, monitor_every=every, **quiet)
        chosen = np.repeat(np.arange(len(counts)), counts)
        rows = self._sample.rows.chosen(chosen)
        if s.optimizer == "none":
            weights = None if self._sample.weights is None else self._sample.weights[chosen]
            return learn_resample(model, rows, weights, s)
        data: dict[str, Any] = {"rows": rows}
        if self._sample.weights is not None:
            data["weights"] = self._sample.weights[chosen]
        if s.patience:
            data["holdout"] = self._data["holdout"]
        return learn(model, data, settings, threads=self._threads)
