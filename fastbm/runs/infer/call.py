"""The progress of a call of `infer`, whether it is a run of blocks or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..._base.steps import heard
from ...kernels.cache import silent
from ..bar import check_progress, drawing
from ..loop import Progress

PAUSE = 0.1  # seconds between two looks


class Call:
    """What a single call has done, as a task that can be drawn: the steps that its method tells of.

    Parameters
    ----------
    method : str

    Attributes
    ----------
    each : function, optional
        Called now and then.
    """

    atomic = True  # compiling, and phases that tell of no steps, may be long

    def __init__(self, method: str) -> None:
        self._method, self._step, self._next = method, "", 0.0
        self.each: Progress | None = None
        self.done, self.progress = False, (0, 1)

    @property
    def unit(self) -> str:
        """The method, and the name of its present steps."""
        return f"{self._method}: {self._step}" if self._step else self._method

    def hear(self, step: str, done: int, total: int) -> None:
        """Take note of the steps that are done."""
        self._step, self.progress = step, (done, total)
        if self.each is not None and (now := time.monotonic()) >= self._next:
            self._next = now + PAUSE
            self._show()

    def end(self) -> None:
        """Take note that all is done."""
        self._step, self.progress, self.done = "", (1, 1), True
        self._show()

    def _show(self) -> None:
        if self.each is not None:
            task: Any = self
            self.each(task, {})


@contextmanager
def shown(progress: bool | Progress | None, method: str) -> Iterator[bool | Progress | None]:
    """Draw what a call does meanwhile; give the `progress` of runs within it."""
    check_progress(progress)
    call = Call(method)
    task: Any = call
    with silent(progress is False), drawing(progress, task) as call.each:
        if call.each is None:
            yield progress
            return
        with heard(call.hear):
            yield call.each
        call.end()
