"""What a worker does: bring one shard to its end, from wherever it is."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from .._base.checks import Interrupted, StorageError
from ..runs.begin import begin, resume
from ..runs.loop import Progress
from ..runs.stop import SIGNALS, Stop
from ..store import Reader, is_there, open_reader
from ..store.holder import is_live
from ..store.names import Names
from .generations import Generation, other_versions, versions_of
from .grid import Cell
from .task import changes

KIND = "cells"  # as `runs.spec` knows it
FINISHED, STOPPED, BUSY, FAILED = "finished", "stopped", "busy", "failed"
LOOK_SECONDS = 1.0  # between two looks for a stop that is asked for by a file


@dataclass(frozen=True)
class Job:
    """A shard that is to be done, as it is sent to a worker.

    Attributes
    ----------
    path : str
        The shard's file.
    spec : dict or None
        None where the file has it.
    n_cells : int
    verb : str
    versions : dict
        Those that the campaign was begun with; empty where others are taken as well.
    threads : int or None
    storage : dict
        How the shard is written.
    stop_file : str
        What asks for a stop by being there.
    number : int
        How many were sent before.
    """

    path: str
    spec: dict[str, Any] | None
    n_cells: int
    verb: str
    versions: Mapping[str, str]
    threads: int | None = 1
    storage: dict[str, Any] = field(default_factory=dict)
    stop_file: str = ""
    number: int = 0


@dataclass(frozen=True)
class Outcome:
    """How a worker left a shard: "finished", "stopped", "busy" (another process writes it) or "failed", and why."""

    state: str
    text: str = ""


class PatientStop(Stop):
    """A stop that a worker listens to: signals after the first change nothing, and a file asks for it as well.

    Who ends a worker may do so twice, and what is being committed then is not to be lost.
    """

    def __init__(self, file: str) -> None:
        super().__init__(SIGNALS)
        self._file, self._next_look = file, 0.0

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            super()._note(number, frame)
            self._listen(number, self._ignore)

    def _ignore(self, number: int, frame: FrameType | None) -> None:
        pass

    def asked(self) -> bool:
        """Return whether a stop is asked for."""
        if not self.requested and self._file and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SECONDS
            if os.path.exists(self._file):
                self.requested = "the coordinator"
        return super().asked()

    def due(self) -> bool:
        """Return whether a stop is asked for, or the time is over."""
        return self.asked() or super().due()


def path_of(folder: Path, generation: int, k: int) -> Path:
    """Return the file of a shard."""
    return folder / "shards" / f"{generation}-{k:03d}.h5"


def is_finished(path: Path) -> bool:
    """Return whether a shard is one file, which it is only when it is done; a look at the folder alone."""
    return path.exists() and not os.path.exists(f"{path}.parts/seg-00000000.h5")


def spec_of(generation: Generation, k: int, cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the spec of a shard: all that its rows depend on."""
    found = {"kind": KIND, "verb": generation.verb, "keep": generation.keep, "base": generation.base}
    longer = {} if generation.factor == 1 else {"factor": generation.factor}
    return {**found, "cells": cells, "shard": [generation.number, k], **longer}


def entry_of(cell: Cell, base: Mapping[str, Any], place: tuple[int, int]) -> dict[str, Any]:
    """Return what a spec says of a cell; `place` is its generation and its number in the grid."""
    return {"id": cell.id, "keys": cell.keys, "set": changes(base, cell.keys, cell.tables), "at": list(place)}


def do_shard(job: Job, stop: Stop | None = None, progress: Progress | None = None) -> Outcome:
    """Bring a shard to its end, or to a stop."""
    if job.versions and (text := other_versions(job.versions, versions_of(job.verb))):
        return Outcome(FAILED, f"the campaign was begun with {text} in a worker, with which numbers may differ")
    stop = PatientStop(job.stop_file) if stop is None else stop
    if stop.due():
        return Outcome(STOPPED)
    common: dict[str, Any] = {"threads": job.threads, "progress": progress or False, "stop": stop}
    try:
        with stop:
            _bring_to_end(job, common)
    except Interrupted as stopped:
        return Outcome(STOPPED if _is_unfinished(job.path) else FINISHED, stopped.reason)
    except StorageError as error:
        if is_live(Names(job.path)):
            return Outcome(BUSY, str(error))
        return Outcome(FAILED, str(error))
    return Outcome(FINISHED)


def _bring_to_end(job: Job, common: dict[str, Any]) -> None:
    if not is_there(job.path):
        if job.spec is None:
            raise StorageError(f"{job.path} is gone. Restore a copy of it.")
        begin(job.spec, {}, common["threads"], job.path, False, None, common["progress"], common["stop"], job.storage)
    elif not is_finished(Path(job.path)):
        resume(job.path, exact=bool(job.versions), **common)


def _is_unfinished(path: str) -> bool:
    return not is_there(path) or not open_reader(path).finished


def cells_of(reader: Reader) -> list[dict[str, Any]]:
    """Return what the file of a shard says of its cells."""
    spec = reader.spec
    if spec.get("kind") != KIND:
        raise StorageError(f"{reader.path} is no shard of a campaign, but a run of kind {spec.get('kind')!r}.")
    found: list[dict[str, Any]] = spec["cells"]
    return found
