"""Learning as a run: epochs, monitors and a last look, one block of rows at a time.

The loop never asks where the two `PhaseMoments` come from. It hands its rows and its state to whoever stores them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._checks import Diverged
from ..inference.exact import refuse_if_long
from ..inference.hidden import hidden_are_independent, machine_of_hidden
from ..inference.hidden_layers import is_deep
from ..model import BoltzmannMachine
from ..rows import Rows
from ..store import Stream
from . import drivers, verdicts
from .ais_looks import AisLooks
from .chain_monitor import ChainMonitor
from .descent import Descent
from .divergence import Watch
from .ending import Ending
from .evaluation import Evaluation
from .forecasts import refuse_long_rows
from .free_auto import AutoSteps
from .gaps_checks import refuse_long_look, refuse_long_phase
from .moments import Parameters, with_prefix, without_prefix
from .monitors import Monitors
from .optimizers import OPTIMIZERS
from .sample import Sample
from .settings import FitSettings
from .starts import BROKEN
from .stopping import HELD_OUT, Stopping

FLOAT = "<f8"
LARGEST = 1e8  # beta times a parameter: log-odds that float32 no longer tells from their neighbours


class FitTask:
    """One learning run.

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
    ) -> None:
        self._judged = judged  # whether the run has a place for the verdict; those of older files have none
        self.start, self.settings, self.data, self.threads = start, settings, data, threads
        self.n_epochs, self._evaluated = 0, False
        self._ending = Ending()
        self.n_written: Callable[[], Mapping[str, int]] | None = None
        self._seconds = 0.0  # spent on the present epoch
        sample = Sample.of(start, data)
        self._n_rows = 0 if sample.up is None else len(sample.up)
        self._refuse_long_sums(sample)
        self._driver = drivers.make(start, sample, settings, threads)
        self._stopping = Stopping(settings.until or {}, settings.patience)
        self._best: Parameters | None = None
        self._last, self._diverged = self._driver.parameters, False
        self._monitors = Monitors(start, data, settings, threads)
        in_steps = settings.optimizer in OPTIMIZERS
        self._watch = Watch(start, sample, settings.beta, self._monitors) if in_steps else None
        if settings.patience and not set(HELD_OUT) & set(self._monitors.names):
            raise ValueError(
                f"patience={settings.patience} needs a likelihood of held-out rows, which has no cheap form where "
                "hidden units are coupled to one another, or entries are missing. Leave it out, or use "
                'layout="restricted" and whole rows.'
            )
        self._chains = None if self._driver.samples() is None else ChainMonitor(start, data, settings)
        self._ais = AisLooks(start, data, settings, threads) if settings.ais_every else None
        self._n_looked = 0  # epochs at the last look by annealed importance sampling
        self._evaluation = Evaluation(start, data, settings, classify, threads)
        self.method = self._evaluation.method

    def _refuse_long_sums(self, sample: Sample) -> None:
        """Refuse at once what an exact phase, or an exact last look, would refuse later."""
        settings, hidden_coupled = self.settings, not hidden_are_independent(self.start)
        if settings.free == "exact" or settings.evaluate == "exact":
            refuse_if_long(self.start, self.threads)
        if sample.up is not None:
            refuse_long_phase(self.start, sample.up, settings)
            tables = (Rows.of(self.data[name]) for name in ("rows", "holdout") if name in self.data)
            refuse_long_look(self.start, tables, settings.evaluate)
        # by ais the rows of deep machines get bounds in place of sums
        summed = settings.evaluate == "exact" or (settings.evaluate == "ais" and not is_deep(self.start))
        if hidden_coupled and (settings.clamped == "exact" or summed):
            refuse_if_long(machine_of_hidden(self.start), self.threads)
            rows = [Rows.of(self.data[k]) for k in ("rows", "holdout") if k in self.data]
            refuse_long_rows(self.start, rows, settings)

    @property
    def parameters(self) -> Parameters:
        """The parameters as they are learned so far; when learning is over those of the best look at held-out rows,
        where these say when to stop, and if it diverged those of the epoch before.
        """
        if self._diverged:
            return self._last
        if self._over and self._astray:
            assert self._watch is not None and self._watch.kept is not None
            return self._watch.kept
        return self._best if self._best is not None and self._over else self._driver.parameters

    @property
    def model(self) -> BoltzmannMachine:
        """The machine as it is learned so far."""
        return self.parameters.machine(self.start)

    @property
    def _astray(self) -> bool:
        return self._watch is not None and self._watch.diverged and self._best is None

    @property
    def _over(self) -> bool:
        over = self.n_epochs >= self.settings.epochs or self._driver.done or self._stopping.met
        # natural steps gain below the noise of an epoch too, until moments pass their test
        found = self._driver.verdict
        gains = self.settings.optimizer == "natural" and (found is None or not found.passed)
        return over or (self._stopping.hopeless and not gains)

    @property
    def streams(self) -> dict[str, Stream]:
        """What the run writes."""
        couplings = self.start.couplings
        names = self._weight_names()
        n_units = self.start.n_units
        of_chains = () if self._chains is None else self._chains.metric_names
        metrics = (*self._driver.metric_names, *self._monitors.names, *of_chains)
        streams = {
            **{f"metrics/{name}": Stream(FLOAT) for name in metrics},
            **{f"weights/{n}": Stream(FLOAT, a.shape) for n, a in zip(names, couplings.arrays, strict=True)},
            "metrics/step": Stream("<i8"),
            "weights/bias": Stream(FLOAT, (n_units,)),
            "weights/epoch": Stream("<i8"),
            "meta/epoch_seconds": Stream(FLOAT),
            **({} if self._chains is None else self._chains.streams),
            **({} if self._ais is None else self._ais.streams),
            **self._evaluation.streams,
            **(verdicts.STREAMS if self._judged else {}),
        }
        if (packed := self._driver.samples()) is not None and self.settings.samples_every:
            attrs: dict[str, int | float | str] = {
                "n_units": n_units,
                "bitorder": "little",
                "one": self.start.convention.hi,
            }
            streams["samples/states"] = Stream("|u1", packed.shape, attrs)
            streams["samples/epoch"] = Stream("<i8")
        return streams

    @property
    def done(self) -> bool:
        """Whether all epochs, and the last look, are done."""
        return self._evaluated

    @property
    def atomic(self) -> bool:
        """Looks at the likelihood, and iterations of L-BFGS, may be long and can be done again; steps are short."""
        return isinstance(self._driver, Descent) or self._over or self._ais_due

    @property
    def why_no_longer(self) -> str:
        """Why more epochs than it was told would not have been done; empty if they would."""
        if self.n_epochs == self.settings.epochs:
            return ""
        if self._stopping.hopeless:
            why = "the moment error was down to the noise of the chains, above what until asks for"
        elif self._stopping.met:
            why = "until was met" if not self.settings.patience else "until or patience was met"
        else:
            why = "there was nothing left to gain"
        return f"learning stopped by itself after epoch {self.n_epochs} of {self.settings.epochs}, as {why}"

    @property
    def progress(self) -> tuple[int, int]:
        """Epochs done, and all."""
        return self.n_epochs, self.settings.epochs

    @property
    def _ais_due(self) -> bool:
        """Whether the likelihood is to be looked at before anything else."""
        every = self.settings.ais_every
        return self._ais is not None and self._n_looked < self.n_epochs and self._due(every)

    def advance(self) -> dict[str, np.ndarray]:
        """Do one epoch, a look at its likelihood, or the last look when the epochs are done; return the rows."""
        if self._ais_due:
            return self._look_by_ais()
        over = self._over
        if self.n_epochs == self.settings.epochs - 1 and not over:
            self._ending.begin(self._state, self.n_written)
        started = time.perf_counter()
        try:
            metrics = [] if over else self._driver.epoch(self.n_epochs)
        except Diverged as error:
            raise self._divergence(str(error)) from None
        if over or (not metrics and self._driver.done):
            if not over:
                self._ending.forget()
            if self._ais_due:  # the driver came to its end without an epoch more
                return self._look_by_ais()
            rows = self._evaluation(self.model) | self._verdict()
            self._evaluated = True
            return rows
        self._seconds += time.perf_counter() - started
        if not metrics:
            return {}
        parameters = self._driver.parameters
        if not all((self.settings.beta * np.abs(array) < LARGEST).all() for array in parameters.arrays):  # nor is nan
            raise self._divergence(f"parameters are not finite, or above {LARGEST:g} / beta.")
        self._last = parameters
        self.n_epochs += 1
        rows = self._record(parameters, self.n_epochs - 1, metrics[0])
        rows["meta/epoch_seconds"] = np.array([self._seconds])
        self._seconds = 0.0
        return rows

    def _verdict(self) -> dict[str, np.ndarray]:
        """Whether the aim was reached, which parameters that are not the last ones do not tell."""
        astray = self._watch if self._astray else None
        if astray is None and self._best is None:
            self._driver.judge(self.n_epochs)
        r_hat = np.nan if self._chains is None else self._chains.r_hat
        hidden = bool(self.start.n_hidden) and self.settings.method in BROKEN
        idle = self._watch if hidden and self._watch is not None and self._watch.idle else None
        return verdicts.rows(self._driver, self._stopping, astray, r_hat, idle) if self._judged else {}

    def _look_by_ais(self) -> dict[str, np.ndarray]:
        assert self._ais is not None
        self._n_looked = self.n_epochs
        return self._ais(self._driver.parameters.machine(self.start), self.n_epochs - 1)

    def _divergence(self, why: str) -> Diverged:
        """The error to raise; what was learned in the epochs before stays."""
        self._diverged = True
        kept = " What was learned before is kept." if self.n_epochs else ""
        return Diverged(
            f"learning diverged in epoch {self.n_epochs}: {why} Lower learning_rate (it is "
            f"{self.settings.learning_rate:g}) or raise l2.{kept}"
        )

    def _record(self, parameters: Parameters, epoch: int, metrics: dict[str, float]) -> dict[str, np.ndarray]:
        """What is due after an epoch: metrics, weights, states of the free chains."""
        rows: dict[str, np.ndarray] = {}
        model = parameters.machine(self.start)
        # layers that are learned apart say nothing of when the whole machine is
        whole = epoch >= self.settings.pretrain_epochs * len(self.start.couplings.arrays)
        if whole:
            self._stopping.follow(metrics, self._driver.chain_noise)
            self._stopping.look(metrics, epoch)  # `until` holds between looks of the monitors too
        if self._watch is not None:
            self._watch.count(max(self._n_rows // self.settings.batch_size, 1))
        packed = self._driver.samples()
        recorded = whole and self._chains is not None and packed is not None and self._chains.follow(model, packed)
        if self._due(self.settings.monitor_every):
            found = metrics | self._monitors(model)
            if self._watch is not None:
                self._watch.look(found, parameters)
            if self._chains is not None and packed is not None:
                found["r_hat"] = self._chains.r_hat
                rows |= self._chains.look(model, packed, epoch)
            if whole and self._stopping.look(found, epoch) and self.settings.patience:
                self._best = parameters
            rows |= {f"metrics/{name}": np.array([value]) for name, value in found.items()}
            rows["metrics/step"] = np.array([epoch])
        if self.settings.weights_every and self._due(self.settings.weights_every):
            arrays = zip(self._weight_names(), model.couplings.arrays, strict=True)
            rows |= {f"weights/{name}": array[None] for name, array in arrays}
            rows |= {"weights/bias": model.flat_bias[None], "weights/epoch": np.array([epoch])}
        if packed is not None and self.settings.samples_every and self._due(self.settings.samples_every):
            rows |= {"samples/states": packed[None], "samples/epoch": np.array([epoch])}
        if recorded and not self._over:
            self._answer(epoch)
        return rows

    def _answer(self, epoch: int) -> None:
        """Let a driver that can do so answer chains that do not mix."""
        assert self._chains is not None
        if isinstance(self._driver, AutoSteps) and self._driver.answer(self._chains.r_hat, epoch):
            self._chains.forget()

    def _weight_names(self) -> list[str]:
        n_blocks = len(self.start.couplings.arrays)
        return ["weights"] if n_blocks == 1 else [f"weights_{k}" for k in range(n_blocks)]

    def _due(self, every: int) -> bool:
        return self.n_epochs % every == 0 or self._over

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit, also past the end."""
        return {**self._state(), **self._ending.state()}

    def _state(self) -> dict[str, np.ndarray]:
        counters = {
            "n_epochs": np.array(self.n_epochs),
            "n_looked": np.array(self._n_looked),
            "evaluated": np.array(self._evaluated),
        }
        chains = {} if self._chains is None else with_prefix("mixing", self._chains.state())
        stopping = with_prefix("stopping", self._stopping.state())
        best = {} if self._best is None else with_prefix("best", self._best.to_state())
        watch = {} if self._watch is None else with_prefix("watch", self._watch.state())
        return {**self._driver.state(), **counters, **chains, **stopping, **best, **watch, **self.parameters.to_state()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self.n_epochs, self._evaluated = int(state["n_epochs"]), bool(state["evaluated"])
        self._ending.restore(state)
        self._driver.restore(state)
        self._n_looked = int(state["n_looked"])
        if self._chains is not None:
            self._chains.restore(without_prefix("mixing", state))
        if stopping := without_prefix("stopping", state):
            self._stopping.restore(stopping)
        if self._watch is not None and (watch := without_prefix("watch", state)):
            self._watch.restore(watch)
        self._last = self._driver.parameters
        best = without_prefix("best", state)
        self._best = Parameters.from_state(best) if best else None
