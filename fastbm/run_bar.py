"""A progress bar that shows itself only when a call takes long and someone looks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np

from .run_loop import Task

PATIENCE = 2.0  # seconds


class LateBar:
    """A progress callback that draws a bar on stderr after two seconds, where that is a terminal.

    It is drawn by a timer and not at the next block: a block may be long.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._lock = threading.Lock()
        self._progress: Any = None
        self._count: tuple[int, int | None] = (0, None)
        self._timer: threading.Timer | None = None

    def __enter__(self) -> LateBar:
        if sys.stderr.isatty():
            self._timer = threading.Timer(PATIENCE, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with self._lock:
            if self._timer is None:  # it is over
                return
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            done, total = self._count
            self._progress.add_task(self._title, completed=done, total=total)
            self._progress.start()

    def __call__(self, task: Task, rows: Mapping[str, np.ndarray]) -> None:
        with self._lock:
            self._count = task.progress
            if self._progress is not None:
                done, total = self._count
                self._progress.update(self._progress.task_ids[0], completed=done, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._progress is not None:
                self._progress.stop()
