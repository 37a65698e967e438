"""The class of all runs: records, machine and summary, whether live or finished, in memory or in a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._base.checks import StorageError
from ..diagnostics.verdicts import VERDICTS
from ..machine.machine import BoltzmannMachine
from ..machine.units import units as convention
from ..store import Extension, Memory, Reader
from .belief import guard
from .loop import Task
from .records import Columns, LazyStates, States
from .spec import Given, read_model, verb_of
from .summary import Summary

READ_ROWS = 256  # samples that are unpacked at a time


class Run:
    """A run, as the verbs, `open` and `resume` return it; each kind of run adds its own records.

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
    n_threads: int | None = None  # on which records are looked at; all that are available unless it was told

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        guard(cls)

    def __init__(self, reader: Reader | Memory) -> None:
        self._reader = reader
        self.config: dict[str, Any] = reader.spec
        self.kind: str = self.config["kind"]
        self.path = None if reader.path is None else Path(reader.path)

    def __repr__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        seal = ", unchecked" if self.unchecked else ""
        return f"<Run: {self.kind}{where}, {'finished' if self.finished else 'unfinished'}{seal}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def plot(self) -> Any:
        """Draw the run, and return the figure: `plots.figure` of it."""
        from .._base.late import public

        return public("plots").figure(self)

    def to_xarray(self) -> Any:
        """Return all records as an xarray.DataTree: a node for each group, axes and coordinates by name.

        States of a run with a file stay packed in it until they are computed with. `arviz_stats` and `arviz_base` take
        the tree's nodes, whose axes are "draw" and "chain". Needs xarray.
        """
        from .export import to_xarray

        return to_xarray(self)

    def to_dataframe(self) -> Any:
        """Return the table of the run as a pandas.DataFrame; needs pandas.

        That is of `sample` what `thermodynamics` finds, a row for each temperature (with thin="log" `relaxation`, a row
        for each time; of "annealing" and "population-annealing" what was recorded along the schedule, energies those of
        the whole machine), of `fit` the metrics of each look, of `compare` and `compare_rules` the cells.
        """
        from .._base.frame import to_frame

        return to_frame(*self._frame())

    def _frame(self) -> tuple[Any, ...]:
        """Return the rows of the table, and the name of the column that leads it."""
        raise AttributeError(f"a run of kind {self.kind!r} has no table")

    def __reduce__(self) -> Any:
        """Return how a copy is made: it opens the run's file for itself; one in memory takes its rows along.

        A run in memory whose units have names takes its machine along too: the rows keep names as texts.
        """
        start = vars(self).get("_start") if self.path is None else None
        return type(self), (self._reader,), {"_start": start} if start is not None and start.names else None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError that names what a run of this kind has in place of a record that it lacks."""
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # which raises again what it raised
            if name.startswith("_"):
                raise AttributeError(name)
            what = "results" if name in ("inference", "comparison") else name
            streams = ", ".join(self._reader.streams)
            raise AttributeError(f"this run of kind {self.kind!r} has no {what}; its streams are {streams}")

    @property
    def metrics(self) -> Columns:
        """Streams that were recorded along learning, by name."""
        return Columns(self._reader, "metrics")

    @property
    def weights(self) -> Columns:
        """Parameters that were recorded along learning, by name."""
        return Columns(self._reader, "weights")

    @property
    def evaluation(self) -> Columns:
        """Streams of the evaluation at the end of learning, by name."""
        return Columns(self._reader, "evaluation")

    @property
    def observables(self) -> Columns:
        """Observables by name; a row for each sample."""
        return Columns(self._reader, "observables")

    @classmethod
    def task(cls, spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given) -> Task:
        """Make the task that a spec describes."""
        raise NotImplementedError

    @classmethod
    def why_another(cls, settings: Mapping[str, Any]) -> str:
        """Return why a longer run would not begin as this one did; empty if it would."""
        raise NotImplementedError

    @classmethod
    def before_its_end(cls, finished: Any, longer: Mapping[str, Any], state: Mapping[str, np.ndarray]) -> Extension:
        """Return where a longer run continues, given the task of this one, restored to its end.

        Raises
        ------
        ValueError
            If it stopped by itself, or the state before its end was not kept.
        """
        raise NotImplementedError

    def check_records(self) -> None:
        """Raise a ValueError where records are missing that a finished run of this kind has."""

    @classmethod
    def check_room(cls, task: Any) -> None:
        """Refuse rows that memory cannot hold."""

    @classmethod
    def read_again(cls, spec: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Read rows that a user gives again, and check that they are those that the run began with."""
        return dict(given)

    @property
    def finished(self) -> bool:
        """Whether the run reached its end."""
        return self._reader.finished

    @property
    def live(self) -> bool:
        """Whether a process is writing the run."""
        return self._reader.live

    @property
    def unchecked(self) -> bool:
        """Whether the run's file has no seal, so that none of it is checked against damage."""
        return self._reader.unchecked

    def refresh(self) -> Self:
        """Read what was committed since the last call; return the run itself."""
        self._reader.refresh()
        self.config = self._reader.spec  # of a run that was extended it is another
        return self

    @property
    def streams(self) -> dict[str, Any]:
        """The declared streams of the run, by name."""
        return self._reader.streams

    def read(self, name: str, step: int = 1) -> np.ndarray:
        """Return every `step`-th row of a stream, by its path in the file.

        Parameters
        ----------
        name : str
            One of `streams`, "samples/energy" for instance.
        step : int
            Positive.

        Returns
        -------
        (n_rows, ...) array
            In the dtype of the stream; states are packed bits. Empty where the run has no such stream.
        """
        if not self._has(name):
            return np.empty(0)
        return self._reader.read(name, 0, None, step)

    def _peek(self, name: str, step: int = 1) -> np.ndarray:
        """Return what `read` does, not to be written to."""
        reader = self._reader
        return reader.peek(name, step) if isinstance(reader, Memory) else self.read(name, step)

    @property
    def meta(self) -> dict[str, Any]:
        """Machine, versions and kernel of the run, which decide none of its numbers."""
        return self._reader.meta

    def _has(self, name: str) -> bool:
        return name in self._reader.streams

    def _need(self, name: str, what: str) -> None:
        if self._has(name):
            return
        folders = ("samples", self.config["sample"]["sampler"]) if self.kind == "sample" else ()  # of what it must have
        if name.split("/")[0] in folders and name != "samples/states" and self.path is not None:
            raise StorageError(f"{self.path} makes no sense: its samples have no {what}. Restore a copy of it.")
        if name == "samples/states" and "sample" in self.config:
            raise AttributeError('this run was told keep="best": its states are in best_states and best_energies.')
        raise AttributeError(
            f"this run of kind {self.kind!r} has no {what}; its streams are {', '.join(self._reader.streams)}"
        )

    @cached_property
    def _start(self) -> BoltzmannMachine:
        if "model" not in self.config and self.kind not in ("sample", "fit"):
            raise AttributeError(f"a run of kind {self.kind!r} has no one model")
        return read_model(self._reader.inputs, self.config["model"])

    def start_from(self, model: BoltzmannMachine | None) -> None:
        """Take the machine that the run began with, where it is at hand, as the one that its records tell."""
        if model is not None:
            self._start = model

    @property
    def model(self) -> BoltzmannMachine:
        """The machine that was sampled, or the machine as learned up to the last commit."""
        return self._start

    @property
    def _beta(self) -> float:
        """The inverse temperature at which P ~ exp(-beta E) is the distribution of `model`: that of its learning."""
        return 1.0

    @property
    def has_states(self) -> bool:
        """Whether any samples were recorded."""
        return self._has("samples/states") and self._reader.n_rows("samples/states") > 0

    @property
    def states(self) -> States:
        """Samples, (n_samples, n_chains, n_units) int8 in the model's units.

        In a run with a file they are read from it as they are sliced.

        Of a machine that is even under a flip of all units, averages of raw states tell only which valleys the chains
        sit in: its means are 0 of spins, as the summary says.
        """
        self._need("samples/states", "samples")
        lazy = LazyStates(self._reader, "samples/states", convention(self.config["model"]["units"]))
        return np.asarray(lazy) if isinstance(self._reader, Memory) else lazy

    @property
    def energy(self) -> np.ndarray:
        """Energies of the samples with the machine's offset, (n_samples, n_chains)."""
        self._need("samples/energy", "energies")
        return self._reader.read("samples/energy")

    @property
    def sweep(self) -> np.ndarray:
        """Number of sweeps done when each sample was taken, (n_samples,)."""
        self._need("samples/sweep", "sweeps")
        return self._reader.read("samples/sweep")

    @property
    def magnetisation(self) -> np.ndarray:
        """Mean value of the units of every sample, in the model's units, (n_samples, n_chains)."""
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
        """Call `fastbm.transform` with the machine, at the beta it was learned at unless `beta` is given."""
        from ..inference.conditional.apply import transform

        return transform(self.model, rows, **{"beta": self._beta, **options})

    def reconstruct(self, rows: Any, **options: Any) -> np.ndarray:
        """Call `fastbm.reconstruct` with the machine, at the beta it was learned at unless `beta` is given."""
        from ..inference.conditional.apply import reconstruct

        return reconstruct(self.model, rows, **{"beta": self._beta, **options})

    def complete(self, rows: Any, **options: Any) -> np.ndarray:
        """Call `fastbm.complete` with the machine, at the beta it was learned at unless `beta` is given."""
        from ..inference.conditional.apply import complete

        return complete(self.model, rows, **{"beta": self._beta, **options})

    def sample(self, **options: Any) -> Any:
        """Call `fastbm.sample` with the machine, at the beta it was learned at unless `beta` is given."""
        return verb_of("sample")(self.model, **{"beta": self._beta, **options})

    @property
    def converged(self) -> bool | None:
        """Whether the run has converged; None where nothing can decide it."""
        return None

    @property
    def doubt(self) -> str:
        """Why a run has not `converged`, or why nothing decides it; empty where it has, or where no reason is known."""
        return ""

    @property
    def evidence(self) -> str:
        """What speaks for a run that has `converged`; empty where nothing was looked at."""
        return ""

    @property
    def verdict(self) -> str:
        """Whether the run has `converged`, and why or why not, in one sentence."""
        converged = self.converged
        why = self.evidence if converged else self.doubt
        text = VERDICTS[converged] + (f": {why}" if why else "")
        return text if self.finished else f"not finished; so far {text}"

    def _entries(self) -> dict[str, Any]:
        """Return the entries of the summary that belong to this kind of run."""
        return {}

    def warn_at_end(self) -> None:
        """Warn once, when the run is finished, of what has not converged, with the way out."""

    def summary(self) -> Summary:
        """Return the run in a few numbers, its verdict first: a dict that prints as a table."""
        head = Summary(
            verdict=self.verdict,
            kind=self.kind,
            file=str(self.path) if self.path else "in memory",
            finished=self.finished,
        )
        if self.unchecked:
            head["seal"] = "none: nothing in the file is checked"
        return Summary({**head, **self._entries()})


guard(Run)
