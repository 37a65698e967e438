"""Learning as a run: a learner's epochs, estimates of its likelihood, and an evaluation, one block of rows at a time.

The last epoch of a run is looked at once more than it would have been in a longer one, which would have gone on without
that. So the state before it stays with the run, and the numbers of rows that there were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ..._base.streams import Stream
from ...data.rows import Rows
from ...inference.exact.method import refuse_if_long
from ...learning import verdicts
from ...learning.learn import Learner
from ...learning.learners.likelihood import Descent
from ...learning.missing import refuse_long_phase
from ...learning.moments import Parameters, with_prefix, without_prefix
from ...learning.monitor.ais import AisLooks
from ...learning.monitor.row_sums import refuse_long_evaluation, refuse_long_rows
from ...learning.settings import FitSettings
from ...learning.training_set import Sample
from ...machine.machine import BoltzmannMachine
from .evaluation import Evaluation

PREFIX, RESAMPLED, N_ROWS = "before_end", "resampled", "n_rows"

Arrays = dict[str, np.ndarray]


class Ending:
    """The state of a learning run before its end, kept so that the run can be extended."""

    def __init__(self) -> None:
        self._kept: Arrays = {}

    def begin(self, state: Callable[[], Arrays], n_written: Callable[[], Mapping[str, int]] | None) -> None:
        """Keep the state where the end begins, once; nothing without the numbers of rows that were written."""
        if self._kept or n_written is None:
            return
        counts = n_written()
        self._kept = {name: np.array(array) for name, array in state().items()}
        self._kept[N_ROWS] = np.array([counts[name] for name in sorted(counts)], np.int64)

    def forget(self) -> None:
        """Drop the state that was kept, as it was no end.

        Learning had stopped by itself before, which is not known after a resume until it is computed.
        """
        self._kept = {}

    def state(self) -> Arrays:
        """Return the kept state under a prefix of its own, for a checkpoint."""
        return with_prefix(PREFIX, self._kept)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._kept = without_prefix(PREFIX, dict(state))


def before_end(state: Mapping[str, np.ndarray], streams: Mapping[str, object]) -> tuple[Arrays, dict[str, int]] | None:
    """Return the state of a finished run before its end, and its rows of each stream there; None if it was not kept."""
    kept = without_prefix(PREFIX, dict(state))
    if not kept:
        return None
    counts = kept.pop(N_ROWS).tolist()
    return kept, dict(zip(sorted(streams), counts, strict=True))


class FitTask:
    """The task of one learning run.

    Parameters
    ----------
    start : BoltzmannMachine
        Where learning starts.
    data : dict of arrays
        "rows", bits (m, n_visible), or "mean" and "second_moment" in their place; where there are any "weights" of the
        rows, "holdout", "labels", "holdout_labels".
    settings : FitSettings
    classify : dict, optional
        Settings of a `BoltzmannClassifier` that is learned beside it from the labels.
    threads : int
    executor : Executor, optional
        Does the fits of the bootstrap.

    Attributes
    ----------
    n_written : function or None
        How many rows of each stream the run has written, told by what writes it.
    """

    unit = "epoch"

    def __init__(
        self,
        start: BoltzmannMachine,
        data: Mapping[str, Any],
        settings: FitSettings,
        *,
        classify: dict[str, Any] | None,
        threads: int,
        judged: bool = True,
        executor: Executor | None = None,
    ) -> None:
        self._judged = judged  # whether the run has a place for the verdict; those of older files have none
        self.start, self.settings, self.data, self.threads = start, settings, data, threads
        self._evaluated = False
        self._ending = Ending()
        self.n_written: Callable[[], Mapping[str, int]] | None = None
        sample = Sample.of(start, data)
        counted = sample.weights is None and sample.by_moments(settings)
        if executor is not None and settings.errors != "bootstrap" and not counted:
            raise ValueError(
                "executor does the fits of errors='bootstrap', and counts pairs of units for rules that learn from the "
                "moments of whole rows that count alike: 'exact', 'monte-carlo' and 'mean-field' without hidden units, "
                "and formulas. "
                f"Here method={settings.method!r} has neither. Leave executor out."
            )
        self._refuse_long_sums(sample)
        self.learner = Learner(start, data, settings, threads=threads)
        self._ais = AisLooks(start, data, settings, threads) if settings.ais_every else None
        self._n_measured = 0  # epochs at the last look by annealed importance sampling
        self._evaluation = Evaluation(start, data, settings, classify, threads, executor)
        self.method = self._evaluation.method

    def _refuse_long_sums(self, sample: Sample) -> None:
        """Refuse at once the sums that an exact phase, or an exact evaluation at the end, would refuse later."""
        settings, hidden_coupled = self.settings, not self.start.hidden_are_independent
        if settings.free == "exact" or settings.evaluate == "exact":
            refuse_if_long(self.start, self.threads)
        if sample.up is not None:
            refuse_long_phase(self.start, sample.up, settings)
            tables = (Rows.of(self.data[name]) for name in ("rows", "holdout") if name in self.data)
            refuse_long_evaluation(self.start, tables, settings.evaluate)
        # by ais the rows of deep machines get bounds in place of sums
        summed = settings.evaluate == "exact" or (settings.evaluate == "ais" and self.start.layout != "deep")
        if hidden_coupled and (settings.clamped == "exact" or summed):
            refuse_if_long(self.start.hidden(), self.threads)
            rows = [Rows.of(self.data[k]) for k in ("rows", "holdout") if k in self.data]
            refuse_long_rows(self.start, rows, settings)

    @property
    def n_epochs(self) -> int:
        """Number of epochs done."""
        return self.learner.n_epochs

    @property
    def parameters(self) -> Parameters:
        """The parameters as they are learned so far."""
        return self.learner.parameters

    @property
    def model(self) -> BoltzmannMachine:
        """The machine as it is learned so far."""
        return self.learner.model

    @property
    def detail(self) -> dict[str, str]:
        """What the rule says of the numbers that it computes in, by entry of `meta`."""
        return dict(getattr(self.learner.driver, "detail", {}))

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that the run writes."""
        return {
            **self.learner.streams,
            **({} if self._ais is None else self._ais.streams),
            **self._evaluation.streams,
            **(verdicts.STREAMS if self._judged else {}),
            **self.learner.streams_of_chains,
        }

    @property
    def done(self) -> bool:
        """Whether all epochs, and the evaluation, are done."""
        return self._evaluated

    @property
    def atomic(self) -> bool:
        """Whether the next block may be broken off anywhere and done again.

        Estimates of the likelihood and iterations of L-BFGS may be; they may be long. Steps are short.
        """
        return isinstance(self.learner.driver, Descent) or self.learner.over or self._ais_due

    @property
    def why_no_longer(self) -> str:
        """Why a run with more epochs would not have gone past this end; empty if it would."""
        if self.n_epochs == self.settings.epochs:
            return ""
        if self.learner.stopping.hopeless:
            why = "the moment error was down to the noise of the chains, above what until asks for"
        elif self.learner.stopping.met:
            why = "until was met" if not self.settings.patience else "until or patience was met"
        else:
            why = "there was nothing left to gain"
        return f"learning stopped by itself after epoch {self.n_epochs} of {self.settings.epochs}, as {why}"

    @property
    def progress(self) -> tuple[int, int]:
        """Epochs done, and epochs in all."""
        return self.n_epochs, self.settings.epochs

    @property
    def _ais_due(self) -> bool:
        """Whether the likelihood is to be estimated before anything else."""
        every = self.settings.ais_every
        return self._ais is not None and self._n_measured < self.n_epochs and self.learner.due(every)

    def advance(self) -> dict[str, np.ndarray]:
        """Do one epoch, an estimate of its likelihood, or the evaluation when the epochs are done; return the rows."""
        if self._ais_due:
            return self._measure_by_ais()
        over = self.learner.over
        if self.n_epochs == self.settings.epochs - 1 and not over:
            self._ending.begin(self._state, self.n_written)
        rows = self.learner.advance()
        if rows is not None:
            return rows
        if not over:
            self._ending.forget()
        if self._ais_due:  # the driver came to its end without an epoch more
            return self._measure_by_ais()
        if self._evaluation.resample(self.model):
            return {}
        rows = self._evaluation(self.model)
        found = self.learner.verdict(*_likelihood_of(rows))
        self._evaluated = True
        return rows | (found if self._judged else {})

    def _measure_by_ais(self) -> dict[str, np.ndarray]:
        assert self._ais is not None
        self._n_measured = self.n_epochs
        return self._ais(self.learner.driver.parameters.machine(self.start), self.n_epochs - 1)

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the run bit for bit, also past its end."""
        resampled = {} if self.done else with_prefix(RESAMPLED, self._evaluation.state())
        return {**self._state(), **self._ending.state(), **resampled}

    def _state(self) -> dict[str, np.ndarray]:
        return self.learner.state({"n_looked": np.array(self._n_measured), "evaluated": np.array(self._evaluated)})

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._evaluated, self._n_measured = bool(state["evaluated"]), int(state["n_looked"])
        self._ending.restore(state)
        self._evaluation.restore(without_prefix(RESAMPLED, state))
        self.learner.restore(state)


def _likelihood_of(rows: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Return the mean log-likelihood of the rows in rows of an evaluation, or its bound, and its error.

    It is nan where neither is known.
    """
    whole, bound, error = (
        float(rows[f"evaluation/{name}"][0]) if f"evaluation/{name}" in rows else math.nan
        for name in ("log_likelihood", "log_likelihood_bound", "log_z_error")
    )
    return bound if math.isnan(whole) else whole, 0.0 if math.isnan(error) else error
