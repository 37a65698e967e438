"""The evaluation of a learned machine: log Z, likelihoods, error bars, and how well it reproduces its data."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np

from ..._base import checks, rng
from ..._base.streams import Stream
from ...data.rows import Rows
from ...inference.ais.method import AIS
from ...inference.conditional.completions import forecast_of_known
from ...inference.exact.method import forecast_seconds, usual_engine
from ...inference.methods import run_method
from ...inference.scout.scout import attempt_seconds
from ...learning.classifier.classifier import BoltzmannClassifier
from ...learning.errors.blocks import warn_of_neighbours
from ...learning.errors.errors import Errors
from ...learning.errors.fisher import fisher_errors, has_enough, refuse_information
from ...learning.errors.statistics import Statistics
from ...learning.fidelity.fidelity import Fidelity, fidelity, refuse_many_units
from ...learning.learn import AIS_BETAS
from ...learning.methods import PRESETS
from ...learning.minibatches import distinct
from ...learning.moments import Parameters
from ...learning.monitor.row_sums import mean_log_sum, name_of_likelihood
from ...learning.noise_of_steps import variance_of_steps
from ...learning.settings import FitSettings
from ...learning.training_set import Sample
from ...machine.machine import BoltzmannMachine
from .refits import Refits, Refitting

EXACT_SECONDS = 60.0  # log Z is exact where it takes no longer
AIS_SECONDS, FEWEST_BETAS = 0.3, 100  # of annealing after rules that need no log Z, unless it is asked for
FIDELITY_SECONDS = 60.0
MOST_NAMED = 3  # couplings
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
        executor: Executor | None = None,
    ) -> None:
        self._start, self._data, self._settings, self._threads = start, data, settings, threads
        self._executor = executor
        self._refits: Refitting | None = None
        self._resampled: dict[str, np.ndarray] = {}  # of a fit that goes on
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

    def resample(self, model: BoltzmannMachine) -> bool:
        """Learn `model` again from the next resample of its rows, as the bootstrap does; return whether there was one.

        All of them come before the evaluation is called.
        """
        return self._settings.errors == "bootstrap" and self._refitting(model).step()

    def _refitting(self, model: BoltzmannMachine) -> Refitting:
        if self._refits is None:
            refits = Refits.of(self._start, model, self._data, self._settings)
            self._refits = Refitting(refits, self._threads, self._executor)
            self._refits.restore(self._resampled)
        return self._refits

    def state(self) -> dict[str, np.ndarray]:
        """Return what the resamples have told so far, of those of a fit that is not evaluated yet."""
        return self._resampled if self._refits is None else self._refits.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._resampled, self._refits = dict(state), None

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
        # of few units in layers too, whose kernels the fit has
        if self.method == "exact" and (engine := usual_engine(model, moments=False)):
            options["engine"] = engine
        seed = rng.derive(s.seed, rng.MONITOR)
        result = run_method(
            model, self.method, beta=s.beta, clamp=None, moments=False, seed=seed, threads=self._threads, **options
        )
        found = {"log_z": result.log_z, "log_z_error": result.log_z_error}
        kind = self._likelihood or "log_likelihood"
        by_moments = self._sample.up is None or self._sample.by_moments(s)
        if by_moments:
            found["log_likelihood"] = self._sample.mean_log_factor(model, s.beta) - result.log_z
        for name, prefix in (("rows", ""), ("holdout", "holdout_")):
            if name in self._judged and not (by_moments and name == "rows"):
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

    def _values(self, name: str) -> np.ndarray:
        return self._start.convention.values(Rows.of(self._data[name])[:], np.int8)

    def _classifier_error(self) -> float:

        assert self._classify is not None
        machines = BoltzmannClassifier(**{"units": self._start.units, "threads": self._threads, **self._classify})
        machines.fit(self._values("rows"), self._data["labels"])
        return machines.error(self._values("holdout"), self._data["holdout_labels"])

    def _errors(self, model: BoltzmannMachine) -> Errors:
        """Return error bars, `inf` where it is known from the data that they leave a parameter open."""
        found, s = self._estimated_errors(model), self._settings
        if model.n_hidden or s.optimizer == "none":
            return found
        never = self._sample.open_parameters(s).arrays
        arrays = zip((*found.weights, found.bias), never, strict=True)
        *weights, bias = (np.where(one, np.inf, error) for error, one in arrays)
        return replace(found, weights=tuple(weights), bias=bias)

    def _estimated_errors(self, model: BoltzmannMachine) -> Errors:
        s = self._settings
        seed = rng.derive(s.seed, rng.MONITOR, 2)
        bootstrap, up = s.errors == "bootstrap", self._sample.up
        if up is not None and up.in_memory and self._sample.weights is None and not (bootstrap and s.block != 1):
            # patterns with their counts come in any order
            warn_of_neighbours(up, f"errors={s.errors!r}" + (" with block=1" if bootstrap else ""))
        if bootstrap:
            return self._refitting(model).errors()
        n_rows = self._sample.n_rows
        assert n_rows is not None
        enough = self._sample.up is not None and has_enough(model, n_rows)
        rows, weights = (self._sample.rows, self._sample.weights) if enough else (None, None)  # else samples are drawn
        found = fisher_errors(
            model, n_rows=n_rows, beta=s.beta, rows=rows, row_weights=weights, l2=s.l2, l2_bias=s.l2_bias, seed=seed,
            threads=self._threads,
        )  # fmt: skip
        self._warn_of_pulled(model, found.detail["pulled"])
        of_steps = variance_of_steps(model, self._sample, s, found, self._threads)
        return found if of_steps is None else found.widened(Statistics(model).parameters(of_steps))

    def _warn_of_pulled(self, model: BoltzmannMachine, pulled: np.ndarray) -> None:
        """Warn of couplings that the penalty moves, but for those that only a penalty keeps finite."""
        if not model.n_hidden:
            endless = self._sample.open_parameters(replace(self._settings, l2=0.0, l2_bias=0.0))
            pulled = pulled[~Statistics(model).vector(endless)[pulled].astype(bool)]
        if len(pulled):
            names = ", ".join(Statistics(model).name(int(k)) for k in pulled[:MOST_NAMED])
            more = f" and {len(pulled) - MOST_NAMED} more" if len(pulled) > MOST_NAMED else ""
            checks.warn(
                f"the penalty moves {len(pulled)} couplings by more than their standard errors, {names}{more}. Errors "
                "leave that out: they are those of the penalised maximum about its own mean. Lower l2."
            )
