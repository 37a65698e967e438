"""What a user holds of a run: samples, weights, metrics, the machine, the summary; live or finished, in memory or in
a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import diagnostics
from .inference.comparison import Cell, Comparison
from .inference.result import Inference
from .inference.task import RESULT, from_json
from .learning.moments import Parameters
from .model import BoltzmannMachine
from .run_lazy import LazyStates, States
from .run_summary import Summary, summarise
from .run_tasks import read_model
from .store import Memory, Reader
from .units import units as convention

READ_ROWS = 256  # samples that are unpacked at a time


class Columns(Mapping[str, np.ndarray]):
    """The streams of one group by name, read when asked for."""

    def __init__(self, reader: Reader | Memory, group: str) -> None:
        self._reader, self._group = reader, group

    def _names(self) -> list[str]:
        start = self._group + "/"
        return [name[len(start) :] for name in self._reader.streams if name.startswith(start)]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names():
            raise KeyError(f"the run has no {self._group} {name!r}; it has {', '.join(self._names()) or 'none'}")
        return self._reader.read(f"{self._group}/{name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<{self._group}: {', '.join(self._names()) or 'none'}>"


class Run:
    """A run, as `sample`, `fit`, `open` and `resume` return it.

    Attributes
    ----------
    path : Path or None
        Its file; None in memory.
    config : dict
        All that it was told (the spec).
    kind : {"sample", "fit", "infer", "compare"}
    metrics, weights, evaluation : mappings of name to array
        One row for each record; `metrics["step"]` and `weights["epoch"]` tell when. `evaluation` is the last look of
        `fit`.
    """

    def __init__(self, reader: Reader | Memory) -> None:
        self._reader = reader
        self.config: dict[str, Any] = reader.spec
        self.kind: str = self.config["kind"]
        self.path = None if reader.path is None else Path(reader.path)

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        return f"<Run: {self.kind}{where}, {'finished' if self.finished else 'unfinished'}>"

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""
        return self._reader.finished

    @property
    def live(self) -> bool:
        """Whether a process is writing it."""
        return self._reader.live

    @property
    def meta(self) -> dict[str, Any]:
        """Machine, versions, kernel: what decides no number."""
        return self._reader.meta

    def refresh(self) -> Run:
        """Look for what was committed since; returns the run itself."""
        self._reader.refresh()
        return self

    @property
    def metrics(self) -> Columns:
        return Columns(self._reader, "metrics")

    @property
    def weights(self) -> Columns:
        return Columns(self._reader, "weights")

    @property
    def evaluation(self) -> Columns:
        return Columns(self._reader, "evaluation")

    @cached_property
    def _start(self) -> BoltzmannMachine:
        if "model" not in self.config:
            raise AttributeError(f"a run of kind {self.kind!r} has no one model")
        return read_model(self._reader.inputs, self.config["model"])

    @property
    def model(self) -> BoltzmannMachine:
        """The machine that was sampled, or the machine as learned up to the last commit."""
        if self.kind != "fit":
            return self._start
        return Parameters.from_state(self._reader.state).machine(self._start)

    @property
    def data(self) -> dict[str, np.ndarray]:
        """What `fit` learned from, in the machine's units: "rows", and "holdout" and labels where there are any."""
        found = {}
        n_visible = self._start.n_visible
        for name, array in self._reader.inputs.items():
            group, _, key = name.partition("/")
            if group == "data" and key in ("rows", "holdout"):
                up = np.unpackbits(array, axis=1, count=n_visible, bitorder="little")
                found[key] = self._start.convention.values(up)
            elif group == "data":
                found[key] = array
        return found

    def _has(self, name: str) -> bool:
        return name in self._reader.streams

    def _need(self, name: str, what: str) -> None:
        if not self._has(name):
            raise AttributeError(
                f"this run of kind {self.kind!r} has no {what}; its streams are {', '.join(self._reader.streams)}"
            )

    @property
    def has_states(self) -> bool:
        """Whether any samples were recorded."""
        return self._has("samples/states") and self._reader.n_rows("samples/states") > 0

    @property
    def states(self) -> States:
        """Samples, (n_samples, n_chains, n_units) int8 in the model's units; from a file they are read as they are
        sliced.
        """
        self._need("samples/states", "samples")
        lazy = LazyStates(self._reader, "samples/states", convention(self.config["model"]["units"]))
        return np.asarray(lazy) if isinstance(self._reader, Memory) else lazy

    @property
    def energy(self) -> np.ndarray:
        """Energies of the samples, (n_samples, n_chains)."""
        self._need("samples/energy", "energies")
        return self._reader.read("samples/energy")

    @property
    def magnetisation(self) -> np.ndarray:
        """Mean value of the units of every sample, (n_samples, n_chains)."""
        self._need("samples/states", "samples")
        n_units, units = self._start.n_units, convention(self.config["model"]["units"])
        n_samples = self._reader.n_rows("samples/states")
        up = [
            np.bitwise_count(self._reader.read("samples/states", start, start + READ_ROWS)).sum(axis=-1, dtype=np.int64)
            for start in range(0, n_samples, READ_ROWS)
        ]
        shape = self._reader.streams["samples/states"].shape[:1]
        return units.lo + units.span * np.concatenate([np.empty((0, *shape), np.int64), *up]) / n_units

    @property
    def sweep(self) -> np.ndarray:
        """The sweep after which each sample was taken, (n_samples,)."""
        self._need("samples/sweep", "sweeps")
        return self._reader.read("samples/sweep")

    @property
    def beta(self) -> np.ndarray:
        """Inverse temperature of every chain of a sampling run, (n_chains,)."""
        settings = self.config["sample"]
        return np.repeat(settings["beta"], settings["n_chains"] // len(settings["beta"]))

    @property
    def inference(self) -> Inference:
        """The result of `infer`."""
        return self._results()[0]

    @property
    def comparison(self) -> Comparison:
        """The results of `compare`, as far as they are there."""
        cells = [
            Cell(c["model"], c["beta"], c["method"], result)
            for c, result in zip(self.config["cells"], self._results(), strict=False)
        ]
        return Comparison(tuple(cells))

    def _results(self) -> list[Inference]:
        self._need(f"results/{RESULT}", "results")
        texts, seconds = self._reader.read(f"results/{RESULT}"), self._reader.read("meta/seconds")
        return [from_json(str(text), float(s)) for text, s in zip(texts, seconds, strict=True)]

    @property
    def converged(self) -> bool | None:
        """Whether chains agree (sampling), the gradient vanished ("l-bfgs"), or all results converged; None where
        nothing tells.
        """
        if self.kind == "sample":
            return None if len(self.sweep) < 4 else all(r <= diagnostics.R_HAT_LIMIT for r in self.r_hat)
        if self.kind in ("infer", "compare"):
            return all(result.converged for result in self._results())
        if self.config["fit"]["optimizer"] != "l-bfgs":
            return None
        gradients = self.metrics["gradient"]
        return bool(len(gradients) and gradients[-1] <= self.config["fit"]["tolerance"])

    @property
    def r_hat(self) -> list[float]:
        """Split R-hat of the energy, one for each inverse temperature."""
        energy, beta = self.energy, self.beta
        return [float(diagnostics.r_hat(energy[:, beta == b])) for b in np.unique(beta)]

    def summary(self) -> Summary:
        """Return the run in a few numbers: a dict that prints as a table."""
        return summarise(self)
