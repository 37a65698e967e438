"""Learning as a run: epochs, monitors and a last look, one block of rows at a time.

The loop never asks where the two `PhaseMoments` come from. It hands its rows and its state to whoever stores them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _checks, rng
from ..couplings import Layered
from ..inference.exact import forecast_seconds, refuse_if_long
from ..inference.hidden import hidden_are_independent, machine_of_hidden
from ..inference.likelihood import log_sums
from ..inference.methods import run_method
from ..model import BoltzmannMachine
from ..store import Stream
from . import presets
from .classifier import BoltzmannClassifier
from .likelihood import Likelihood
from .moments import with_prefix, without_prefix
from .monitors import PseudoLikelihood, has_exact_likelihood
from .phase import PhaseSettings
from .settings import FitSettings
from .steps import Steps

EVALUATION_SECONDS = 60.0  # log Z at the end: exact where it takes no longer
AIS_BETAS = 3_000
FLOAT = "<f8"


class FitTask:
    """One learning run.

    Parameters
    ----------
    start : BoltzmannMachine
        Where learning starts.
    data : dict of arrays
        "rows", bits (m, n_visible); where there are any "holdout", "labels", "holdout_labels".
    settings : FitSettings
    classify : dict, optional
        Settings of a `BoltzmannClassifier` that is learned beside it from the labels.
    threads : int
    """

    unit = "epoch"

    def __init__(
        self,
        start: BoltzmannMachine,
        data: Mapping[str, np.ndarray],
        settings: FitSettings,
        *,
        classify: dict[str, Any] | None,
        threads: int,
    ) -> None:
        self.start, self.settings, self.data, self.threads = start, settings, data, threads
        self.n_epochs, self._evaluated = 0, False
        self._seconds = 0.0  # spent on the present epoch
        self._classify = classify
        self._refuse_long_sums()
        common = PhaseSettings(
            settings.beta,
            settings.seed,
            threads,
            settings.n_chains,
            settings.n_sweeps,
            settings.clamped_sweeps,
            settings.batch_size,
            settings.optimizer == "l-bfgs",
        )
        self._clamped = presets.CLAMPED[settings.clamped](common)
        self._free = presets.FREE[settings.free](common)
        for phase in (self._clamped, self._free):
            phase.prepare(start)
        driver = Likelihood if settings.optimizer == "l-bfgs" else Steps
        self._driver = driver(start, data["rows"], settings, self._clamped, self._free)
        self._pseudo: PseudoLikelihood | None = None
        if hidden_are_independent(start):
            self._pseudo = PseudoLikelihood(start, data["rows"], settings.beta, settings.seed)
        self._exact = settings.optimizer != "l-bfgs" and has_exact_likelihood(start, data["rows"])
        self.method = self._evaluation_method()

    def _refuse_long_sums(self) -> None:
        """Refuse at once what an exact phase, or an exact last look, would refuse later."""
        settings, hidden_coupled = self.settings, not hidden_are_independent(self.start)
        if settings.free == "exact" or settings.evaluate == "exact":
            refuse_if_long(self.start, self.threads)
        if hidden_coupled and (settings.clamped == "exact" or settings.evaluate == "exact"):
            refuse_if_long(machine_of_hidden(self.start), self.threads)

    @property
    def model(self) -> BoltzmannMachine:
        """The machine as it is learned so far."""
        return self._driver.parameters.machine(self.start)

    @property
    def streams(self) -> dict[str, Stream]:
        """What the run writes."""
        couplings = self.start.couplings
        names = self._weight_names()
        n_units = self.start.n_units
        streams = {
            **{f"metrics/{name}": Stream(FLOAT) for name in self._metric_names()},
            **{f"weights/{n}": Stream(FLOAT, a.shape) for n, a in zip(names, couplings.arrays, strict=True)},
            "metrics/step": Stream("<i8"),
            "weights/bias": Stream(FLOAT, (n_units,)),
            "weights/epoch": Stream("<i8"),
            "meta/epoch_seconds": Stream(FLOAT),
            **{f"evaluation/{name}": Stream(FLOAT) for name in self._evaluation_names()},
        }
        if (packed := self._free.samples()) is not None and self.settings.samples_every:
            attrs: dict[str, int | float | str] = {
                "n_units": n_units,
                "bitorder": "little",
                "one": self.start.convention.hi,
            }
            streams["samples/states"] = Stream("|u1", packed.shape, attrs)
            streams["samples/epoch"] = Stream("<i8")
        return streams

    def _metric_names(self) -> list[str]:
        names = ["log_likelihood", "gradient"] if self.settings.optimizer == "l-bfgs" else ["moment_error"]
        if self._exact:
            names.append("log_likelihood")
        return names + (["pseudo_likelihood"] if self._pseudo else [])

    @property
    def done(self) -> bool:
        """Whether all epochs, and the last look, are done."""
        return self._evaluated

    @property
    def atomic(self) -> bool:
        """The last look, and iterations of L-BFGS, may be long and can be done again; steps are short."""
        return isinstance(self._driver, Likelihood) or self.n_epochs >= self.settings.epochs

    @property
    def progress(self) -> tuple[int, int]:
        """Epochs done, and all."""
        return self.n_epochs, self.settings.epochs

    def advance(self) -> dict[str, np.ndarray]:
        """Do one epoch, or the last look when the epochs are done; return the rows."""
        over = self.n_epochs >= self.settings.epochs or self._driver.done
        started = time.perf_counter()
        metrics = [] if over else self._driver.epoch(self.n_epochs)
        if over or (not metrics and self._driver.done):
            rows = self._evaluate()
            self._evaluated = True
            return rows
        self._seconds += time.perf_counter() - started
        if not metrics:
            return {}
        model = self.model
        if not all(np.isfinite(array).all() for array in self._driver.parameters.arrays):
            raise ValueError(
                f"learning diverged in epoch {self.n_epochs}: parameters are not finite. Lower learning_rate (it is "
                f"{self.settings.learning_rate:g}) or raise l2. The weights stored before are whole."
            )
        self.n_epochs += 1
        rows = self._record(model, self.n_epochs - 1, metrics[0])
        rows["meta/epoch_seconds"] = np.array([self._seconds])
        self._seconds = 0.0
        return rows

    def _record(self, model: BoltzmannMachine, epoch: int, metrics: dict[str, float]) -> dict[str, np.ndarray]:
        """What is due after an epoch: metrics, weights, states of the free chains."""
        rows: dict[str, np.ndarray] = {}
        if self._due(self.settings.monitor_every):
            found = metrics | self._monitor(model)
            rows |= {f"metrics/{name}": np.array([value]) for name, value in found.items()}
            rows["metrics/step"] = np.array([epoch])
        if self.settings.weights_every and self._due(self.settings.weights_every):
            arrays = zip(self._weight_names(), model.couplings.arrays, strict=True)
            rows |= {f"weights/{name}": array[None] for name, array in arrays}
            rows |= {"weights/bias": model.flat_bias[None], "weights/epoch": np.array([epoch])}
        packed = self._free.samples()
        if packed is not None and self.settings.samples_every and self._due(self.settings.samples_every):
            rows |= {"samples/states": packed[None], "samples/epoch": np.array([epoch])}
        return rows

    def _weight_names(self) -> list[str]:
        n_blocks = len(self.start.couplings.arrays)
        return ["weights"] if n_blocks == 1 else [f"weights_{k}" for k in range(n_blocks)]

    def _due(self, every: int) -> bool:
        return self.n_epochs % every == 0 or self.n_epochs == self.settings.epochs or self._driver.done

    def _monitor(self, model: BoltzmannMachine) -> dict[str, float]:
        found: dict[str, float] = {}
        if self._pseudo:
            found["pseudo_likelihood"] = self._pseudo(model)
        if self._exact:
            s = self.settings
            log_z = run_method(
                model, "exact", beta=s.beta, clamp=None, moments=False, seed=s.seed, threads=self.threads
            ).log_z
            found["log_likelihood"] = float(
                log_sums(model, self._values("rows"), s.beta, self.threads)[0].mean() - log_z
            )
        return found

    def _values(self, name: str) -> np.ndarray:
        return self.start.convention.values(self.data[name], np.float64)

    def _evaluation_method(self) -> str | None:
        """How log Z is computed at the end; None where it cannot be."""
        wanted = self.settings.evaluate
        if wanted != "auto":
            return wanted
        if forecast_seconds(self.start, moments=False) <= EVALUATION_SECONDS:
            return "exact"
        return "ais" if self.start.n_hidden == 0 or isinstance(self.start.couplings, Layered) else None

    def _evaluation_names(self) -> list[str]:
        names = []
        if self.method:
            names += ["log_z", "log_z_error", "log_likelihood"] + (
                ["holdout_log_likelihood"] if "holdout" in self.data else []
            )
        return names + (["classifier_error"] if self._classify is not None else [])

    def _evaluate(self) -> dict[str, np.ndarray]:
        """log Z of the learned machine, and so the likelihood of the data and of the held-out rows."""
        model, s = self.model, self.settings
        found: dict[str, float] = {}
        if self.method:
            options = {"n_betas": AIS_BETAS} if self.method == "ais" else {}
            seed = rng.derive(s.seed, rng.MONITOR)
            result = run_method(
                model, self.method, beta=s.beta, clamp=None, moments=False, seed=seed, threads=self.threads, **options
            )
            found |= {"log_z": result.log_z, "log_z_error": result.log_z_error}
            for name, prefix in (("rows", ""), ("holdout", "holdout_")):
                if name in self.data:
                    sums, _, _ = log_sums(model, self._values(name), s.beta, self.threads)
                    found[f"{prefix}log_likelihood"] = float(sums.mean()) - result.log_z
        if self._classify is not None:
            machines = BoltzmannClassifier(units=self.start.units, **self._classify)
            machines.fit(self._values("rows"), self.data["labels"])
            found["classifier_error"] = machines.error(self._values("holdout"), self.data["holdout_labels"])
        return {f"evaluation/{name}": np.array([value]) for name, value in found.items()}

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        counters = {"n_epochs": np.array(self.n_epochs), "evaluated": np.array(self._evaluated)}
        phases = with_prefix("clamped", self._clamped.state()) | with_prefix("free", self._free.state())
        return {**self._driver.state(), **phases, **counters}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self.n_epochs, self._evaluated = int(state["n_epochs"]), bool(state["evaluated"])
        self._driver.restore(state)
        self._clamped.restore(without_prefix("clamped", state))
        self._free.restore(without_prefix("free", state))


def start_machine(
    up: np.ndarray, n_hidden: int, layout: str | None, units: str, seed: int, *, scale: float = 0.01
) -> BoltzmannMachine:
    """Return where learning starts: biases that give the visible units their means, small random couplings to hidden
    ones.

    Hinton, A practical guide to training restricted Boltzmann machines (2012), sect. 8,
    doi:10.1007/978-3-642-35289-8_32.
    """
    layout = layout or ("restricted" if n_hidden else "general")
    _checks.choice("layout", layout, ("restricted", "general"))
    if layout == "restricted" and not n_hidden:
        raise ValueError('layout="restricted" needs n_hidden of at least 1; got 0.')
    n_visible = up.shape[1]
    p = (up.sum(axis=0) + 0.5) / (len(up) + 1.0)
    bias = np.concatenate([np.log(p / (1 - p)), np.zeros(n_hidden)])
    generator = rng.keyed(seed, rng.MODEL)
    if layout == "restricted":
        binary = BoltzmannMachine([generator.normal(scale=scale, size=(n_visible, n_hidden))], bias, units="binary")
        return binary.to_units(units)
    n = n_visible + n_hidden
    upper = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    upper[:n_visible, :n_visible] = 0.0
    return BoltzmannMachine(upper + upper.T, bias, units="binary", n_hidden=n_hidden).to_units(units)
