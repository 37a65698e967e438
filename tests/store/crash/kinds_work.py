"""Runs of every kind as bare tasks: taken apart after every block and built anew, without files."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any
from unittest import mock

import numpy as np

from fastbm.learning import learn, make as drivers
from fastbm.runs import begin
from tests.support.run_kinds import Kind

Arrays = dict[str, np.ndarray]
MOST_BLOCKS = 400


class _Taken(Exception):
    """A run is not to be begun: what it would be made of is known."""


def maker(kind: Kind) -> Callable[[int], Any]:
    """Return what makes the task of a run, on so many threads, as its verb would and as a resume would."""
    build, taken = begin.build, []

    def take(spec: Any, inputs: Any, threads: int, *others: Any) -> Any:
        taken.append((spec, inputs, others))
        raise _Taken

    with mock.patch.object(begin, "build", take), suppress(_Taken):
        kind.begin(None)
    ((spec, inputs, others),) = taken
    return lambda threads: build(spec, inputs, threads, *others)


def drivers_of(make: Callable[[int], Any]) -> set[str]:
    """The classes of the drivers, and of their optimisers and phases, that a fit is made of."""
    found: set[str] = set()
    made, phases = drivers.make, drivers.phases

    def note(*arguments: Any, **options: Any) -> Any:
        driver = made(*arguments, **options)
        found.add(type(driver).__name__)
        return driver

    def note_phases(*arguments: Any, **options: Any) -> Any:
        both = phases(*arguments, **options)
        found.update(type(phase).__name__ for phase in both)
        return both

    with ExitStack() as patches:
        for place, name, noted in ((learn, "make", note), (drivers, "make", note), (drivers, "phases", note_phases)):
            patches.enter_context(mock.patch.object(place, name, noted))
        task = make(1)
        if type(task.learner.driver).__name__ in ("Pretraining", "AutoSteps"):  # which make others as they go
            while not task.done:
                task.advance()
    return found


class Rows:
    """All rows of a run, stream by stream, but for what a clock says."""

    def __init__(self) -> None:
        self.blocks: dict[str, list[np.ndarray]] = {}
        self.n_blocks = 0

    def take(self, rows: Any) -> None:
        for name, array in rows.items():
            if not name.startswith("meta/") and len(array):
                self.blocks.setdefault(name, []).append(np.array(array))
        self.n_blocks += 1

    @property
    def contents(self) -> dict[str, Any]:
        whole = {name: np.concatenate(blocks) for name, blocks in self.blocks.items()}
        return {name: comparable(array) for name, array in whole.items()}


def comparable(array: Any) -> tuple[Any, ...]:
    """Dtype, shape and bytes."""
    array = np.asarray(array)
    return array.dtype.str, array.shape, array.tolist() if array.dtype.kind == "O" else array.tobytes()


def copied(state: Arrays) -> Arrays:
    """What a file would give back."""
    return {name: np.array(array) for name, array in state.items()}


def at_once(make: Callable[[int], Any]) -> tuple[dict[str, Any], int]:
    """The rows and the last state of a run that nothing interrupts, and its number of blocks."""
    task, rows = make(1), Rows()
    while not task.done:
        rows.take(task.advance())
    return rows.contents | _last(task), rows.n_blocks


def piecemeal(make: Callable[[int], Any]) -> tuple[dict[str, Any], int]:
    """The same of a run that is resumed after every block, with one thread and two by turns."""
    rows, threads = Rows(), itertools.cycle((2, 1))
    task = make(1)
    while not task.done:
        assert rows.n_blocks < MOST_BLOCKS, "every resumption must get a block further"
        rows.take(task.advance())
        state = copied(task.state())
        task = make(next(threads))
        task.restore(state)
    return rows.contents | _last(task), rows.n_blocks


def _last(task: Any) -> dict[str, Any]:
    return {f"state/{name}": comparable(array) for name, array in task.state().items()}
