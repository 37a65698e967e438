"""What a worker does: bring one shard to its end, from wherever it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._base.checks import StorageError
from .._base.files import placed
from ..runs.begin import begin, resume
from ..runs.loop import Progress
from ..runs.stop import Stop
from ..runs.workers.jobs import Job
from ..store import is_there
from . import attempts
from .generations import Generation, other_versions, versions_of
from .grid import Cell
from .task import changes

KIND = "cells"  # as `runs.spec` knows it


@dataclass(frozen=True)
class ShardJob(Job):
    """A shard that is to be done, as it is sent to a worker; its size is its number of cells.

    Attributes
    ----------
    spec : dict or None
        None where the file has it.
    verb : str
    versions : dict
        Those that the campaign was begun with; empty where others are taken as well.
    threads : int or None
    storage : dict
        How the shard is written.
    places : dict
        Absolute paths of the files that cells read, by their names as written: workers may be in other folders.
    """

    spec: dict[str, Any] | None = None
    verb: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = 1
    storage: dict[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def refusal(self) -> str:
        """Return why this process cannot do it; empty if it can."""
        if self.versions and (text := other_versions(self.versions, versions_of(self.verb))):
            return f"the campaign was begun with {text} in a worker, with which numbers may differ"
        return ""

    def bring_to_end(self, stop: Stop, progress: Progress | None) -> None:
        """Begin the shard, or go on with it."""
        with placed(self.places):
            self._bring_to_end(stop, progress)

    def _bring_to_end(self, stop: Stop, progress: Progress | None) -> None:
        common: dict[str, Any] = {"threads": self.threads, "progress": progress or False, "stop": stop}
        if not is_there(self.path):
            if self.spec is None:
                raise StorageError(f"{self.path} is gone. Restore a copy of it.")
            place = (self.path, False, None, common["progress"], stop, self.storage)
            begin(self.spec, {}, self.threads, *place)
        elif not is_finished(Path(self.path)):
            resume(self.path, exact=bool(self.versions), **common)

    def marks(self) -> int:
        """Return a number that rises as the shard comes on: of the deaths of workers at its cells."""
        return sum(attempts.read(attempts.path_of(self.path)).values())


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
