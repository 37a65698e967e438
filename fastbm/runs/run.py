"""What a user holds of a run: its records, its machine, its summary; live or finished, in memory or in a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..machine.machine import BoltzmannMachine
from ..machine.units import units as convention
from ..store import Extension, Memory, Reader
from .loop import Task
from .records import Columns, LazyStates, States
from .spec import Given, read_model, verb_of
from .summary import Summary

READ_ROWS = 256  # samples that are unpacked at a time


class Run:
    """A run, as the verbs, `open` and `resume` return it; each kind of run has more of its own.

    Attributes
    ----------
    path : Path or None
        Its file; None in memory.
    config : dict
        All that it was told (the spec).
    kind : {"sample", "fit", "infer", "compare", "rules"}
    metrics, weights, evaluation, observables : mappings of name to array
        What learning measured (`metrics["step"]` and `weights["epoch"]` tell when), its last look, and what was
        measured on samples: one row for each record; empty where a run has none.
    counted : str
        What a longer run has more of; empty where a run has an end of its own.
    takes : set of str
        What no file can hold and must be given again: "observables", "executor", "data".
    verb : str
        What begins another one, of runs that have an end of their own.
    """

    counted = ""
    takes: frozenset[str] = frozenset()
    verb = ""

    def __init__(self, reader: Reader | Memory) -> None:
        self._reader = reader
        self.config: dict[str, Any] = reader.spec
        self.kind: str = self.config["kind"]
        self.path = None if reader.path is None else Path(reader.path)

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        seal = ", unchecked" if self.unchecked else ""
        return f"<Run: {self.kind}{where}, {'finished' if self.finished else 'unfinished'}{seal}>"

    def __reduce__(self) -> Any:
        """A pickled or copied run opens its file for itself; one in memory takes its rows along."""
        return type(self), (self._reader,)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say what a run of this kind has in place of what it has not."""
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # which raises again what it raised
            if name.startswith("_"):
                raise AttributeError(name)
            what = "results" if name in ("inference", "comparison") else name
            streams = ", ".join(self._reader.streams)
            raise AttributeError(f"this run of kind {self.kind!r} has no {what}; its streams are {streams}")

    @property
    def metrics(self) -> Columns:
        return Columns(self._reader, "metrics")

    @property
    def weights(self) -> Columns:
        return Columns(self._reader, "weights")

    @property
    def evaluation(self) -> Columns:
        return Columns(self._reader, "evaluation")

    @property
    def observables(self) -> Columns:
        """What was measured along the way, by name; a row for each sample."""
        return Columns(self._reader, "observables")

    @classmethod
    def task(cls, spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given) -> Task:
        """Make the task that a spec tells of."""
        raise NotImplementedError

    @classmethod
    def why_another(cls, settings: Mapping[str, Any]) -> str:
        """Say why a longer run would not begin as this one did; empty if it would."""
        raise NotImplementedError

    @classmethod
    def before_its_end(cls, finished: Any, longer: Mapping[str, Any], state: Mapping[str, np.ndarray]) -> Extension:
        """Return where a longer run goes on, given the task of this one, restored to its end.

        Raises
        ------
        ValueError
            If it stopped by itself, or the state before its end was not kept.
        """
        raise NotImplementedError

    @classmethod
    def check_room(cls, task: Any) -> None:
        """Refuse rows that memory cannot hold."""

    @classmethod
    def read_again(cls, spec: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Read rows that a user gives again, and check that they are those that the run began with."""
        return dict(given)

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self._reader.finished

    @property
    def live(self) -> bool:
        """Whether a process is writing the run."""
        return self._reader.live

    @property
    def unchecked(self) -> bool:
        """Whether its file has no seal and was trusted, so that nothing in it is checked."""
        return self._reader.unchecked

    def refresh(self) -> Self:
        """Look for what was committed since; return the run itself."""
        self._reader.refresh()
        self.config = self._reader.spec  # of a run that was extended it is another
        return self

    @property
    def streams(self) -> dict[str, Any]:
        """The streams of the run, as they are declared."""
        return self._reader.streams

    def read(self, name: str, step: int = 1) -> np.ndarray:
        """Return every `step`-th row of a stream, by its path in the file; none of one that the run does not have."""
        if not self._has(name):
            return np.empty(0)
        return self._reader.read(name, 0, None, step)

    @property
    def meta(self) -> dict[str, Any]:
        """What decides no number: machine, versions, kernel."""
        return self._reader.meta

    def _has(self, name: str) -> bool:
        return name in self._reader.streams

    def _need(self, name: str, what: str) -> None:
        if self._has(name):
            return
        if name == "samples/states" and "sample" in self.config:
            raise AttributeError('this run was told keep="best": its states are in best_states and best_energies.')
        raise AttributeError(
            f"this run of kind {self.kind!r} has no {what}; its streams are {', '.join(self._reader.streams)}"
        )

    @cached_property
    def _start(self) -> BoltzmannMachine:
        if "model" not in self.config:
            raise AttributeError(f"a run of kind {self.kind!r} has no one model")
        return read_model(self._reader.inputs, self.config["model"])

    @property
    def model(self) -> BoltzmannMachine:
        """The machine that was sampled, or the machine as learned up to the last commit."""
        return self._start

    @property
    def _beta(self) -> float:
        """Where P ~ exp(-beta E) is the distribution of `model`: what it was learned at."""
        return 1.0

    @property
    def has_states(self) -> bool:
        """Whether any samples were recorded."""
        return self._has("samples/states") and self._reader.n_rows("samples/states") > 0

    @property
    def states(self) -> States:
        """Samples, (n_samples, n_chains, n_units) int8 in the model's units; from a file they are read as they are
        sliced.

        Of a machine that is even under a flip of all units, averages of raw states tell only which valleys the chains
        sit in: its means are 0 of spins, as the summary says.
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
    def sweep(self) -> np.ndarray:
        """The sweep after which each sample was taken, (n_samples,)."""
        self._need("samples/sweep", "sweeps")
        return self._reader.read("samples/sweep")

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

    def transform(self, rows: Any, **options: Any) -> np.ndarray:
        """Call `fastbm.transform` with the machine, at the beta it was learned at unless told otherwise."""
        from ..inference.conditional.apply import transform

        return transform(self.model, rows, **{"beta": self._beta, **options})

    def reconstruct(self, rows: Any, **options: Any) -> np.ndarray:
        """Call `fastbm.reconstruct` with the machine, at the beta it was learned at unless told otherwise."""
        from ..inference.conditional.apply import reconstruct

        return reconstruct(self.model, rows, **{"beta": self._beta, **options})

    def complete(self, rows: Any, **options: Any) -> np.ndarray:
        """Call `fastbm.complete` with the machine, at the beta it was learned at unless told otherwise."""
        from ..inference.conditional.apply import complete

        return complete(self.model, rows, **{"beta": self._beta, **options})

    def sample(self, **options: Any) -> Any:
        """Call `fastbm.sample` with the machine, at the beta it was learned at unless told otherwise."""
        return verb_of("sample")(self.model, **{"beta": self._beta, **options})

    @property
    def converged(self) -> bool | None:
        """Whether the run is to be believed; None where nothing tells."""
        return None

    @property
    def doubt(self) -> str:
        """Why a run has not `converged`, or why nothing tells; empty where it has, or where no reason is known."""
        return ""

    def _entries(self) -> dict[str, Any]:
        """What the summary says beside what it says of all runs."""
        return {}

    def warn_at_end(self) -> None:
        """Say once, when the run is finished, what has not converged, and the way out."""

    def summary(self) -> Summary:
        """Return the run in a few numbers: a dict that prints as a table."""
        head = Summary(kind=self.kind, file=str(self.path) if self.path else "in memory", finished=self.finished)
        if self.unchecked:
            head["seal"] = "none: nothing in the file is checked"
        return Summary({**head, **self._entries()})
