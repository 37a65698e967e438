"""Errors by the bootstrap in a run: fits to resamples of the rows, done here or by workers, taken in their order."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._base import checks, rng
from ..._base.threads import single_threaded_blas
from ..._base.workers import Pieces
from ...data.rows import Rows
from ...learning.errors.blocks import block_of, drawn_rows
from ...learning.errors.bootstrap import Bootstrap
from ...learning.errors.errors import Errors
from ...learning.learn import learn_to_end, way_out
from ...learning.learners.closed import learn_resample
from ...learning.moments import Parameters, with_prefix, without_prefix
from ...learning.settings import FitSettings
from ...learning.training_set import Sample
from ...machine.machine import BoltzmannMachine

ANSWERED = "free chains do not mix"  # what free="auto" answers by itself is no failure of a fit
QUIET: dict[str, Any] = {
    "errors": None,
    "fidelity": False,
    "evaluate": None,
    "weights_every": 0,
    "ais_every": 0,
    "ais_start": None,
    "pretrain_epochs": 0,
    "n_starts": 1,
}
Told = list[tuple[str, type[Warning]]]  # warnings


@dataclass(frozen=True)
class Refits:
    """Fits to resamples: all that any of them needs besides its number.

    Attributes
    ----------
    model : BoltzmannMachine
        From which each goes on: hidden units that change places would look like errors.
    rows, held : Rows
        `held` says when to stop, if anything does.
    weights : (n_rows,) array or None
    settings : FitSettings
    block : int
        Consecutive rows that are drawn together.
    seed : int
    """

    model: BoltzmannMachine
    rows: Rows
    held: Rows | None
    weights: np.ndarray | None
    settings: FitSettings
    block: int
    seed: int

    @classmethod
    def of(
        cls, start: BoltzmannMachine, model: BoltzmannMachine, data: Mapping[str, Any], settings: FitSettings
    ) -> Refits:
        """Return the refits of a run that learned `model` from `data`."""
        rows = Sample.of(start, data).rows
        held = Rows.of(data["holdout"]) if settings.patience else None
        block, seed = block_of(settings.block, rows), rng.derive(settings.seed, rng.MONITOR, 2)
        return cls(model, rows, held, data.get("weights"), settings, block, seed)

    def learn(self, k: int, threads: int) -> Parameters:
        """Learn from resample `k`."""
        drawn, s = np.sort(drawn_rows(len(self.rows), self.block, self.seed, k, self.weights)), self.settings
        rows = self.rows.chosen(drawn)
        weights = None if self.weights is None else self.weights[drawn]
        if s.optimizer == "none":
            return learn_resample(self.model, rows, weights, s)
        data: dict[str, Any] = {"rows": rows}
        if weights is not None:
            data["weights"] = weights
        if self.held is not None:
            data["holdout"] = self.held
        settings = replace(s, monitor_every=s.monitor_every if s.patience else s.epochs + 1, **QUIET)
        learner = learn_to_end(self.model, data, settings, threads=threads)
        sample = Sample.of(self.model, data)
        if learner.astray:  # not back to where it began, as if errors were 0
            checks.warn(f"learning diverged. {way_out(s)}")
            return learner.driver.parameters
        if sample.is_followed(s) and (lines := sample.describe_endless(s)):
            checks.warn(f"data: {'; '.join(lines)}.")
        return learner.parameters


def refit(refits: Refits, k: int, threads: int = 1) -> tuple[Parameters, Told]:
    """Learn from resample `k`; return the parameters, and what there was to warn of."""
    with checks.keeping_warnings() as told, single_threaded_blas():  # the same bits wherever it is done
        learned = refits.learn(k, threads)
    return learned, [one for one in told if not one[0].startswith(ANSWERED)]


class Refitting:
    """The refits of a run, one a step; the executor, where there is one, does each on one thread of its own."""

    def __init__(self, refits: Refits, threads: int, executor: Executor | None) -> None:
        self._refits, self._threads, self._executor = refits, threads, executor
        n_rows, n = len(refits.rows), refits.settings.n_resamples
        self._bootstrap = Bootstrap(n_rows, n_resamples=n, seed=refits.seed, block=refits.block)
        self._handed: Pieces | None = None
        self._n_told, self._first_told = 0, ""

    def step(self) -> bool:
        """Learn from the next resample; return whether there was one."""
        if self._bootstrap.done:
            return False
        self._bootstrap.add(self._learn(self._bootstrap.n_done))
        if self._bootstrap.done and self._n_told:
            checks.warn(
                f"{self._n_told} of {self._bootstrap.n_resamples} resamples were not learned to the end, so that their "
                "parameters, and the errors, are arbitrary where a parameter runs to infinity. The first of them: "
                f"{self._first_told}"
            )
        return True

    def _learn(self, k: int) -> Parameters:
        if self._executor is None:
            learned, told = refit(self._refits, k, self._threads)
        else:
            if self._handed is None:
                self._handed = Pieces(self._executor, refit, self._refits, self._bootstrap.n_resamples, k)
            learned, told = self._handed.take()
        ours = [text for text, category in told if issubclass(category, checks.ConvergenceWarning)]
        self._n_told += bool(ours)
        self._first_told = self._first_told or (ours[0] if ours else "")
        for text, category in told:
            if not issubclass(category, checks.ConvergenceWarning):
                checks.warn(text, category)
        return learned

    def errors(self) -> Errors:
        """Return the errors, once all is done."""
        return self._bootstrap.errors()

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that go on with the refits bit for bit."""
        text = np.frombuffer(self._first_told.encode(), np.uint8)
        told = {"n_told": np.array(self._n_told), "first_told": text}
        return with_prefix("bootstrap", self._bootstrap.state()) | told

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned; nothing does nothing."""
        if state:
            self._bootstrap.restore(without_prefix("bootstrap", dict(state)))
            self._n_told, self._first_told = int(state["n_told"]), state["first_told"].tobytes().decode()
