"""A part of a sampling run: some of its chains, as a run of its own in a worker."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import store
from ..._base.checks import Interrupted, StorageError
from ..._base.halting import Halted
from ..._base.versions import PINNED_PACKAGES, differences
from ...sampling.parts import part_of
from ...sampling.samplers import read_settings
from ..begin import make_storage
from ..loop import Progress, execute
from ..spec import Given
from ..stop import Stop
from ..workers.jobs import Job
from .task import SampleTask, ScheduleTask, make_task

PART_OF = "part_of"  # entry of `meta`: the run that it is a part of
Arrays = dict[str, np.ndarray]


def spec_of_part(
    spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], first: int, end: int
) -> tuple[dict[str, Any], Arrays]:
    """Return the spec of a part, and its arrays."""
    settings = part_of(read_settings(spec["sample"]), first, end)
    arrays = {name: array for name, array in inputs.items() if not name.startswith("axes/")}
    if "initial" in arrays:
        arrays["initial"] = arrays["initial"][first:end]
    return {**spec, "sample": settings.as_dict()}, arrays


def make_part(spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int) -> SampleTask | ScheduleTask:
    """Make the task of a part; what it would warn of is told of the whole."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_task(spec, inputs, threads, Given())


@dataclass(frozen=True)
class PartJob(Job):
    """A part that is to be done, as it is sent to a worker; its size is its number of chains.

    Attributes
    ----------
    whole : str
        The file of the run that it is a part of, from which a worker reads what is to be done.
    run_id : str
        That of the whole.
    first, end : int
        Its chains, counted from the first of the whole.
    versions : tuple of str
        Those where the work comes from; empty where others are taken as well.
    exact : bool
        Whether a part that was begun with other versions is refused.
    threads : int
    storage : dict
        How the part is written.
    """

    whole: str = ""
    run_id: str = ""
    first: int = 0
    end: int = 0
    versions: tuple[str, ...] = ()
    exact: bool = True
    threads: int = 1
    storage: dict[str, Any] = field(default_factory=dict)

    def refusal(self) -> str:
        """Return why this process cannot do it; empty if it can."""
        there = dict(zip(PINNED_PACKAGES, self.versions, strict=False))
        if other := differences(there, "where the work comes from"):
            return f"the worker {platform.node()} would give other bits: {'; '.join(other)}."
        if not store.is_there(self.whole):
            return (
                f"the worker {platform.node()} does not see {self.whole}. Write where all workers do, or leave out "
                "`out` to have what they compute sent."
            )
        return ""

    def bring_to_end(self, stop: Stop, progress: Progress | None) -> None:
        """Begin the part, or go on with it."""
        reader = store.open_reader(self.whole)
        if reader.meta["run_id"] != self.run_id:
            raise StorageError(f"{self.whole} is another run than it was.")
        spec, inputs = spec_of_part(reader.spec, reader.inputs, self.first, self.end)
        reader.close()
        begun = store.is_there(self.path) and store.open_reader(self.path).meta.get(PART_OF) == self.run_id
        task = make_part(spec, inputs, self.threads)
        if begun:
            writer = store.resume(self.path, exact=self.exact)
        else:
            storage = {**self.storage, "about": {PART_OF: self.run_id}}
            writer = make_storage(task, spec, inputs, self.path, store.is_there(self.path), storage)
        with writer:
            if writer.finished:
                writer.finish(writer.state)
                return
            if begun:
                task.restore(dict(writer.state))
            try:
                done = execute(task, writer, stop=stop, progress=progress)
            except Halted:
                done = False
        if not done:
            raise Interrupted(f"stopped by {stop.requested}")


def do_in_memory(shared: tuple[Any, ...], k: int) -> tuple[Arrays, Arrays]:
    """Compute a part in memory; return its rows by stream, and its last state."""
    spec, inputs, cuts, threads = shared
    spec, inputs = spec_of_part(spec, inputs, *cuts[k])
    task = make_part(spec, inputs, threads)
    memory = store.Memory(spec=spec, streams=task.streams, state=task.state())
    stop = Stop(())
    with stop:
        done = execute(task, memory, stop=stop)
    if not done:
        raise Interrupted(f"stopped by {stop.requested}")
    return {name: memory.read(name) for name in task.streams}, memory.state
