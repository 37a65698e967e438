"""A run as it goes on, drawn in the terminal again and again; as plain lines where it is none."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..._base.shown import printable
from ...runs.status import DAMAGED, FINISHED, LIVE, SILENT, STOPPED, span
from ...store import is_there
from ..tables import show
from .view import View, Watch

BARS, ASCII_BARS = "▁▂▃▄▅▆▇█", "_.-=+*%#"
LABEL, BAR, LONGEST_SPARK, FREE = 11, 16, 60, 3  # columns; the free ones at the edge are for an echoed ^C
COLOURS = {LIVE: "green", FINISHED: "bold green", STOPPED: "yellow", SILENT: "yellow", DAMAGED: "red"}
CODES = {LIVE: 0, SILENT: 0, FINISHED: 0, STOPPED: 3, DAMAGED: 1}
ENDS = (FINISHED, STOPPED, DAMAGED)
OF_LINE = ("energy", "r_hat", "log-likelihood", "pseudo-likelihood", "moment-error", "last")  # told in plain lines


def watch(out: Path, *, every: float, wait: float, once: bool, trust: bool = False) -> int:
    """Show a run until it ends, and its summary if it is finished; return the exit code: 0, 3 stopped, 1 damaged.

    `wait` is for how many seconds a run that is not there yet is waited for.
    """
    console = Console(highlight=False)
    try:
        _await(out, wait)
        seen = Watch(out, trust=trust)
        view = seen.view()
        if once:
            console.print(drawn(view, console))
            return CODES[view.status.state]
        view = (_live if console.is_terminal else _lines)(seen, console, every)
    except KeyboardInterrupt:
        return 0
    if view.status.state == FINISHED:
        console.print()
        show(out)
    return CODES[view.status.state]


def _await(out: Path, seconds: float) -> None:
    """Return when the run is there, or the time is over."""
    deadline = time.monotonic() + seconds
    while not is_there(out) and time.monotonic() < deadline:
        time.sleep(min(0.2, max(0.0, deadline - time.monotonic())))


def _live(seen: Watch, console: Console, every: float) -> View:
    """Draw the view again and again in its place."""
    view = seen.view()
    drawing = Live(drawn(view, console), console=console, auto_refresh=False, vertical_overflow="crop")
    with _signals_wait(), drawing as live:
        while view.status.state not in ENDS:
            time.sleep(every)
            view = seen.view()
            live.update(drawn(view, console), refresh=True)
    return view


@contextmanager
def _signals_wait() -> Iterator[None]:
    """SIGTERM and SIGHUP end the process as they would have, but first what is within gives the cursor back."""
    came: list[int] = []

    def leave(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    heard = []
    if threading.current_thread() is threading.main_thread():
        heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)
        if came:
            signal.raise_signal(came[0])


def _lines(seen: Watch, console: Console, every: float) -> View:
    """Print one line for every change."""
    shown = None
    while True:
        view = seen.view()
        if (key := (view.status.state, view.commit)) != shown:
            console.print(in_one_line(view), markup=False, soft_wrap=True)
            shown = key
        if view.status.state in ENDS:
            return view
        time.sleep(every)


def drawn(view: View, console: Console) -> RenderableType:
    """Draw the whole view, in the width of the console."""
    label = max([LABEL, *(len(line.label) for line in view.lines)])
    table = Table.grid(padding=(0, 1))
    table.add_column(style="bold", no_wrap=True, min_width=label)
    table.add_column(overflow="fold")
    table.add_row("run", Text(printable(view.path)))
    table.add_row("", Text(f"{view.title}; {view.machine}"))
    state = view.status.state
    table.add_row(Text(state, style=COLOURS[state]), Text(view.status.text))
    if view.status.command:
        table.add_row("go on with", Text(view.status.command))
    table.add_row(view.progress.unit.split()[-1] + ("s" if view.progress.unit != "part of the way" else ""), _bar(view))
    for line in view.lines:
        table.add_row(line.label, Text(line.text))
        if line.values is not None and len(line.values) > 1:
            width = max(8, min(LONGEST_SPARK, console.width - label - FREE - 2))
            table.add_row("", Text(spark(line.values, width, ascii_only=console.options.ascii_only), style="cyan"))
    return Constrain(table, max(console.width - FREE, 20))


def _bar(view: View) -> RenderableType:
    done, total, _ = view.progress
    row = Table.grid(padding=(0, 1))
    row.add_column(width=BAR)
    row.add_column(overflow="fold")
    row.add_row(ProgressBar(total=max(total, 1), completed=done, width=BAR), Text(how_far(view)))
    return row


def how_far(view: View) -> str:
    """Say count, part, rate and time left, as far as they are known."""
    done, total, unit = view.progress
    percent = f"{100.0 * done / max(total, 1):.1f} %"
    words = [percent if unit == "part of the way" else f"{done} of {total}, {percent}"]
    if view.rate and view.status.state == LIVE:
        words.append(_rate(view.rate, unit))
    if view.seconds_left is not None:
        words.append(f"{span(view.seconds_left)} left")
    return ", ".join(words)


def _rate(rate: float, unit: str) -> str:
    if unit == "part of the way":
        return f"{_short(6.0 * rate)} %/min"  # of thousandths
    per, word = next(
        (per, word) for per, word in ((1.0, "s"), (60.0, "min"), (3600.0, "h")) if per * rate >= 1.0 or per > 60.0
    )
    return f"{_short(per * rate)}/{word}"


def _short(value: float) -> str:
    """Three digits that count, and no exponent."""
    return np.format_float_positional(float(f"{value:.3g}"), trim="-")


def in_one_line(view: View) -> str:
    """Say what there is to say, in one plain line with the time before it."""
    said = [f"{line.label} {line.text}" for line in view.lines if line.label in OF_LINE]
    state, text, command = view.status
    what = f"{state}: {text.rstrip('.')}" if state in (STOPPED, SILENT, DAMAGED) else state
    what += f". Go on with: {command}" if command and state != FINISHED else ""
    unit = "" if view.progress.unit == "part of the way" else f"{view.progress.unit}s "
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    return "; ".join([f"{now} {printable(view.path)} {what}", f"{unit}{how_far(view)}", *said])


def spark(values: np.ndarray, width: int, *, ascii_only: bool = False) -> str:
    """Draw numbers as a row of bars, at most `width`, means of even pieces, between the least and the largest."""
    n = min(len(values), width)
    edges = np.linspace(0, len(values), n + 1).astype(int)
    means = np.array([values[a:b].mean() for a, b in itertools.pairwise(edges)])
    known = means[np.isfinite(means)]
    if not len(known):
        return ""
    low, reach = known.min(), np.ptp(known) or 1.0
    bars = ASCII_BARS if ascii_only else BARS
    heights = np.where(np.isfinite(means), (means - low) / reach * (len(bars) - 1) + 0.5, -1.0).astype(int)
    return "".join(bars[h] if h >= 0 else " " for h in heights)
