"""The progress of a call, drawn on stderr: a bar in a terminal, one in a notebook, lines in a log file.

Nothing is imported for it, and no thread is started, before there is something to draw.
"""

from __future__ import annotations

import html
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from .loop import Progress, Task

PATIENCE = 1.0  # seconds before a bar that nobody asked for: with all imports it is there within two
FIRST_LINE = 2.0  # seconds before the first line of a log file
LINE_SECONDS = 60.0  # between two lines of a log file, at most
REDRAWN = 0.25  # seconds between two looks of a notebook's bar
LIKELIHOODS = {"pseudo_likelihood": "pseudo-likelihood", "log_likelihood": "log-likelihood"}

_begun: set[type] = set()  # kinds of tasks whose code is compiled: their blocks are short, but for atomic ones


def check_progress(progress: Any) -> None:
    """Refuse what is neither True, False, None nor a function."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(
            f"progress must be True, False, None or a function of a task and its rows; got {progress!r} "
            f"({type(progress).__name__})."
        )


def drawing(progress: Any, task: Task) -> AbstractContextManager[Progress | None]:
    """Return what is called after each block: a bar, the caller's own function, or nothing.

    Parameters
    ----------
    progress : bool, callable or None
        None draws a bar where someone looks, in a terminal or a notebook, once a second has passed; True draws it
        at once and everywhere, in a log file as lines.
    task : Task
    """
    if progress is None:
        known = type(task) in _begun
        _begun.add(type(task))
        looked_at = _in_notebook() or _in_terminal()
        return Bar(task, PATIENCE, timed=task.atomic or not known) if looked_at else nullcontext()
    if isinstance(progress, bool):
        return Bar(task, 0.0, timed=True) if progress else nullcontext()
    return nullcontext(progress)


class _Drawn(Protocol):
    """A bar that is there."""

    def draw(self, done: int, total: int, unit: str, note: str) -> None:
        """Show how much is done, and a note."""

    def close(self, keep: bool) -> None:
        """End the bar; take it away unless `keep`."""


class Bar:
    """A callback that draws how far a task is.

    Parameters
    ----------
    task : Task
    patience : float
        Seconds before anything is drawn; a bar that was waited for is taken away at the end.
    timed : bool
        Draw by a timer, where a first block may be long, and not at the next block alone.
    """

    def __init__(self, task: Task, patience: float, *, timed: bool) -> None:
        self._patience, self._timed = patience, timed
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._drawn: _Drawn | None = None
        self._over = False
        self._unit, self._count, self._note = task.unit, task.progress, ""

    def __enter__(self) -> Bar:
        self._since = time.monotonic()
        if not self._patience:
            self._draw()
        elif self._timed:
            self._timer = threading.Timer(self._patience, self._draw)
            self._timer.daemon = True
            with suppress(RuntimeError):  # no more threads: it is drawn at the next block
                self._timer.start()
        return self

    def __call__(self, task: Task, rows: Mapping[str, np.ndarray]) -> None:
        """Draw the bar, if it is time for it."""
        self._unit = task.unit
        self._count = task.progress[0], task.progress[0] if task.done else task.progress[1]
        if self._drawn is None and time.monotonic() - self._since < self._patience:
            return
        self._note = note_of(rows) or self._note
        self._draw()

    def _draw(self) -> None:
        with self._lock, suppress(OSError, ValueError):  # a run goes on where its terminal is gone
            if self._over or sys.stderr is None:
                return
            if self._drawn is None:
                self._drawn = _Cell() if _in_notebook() else _Line() if _in_terminal() else _Log()
            self._drawn.draw(*self._count, self._unit, self._note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock, suppress(OSError, ValueError):
            self._over = True
            if self._drawn is not None:
                self._drawn.close(keep=not self._patience)


def note_of(rows: Mapping[str, np.ndarray]) -> str:
    """Return the last metrics of learning in a few words."""
    last = {name: rows[f"metrics/{name}"] for name in (*LIKELIHOODS, "moment_error") if f"metrics/{name}" in rows}
    found = [f"{label} {last[name][-1]:.4g}" for name, label in LIKELIHOODS.items() if len(last.get(name, ()))][:1]
    if len(last.get("moment_error", ())):
        found.append(f"moment error {last['moment_error'][-1]:.2g}")
    return ", ".join(found)


class _Line:
    """A bar in a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=6),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=Console(stderr=True),
        )
        self._row: Any = None
        self._unit = ""

    def draw(self, done: int, total: int, unit: str, note: str) -> None:
        if self._row is None:
            self._row = self._progress.add_task(unit, total=total, note=note)
            self._progress.start()
        elif unit != self._unit:  # other steps, which take another time
            self._progress.reset(self._row, total=total, completed=done, description=unit)
        self._unit = unit
        self._progress.update(self._row, completed=done, total=total, note=note)

    def close(self, keep: bool) -> None:
        self._progress.live.transient = not keep
        self._progress.stop()


class _Text:
    """A line of text: how much is done, the last metrics, and how much time is left."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._begun = ("", 0, 0.0)  # the present steps: their name, and where and when they began

    def line(self, done: int, total: int, unit: str, note: str) -> str:
        self.elapsed = time.monotonic() - self._since
        if self._begun[0] != unit or done < self._begun[1]:
            self._begun = (unit, done, self.elapsed)
        _, first, begun = self._begun
        shown = _clock(self.elapsed)
        if first < done < total:
            shown = f"{_clock((self.elapsed - begun) * (total - done) / (done - first))} left"
        return ", ".join(part for part in (f"{unit} {done} of {total}", note, shown) if part)


class _Cell(_Text):
    """A bar in the output of a notebook's cell, which is empty when the call is over."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        super().__init__()
        self._html, self._next = HTML, 0.0
        self._handle = display(HTML(""), display_id=True)

    def draw(self, done: int, total: int, unit: str, note: str) -> None:
        text = html.escape(self.line(done, total, unit, note))
        if self.elapsed >= self._next:
            self._next = self.elapsed + REDRAWN
            self._handle.update(self._html(f'<progress value="{done}" max="{max(total, 1)}"></progress> {text}'))

    def close(self, keep: bool) -> None:
        self._handle.update(self._html(""))


class _Log(_Text):
    """Lines in a file, each after twice as long as the one before, up to one a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._next, self._last = FIRST_LINE, ""

    def draw(self, done: int, total: int, unit: str, note: str) -> None:
        self._last = self.line(done, total, unit, note)
        if self.elapsed >= self._next:
            print(self._last, file=sys.stderr, flush=True)
            self._next = self.elapsed + min(self.elapsed, LINE_SECONDS)

    def close(self, keep: bool) -> None:
        print(self._last, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _in_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False


def _in_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None
