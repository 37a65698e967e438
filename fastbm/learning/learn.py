"""The learning of a machine, without a run: epoch after epoch, what is measured on the way, and when to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._base.checks import Diverged
from .._base.streams import Stream
from ..machine.machine import BoltzmannMachine
from . import verdicts
from .learners.adaptive import AutoSteps
from .learners.starts import BROKEN
from .make import make
from .moments import Parameters, with_prefix, without_prefix
from .monitor.chains import ChainMonitor
from .monitor.divergence import FEWEST_STEPS, Watch, lack
from .monitor.early_stopping import HELD_OUT, Stopping
from .monitor.looks import looks_of
from .monitor.metrics import Monitors
from .optimise.sgd import OPTIMIZERS
from .settings import FitSettings
from .training_set import Sample

FLOAT = "<f8"
LARGEST = 1e8  # beta times a parameter: log-odds that float32 no longer tells from their neighbours
SURE = 3.0  # errors of a likelihood within which it may be higher
AIS_BETAS = 3_000  # of log Z of a learned machine


class Learner:
    """A machine that is learned epoch after epoch, with its monitors and its reasons to stop.

    Parameters
    ----------
    start : BoltzmannMachine
        Where learning starts.
    data : dict of arrays
        "rows", bits (m, n_visible), or "mean" and "second_moment" in their place; where there are any "weights" of the
        rows, "holdout".
    settings : FitSettings
    threads : int

    Attributes
    ----------
    n_epochs : int
        Epochs done.
    driver : Driver
        What moves the parameters.
    stopping : Stopping
    """

    def __init__(
        self, start: BoltzmannMachine, data: Mapping[str, Any], settings: FitSettings, *, threads: int
    ) -> None:
        self.start, self.settings = start, settings
        self.n_epochs = 0
        self._seconds = 0.0  # spent on the present epoch
        sample = self._sample = Sample.of(start, data)
        self._n_rows = 0 if sample.up is None else len(sample.up)
        self.driver = make(start, sample, settings, threads)
        self.stopping = Stopping(settings.until or {}, settings.patience)
        self._best: Parameters | None = None
        self._last, self._diverged = self.driver.parameters, False
        looks = looks_of(start, data, settings)
        self._monitors = Monitors(start, data, settings, threads, looks)
        in_steps = settings.optimizer in OPTIMIZERS
        self._watch = Watch(start, sample, settings.beta, self._monitors) if in_steps else None
        if settings.patience and not set(HELD_OUT) & set(self._monitors.names):
            raise ValueError(
                f"patience={settings.patience} needs a likelihood of held-out rows, which has no cheap form where "
                "hidden units are coupled to one another, or entries are missing. Leave it out, or use "
                'layout="restricted" and whole rows.'
            )
        self._chains = None if self.driver.samples() is None else ChainMonitor(start, data, settings, looks)

    @property
    def parameters(self) -> Parameters:
        """The parameters as they are learned so far.

        When learning is over, those of the best epoch by held-out rows, where these decide when to stop, or by the
        likelihood, where learning went astray. After an epoch that diverged, those of the epoch before.
        """
        if self._diverged:
            return self._last
        return self.driver.parameters if (chosen := self._chosen) is None else chosen

    @property
    def _chosen(self) -> Parameters | None:
        """Parameters that learning ends with in place of the driver's; None where it ends with these, or goes on."""
        if not self.over:
            return None
        if self.astray:
            assert self._watch is not None and self._watch.kept is not None
            return self._watch.kept
        return self._best

    @property
    def model(self) -> BoltzmannMachine:
        """The machine as it is learned so far."""
        return self.parameters.machine(self.start)

    @property
    def astray(self) -> bool:
        """Whether learning diverged, so that the parameters of the best look are taken."""
        return self._watch is not None and self._watch.diverged and self._best is None

    @property
    def over(self) -> bool:
        """Whether there is no epoch left to do."""
        over = self.n_epochs >= self.settings.epochs or self.driver.done or self.stopping.met
        # natural steps gain below the noise of an epoch too, until moments pass their test
        found = self.driver.verdict
        gains = self.settings.optimizer == "natural" and (found is None or not found.passed)
        return over or (self.stopping.hopeless and not gains)

    @property
    def r_hat(self) -> float:
        """R-hat of the free chains; nan where there are none, or they were looked at too seldom."""
        return math.nan if self._chains is None else self._chains.r_hat

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that an epoch records."""
        arrays, n_units = self.start.couplings.arrays, self.start.n_units
        of_chains = () if self._chains is None else self._chains.metric_names
        metrics = (*self.driver.metric_names, *self._monitors.names, *of_chains)
        return {
            **{f"metrics/{name}": Stream(FLOAT) for name in metrics},
            **{f"weights/{n}": Stream(FLOAT, a.shape) for n, a in zip(self._weight_names(), arrays, strict=True)},
            "metrics/step": Stream("<i8"),
            "weights/bias": Stream(FLOAT, (n_units,)),
            "weights/epoch": Stream("<i8"),
            "meta/epoch_seconds": Stream(FLOAT),
            **({} if self._chains is None else self._chains.streams),
        }

    @property
    def streams_of_chains(self) -> dict[str, Stream]:
        """Streams of the states of free chains, where `samples_every` asks for them."""
        packed = self.driver.samples()
        if packed is None or not self.settings.samples_every:
            return {}
        one = self.start.convention.hi
        attrs: dict[str, int | float | str] = {"n_units": self.start.n_units, "bitorder": "little", "one": one}
        return {"samples/states": Stream("|u1", packed.shape, attrs), "samples/epoch": Stream("<i8")}

    def advance(self) -> dict[str, np.ndarray] | None:
        """Do (a part of) an epoch; return what it records when it is over, nothing before, None if none is left to do.

        Raises
        ------
        Diverged
            If parameters are not finite, or as good as infinite; those of the epoch before are kept.
        """
        over, started = self.over, time.perf_counter()
        try:
            metrics = [] if over else self.driver.epoch(self.n_epochs)
        except Diverged as error:
            raise self._divergence(str(error)) from None
        if over or (not metrics and self.driver.done):
            return None
        self._seconds += time.perf_counter() - started
        if not metrics:
            return {}
        parameters = self.driver.parameters
        if not all(self.settings.beta * np.abs(a).max(initial=0.0) < LARGEST for a in parameters.arrays):  # nor is nan
            raise self._divergence(f"parameters are not finite, or above {LARGEST:g} / beta.")
        self._last = parameters
        self.n_epochs += 1
        rows = self._record(parameters, self.n_epochs - 1, metrics[0])
        rows["meta/epoch_seconds"] = np.array([self._seconds])
        self._seconds = 0.0
        return rows

    def verdict(self, likelihood: float = math.nan, error: float = 0.0) -> dict[str, np.ndarray]:
        """Return the verdict on what was learned; parameters that are not the last ones are not tested.

        `likelihood` is the mean log-likelihood of the rows under the machine that was learned, or a lower bound of it,
        nan where it is not known. Rules that do not look at the machine's own states may end far below independent
        units, and so may learning whose likelihood was not monitored.
        """
        astray = self._watch if self.astray else None
        if astray is None and self._best is None:
            self.driver.judge(self.n_epochs)
        r_hat = self.r_hat
        hidden = bool(self.start.n_hidden) and self.settings.method in BROKEN
        idle = self._watch if hidden and self._watch is not None and self._watch.idle else None
        endless = bool(self.driver.converged) and self._sample.has_no_optimum(self.settings)
        likelihoods = None if astray is None else (*astray.worst, astray.independent)
        stopped = self.settings.optimizer == "l-bfgs" and not self.driver.converged  # which says enough
        if likelihoods is None and not math.isnan(likelihood) and not stopped:
            n_steps = FEWEST_STEPS if self._watch is None else self._watch.n_steps
            alone = lack(likelihood + SURE * error, self.start, self._sample, self.settings, n_steps)
            likelihoods = None if math.isnan(alone) else (likelihood, likelihood, alone)
        return verdicts.rows(self.driver, self.stopping, likelihoods, r_hat, idle, endless)

    def _divergence(self, why: str) -> Diverged:
        """Return the error to raise where learning diverged; what was learned in the epochs before stays."""
        self._diverged = True
        kept = " What was learned before is kept." if self.n_epochs else ""
        return Diverged(f"learning diverged in epoch {self.n_epochs}: {why} {way_out(self.settings)}{kept}")

    def _record(self, parameters: Parameters, epoch: int, metrics: dict[str, float]) -> dict[str, np.ndarray]:
        """Return the rows that are due after an epoch: metrics, weights, states of the free chains."""
        rows: dict[str, np.ndarray] = {}
        model = parameters.machine(self.start)
        # layers that are learned apart say nothing of when the whole machine is
        whole = epoch >= self.settings.pretrain_epochs * len(self.start.couplings.arrays)
        if whole:
            self.stopping.follow(metrics, self.driver.chain_noise)
            self.stopping.judge(metrics, epoch)  # `until` holds between looks of the monitors too
        if self._watch is not None:
            self._watch.count(max(self._n_rows // self.settings.batch_size, 1))
        packed = self.driver.samples()
        recorded = whole and self._chains is not None and packed is not None and self._chains.follow(model, packed)
        if self.due(self.settings.monitor_every):
            found = metrics | self._monitors(model)
            if self._watch is not None:
                self._watch.update(found, parameters)
            if self._chains is not None and packed is not None:
                found["r_hat"] = self._chains.r_hat
                rows |= self._chains.measure(model, packed, epoch)
            if whole and self.stopping.judge(found, epoch) and self.settings.patience:
                self._best = parameters
            rows |= {f"metrics/{name}": np.array([value]) for name, value in found.items()}
            rows["metrics/step"] = np.array([epoch])
        if self.settings.weights_every and self.due(self.settings.weights_every):
            arrays = zip(self._weight_names(), model.couplings.arrays, strict=True)
            rows |= {f"weights/{name}": array[None] for name, array in arrays}
            rows |= {"weights/bias": model.flat_bias[None], "weights/epoch": np.array([epoch])}
        if packed is not None and self.settings.samples_every and self.due(self.settings.samples_every):
            rows |= {"samples/states": packed[None], "samples/epoch": np.array([epoch])}
        if recorded and not self.over:
            self._answer(epoch)
        return rows

    def _answer(self, epoch: int) -> None:
        """Have a learner that can do so react to chains that do not mix, by more sweeps or ladders."""
        assert self._chains is not None
        if isinstance(self.driver, AutoSteps) and self.driver.answer(self._chains.r_hat, epoch):
            self._chains.forget()

    def _weight_names(self) -> list[str]:
        n_blocks = len(self.start.couplings.arrays)
        return ["weights"] if n_blocks == 1 else [f"weights_{k}" for k in range(n_blocks)]

    def due(self, every: int) -> bool:
        """Return whether what is done `every` so many epochs is due after this one, as it also is after the last."""
        return self.n_epochs % every == 0 or self.over

    def state(self, counters: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit; `counters` are those of the caller."""
        counted = {"n_epochs": np.array(self.n_epochs), **(counters or {})}
        chains = {} if self._chains is None else with_prefix("mixing", self._chains.state())
        stopping = with_prefix("stopping", self.stopping.state())
        best = {} if self._best is None else with_prefix("best", self._best.to_state())
        watch = {} if self._watch is None else with_prefix("watch", self._watch.state())
        parts = {**self.driver.state(), **counted, **chains, **stopping, **best, **watch}
        if self._chosen is not None and not self._diverged:  # the driver's are still looked at, by annealing
            parts |= with_prefix("driver", self.driver.parameters.to_state())
        return {**parts, **self.parameters.to_state()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.n_epochs = int(state["n_epochs"])
        self.driver.restore(state | without_prefix("driver", state))
        if self._chains is not None:
            self._chains.restore(without_prefix("mixing", state))
        if stopping := without_prefix("stopping", state):
            self.stopping.restore(stopping)
        if self._watch is not None and (watch := without_prefix("watch", state)):
            self._watch.restore(watch)
        self._last = self.driver.parameters
        best = without_prefix("best", state)
        self._best = Parameters.from_state(best) if best else None


def way_out(settings: FitSettings) -> str:
    """Return what to change where learning diverged: options that the rule has."""
    if settings.optimizer in OPTIMIZERS:
        return f"Lower learning_rate (it is {settings.learning_rate:g}) or raise l2."
    return "Raise l2 and l2_bias." if settings.optimizer == "l-bfgs" else "Raise flip_noise or ridge."


def learn(start: BoltzmannMachine, data: Mapping[str, Any], settings: FitSettings, *, threads: int) -> Parameters:
    """Learn in memory, to the end, and return what was learned."""
    return learn_to_end(start, data, settings, threads=threads).parameters


def learn_to_end(start: BoltzmannMachine, data: Mapping[str, Any], settings: FitSettings, *, threads: int) -> Learner:
    """Learn in memory, to the end, and return the learner."""
    learner = Learner(start, data, settings, threads=threads)
    while learner.advance() is not None:
        pass
    return learner
