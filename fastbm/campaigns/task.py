"""The work of a shard: one cell after the other, each an ordinary run, of which a row of text is kept."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from .._base.checks import Interrupted, StorageError
from .._base.streams import Stream
from ..runs.begin import open as open_run, resume
from ..runs.extend import extend
from ..runs.run import Run
from ..runs.stop import Stop
from ..runs.toml import file
from ..store import Memory, Writer, is_there
from ..store.names import Names
from .attempts import DIED, MOST_DEATHS, Attempts
from .row import columns_of

ROW, IS_FAILED, SECONDS = "cells/row", "cells/failed", "meta/seconds"
MERGED = "merged"  # in place of the number of a commit
FAILED = "failed"  # what a row says in place of numbers
LENGTHS = {"fit": "epochs"}  # what a longer cell has more of; n_sweeps unless named here
_decode = msgspec.json.Decoder().decode


class ShardTask:
    """The task of a shard.

    Parameters
    ----------
    spec : dict
        "verb" and "keep" of the campaign, its "base" of tables, and the "cells": of each "id", "keys" of the grid, and
        what it "set"s in the base besides.
    threads : int
        Of each cell.
    """

    unit = "cell"

    def __init__(self, spec: Mapping[str, Any], threads: int) -> None:
        self._spec, self._cells, self._threads = spec, spec["cells"], threads
        self._n_done = 0
        self._stop: Stop | None = None
        self._attempts: Attempts | None = None
        self._folder: Path | None = None  # of the runs of the cells, where they are kept

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that the run writes."""
        return {ROW: Stream("str"), IS_FAILED: Stream("|u1"), SECONDS: Stream("<f8")}

    @property
    def atomic(self) -> bool:
        """Whether the next cell may be broken off anywhere: not where it is a run with a file, which stops in order."""
        return self._spec["keep"] == "summary"

    @property
    def done(self) -> bool:
        """Whether all cells are done."""
        return self._n_done >= len(self._cells)

    @property
    def progress(self) -> tuple[int, int]:
        """Cells done, and cells in all."""
        return self._n_done, len(self._cells)

    def enter(self, stop: Stop, writer: Writer | Memory) -> None:
        """Take the stop of this process, and the place where the shard is written."""
        self._stop = stop
        if isinstance(writer, Writer):
            writer.wait_with_the_first()
            self._attempts = Attempts(writer.names.merged)
            self._folder = writer.names.merged.parents[1] / "cells"

    def advance(self) -> dict[str, np.ndarray] | None:
        """Compute one cell; return None where a stop was asked for within it."""
        cell = self._cells[self._n_done]
        started = time.perf_counter()
        if self._attempts is None or self._attempts.begin(self._begun(cell["id"])):
            try:
                row = self._row(cell)
            except BaseException as error:
                if self._attempts is not None:
                    self._attempts.leave()
                if isinstance(error, (_Unfinished, Interrupted)) and self._stop is not None and self._stop.due():
                    return None
                raise
        else:
            row = _failed(DIED.format(n=MOST_DEATHS))
        self._n_done += 1
        if self.done and self._attempts is not None:
            self._attempts.end()
        return {
            ROW: np.array([json.dumps(row)], dtype=object),
            IS_FAILED: np.array([FAILED in row], np.uint8),
            SECONDS: np.array([time.perf_counter() - started]),
        }

    def _begun(self, name: str) -> str:
        """Return what a cell is begun as: its id, and the last commit of its run where it has a file."""
        if self._folder is None or self._spec["keep"] != "runs":
            return name
        names = Names(self._folder / f"{name}.h5")
        return f"{name} {max(names.segment_numbers(), default=MERGED if names.merged.exists() else 0)}"

    def _row(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        try:
            call = file.call(tables := tables_of(self._spec, cell), self._spec["verb"])
        except Exception as error:
            return _failed(_text(error))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the row says whether it has converged
                if self._spec["keep"] == "runs":
                    found = self._in_file(cell["id"], call, tables)
                else:
                    within = None if self._stop is None else _Within(self._stop)
                    found = call(threads=self._threads, progress=False, stop=within)
                if not getattr(found, "finished", True):
                    raise _Unfinished
                return columns_of(found)
        except Exception as error:
            of_a_file = isinstance(error, OSError) and self._spec["keep"] == "runs"
            if of_a_file or isinstance(error, BrokenExecutor):  # none of it is the cell's fault
                raise
            return _failed(_text(error))

    def _in_file(self, name: str, call: Any, tables: Mapping[str, Any]) -> Run:
        """Bring a cell's run, in its file, to its end, from where it is."""
        assert self._folder is not None
        path, verb = self._folder / f"{name}.h5", str(self._spec["verb"])
        common: dict[str, Any] = {"threads": self._threads, "progress": False, "stop": self._stop}
        if is_there(path):
            run = open_run(path)
            if not run.finished or Names(path).parts.exists():  # it may be finished but for its merge
                run = resume(path, **common)
            if "factor" not in self._spec or not (more := _lacks(run, verb, tables)):
                return run
            with suppress(ValueError):  # it would have begun otherwise, had it been longer
                return extend(path, **common | {run.counted: more})
        self._folder.mkdir(exist_ok=True)
        storage = {key: value for key, value in tables.get("store", {}).items() if key != "max_seconds"}
        call(out=path, overwrite=is_there(path), about={"toml": json.dumps(tables)}, **storage, **common)
        return open_run(path)

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the run."""
        return {"n_done": np.array(self._n_done)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._n_done = int(state["n_done"])


class _Unfinished(BaseException):
    """Raised where a stop came while a cell was computed."""


class _Within(Stop):
    """The stop of a cell: it is asked for where its shard's is, but not by the clock.

    A cell is short, or is broken off as a whole: else one that is stopped after each block would never end.
    """

    def __init__(self, shard: Stop) -> None:
        super().__init__(())
        self._shard = shard

    def asked(self) -> bool:
        """Return whether a stop is asked for."""
        if self._shard.due() and self._shard.signalled:
            self.requested = self._shard.requested
        return super().asked()

    def due(self) -> bool:
        """Return whether a stop is asked for."""
        return self.asked()


def tables_of(spec: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a cell, as of an ordinary run."""
    found = dict(spec["base"])
    for key, value in {**cell["keys"], **cell["set"]}.items():
        table, dot, last = key.partition(".")
        if "." not in last:  # a key that lies deeper is part of what is set
            found[table] = {**found.get(table, {}), last: value} if dot else value
    verb = spec["verb"]
    if (factor := spec.get("factor", 1)) != 1:
        found[verb] = {**found[verb], (name := length_of(verb)): round(found[verb][name] * factor)}
    return found


def try_out(spec: Mapping[str, Any], cell: Mapping[str, Any]) -> None:
    """Refuse a cell as its verb does before it begins: it is called with a stop that is asked for already."""
    stop = Stop(())
    stop.requested = "a trial"
    with suppress(Interrupted):
        file.call(tables_of(spec, cell), spec["verb"])(threads=1, progress=False, stop=stop)


def changes(base: Mapping[str, Any], keys: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be set in the base besides the keys for tables to come out: of `tables_of` the reverse."""
    found: dict[str, Any] = {}
    for name, table in tables.items():
        before = base.get(name)
        if not isinstance(table, dict) or not isinstance(before, dict):
            found |= {} if table == before else {name: table}
        else:
            found |= {f"{name}.{key}": value for key, value in table.items() if before.get(key, found) != value}
    return {key: value for key, value in found.items() if keys.get(key, found) != value}


def length_of(verb: str) -> str:
    """Return the name of what a longer run of a verb has more of."""
    return LENGTHS.get(verb, "n_sweeps")


def _lacks(run: Run, verb: str, tables: Mapping[str, Any]) -> int:
    """Return by how much a finished run is shorter than its tables say; all of it where it cannot be made longer."""
    wanted = tables[verb][length_of(verb)]
    if run.counted:
        return max(0, wanted - int(run.config[verb][run.counted]))
    return 0 if run.meta.get("toml") == json.dumps(tables) else int(wanted)


def parsed(text: str) -> dict[str, Any]:
    """Read the text of a row."""
    try:
        found: dict[str, Any] = _decode(text)
    except msgspec.DecodeError:  # of infinities, which are no JSON
        found = json.loads(text)
    return found


def _failed(text: str) -> dict[str, Any]:
    return {FAILED: text}


def _text(error: Exception) -> str:
    """Return what a cell failed of, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, (ValueError, StorageError)):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
