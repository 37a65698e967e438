"""The status of a run: live, finished, stopped, silent on another host, or damaged; in words, with the way out."""

from __future__ import annotations

import time
from typing import NamedTuple

from .._base.shown import shell_word
from ..store import Reader, last_commit

LIVE, SILENT, STOPPED, FINISHED, DAMAGED = "live", "silent", "stopped", "finished", "damaged"
_SPANS = ((1.0, 120, "s"), (60.0, 120, "min"), (3600.0, 48, "h"), (86400.0, 1 << 60, "days"))


class Status(NamedTuple):
    """The status of a run in one word, a text about it, and the command that continues the run, where one would."""

    state: str
    text: str
    command: str = ""


def status_of(reader: Reader) -> Status:
    """Return the status of a run, without taking its lock."""
    found = _status(reader)
    if found.state != STOPPED or reader.damage:
        return found
    reader.refresh()  # the writer may have made its last commits, and left, since the reader looked
    return _status(reader)


def _status(reader: Reader) -> Status:
    if reader.damage:
        return Status(DAMAGED, reader.damage, f"fastbm resume {shell_word(reader.path)}")
    if reader.finished:
        return _finished(reader)
    holder, resume = reader.holder, f"fastbm resume {shell_word(reader.path)}"
    commit = f"last commit {ago(last_commit(reader).time)}"
    if holder is None:
        return Status(STOPPED, commit, resume)
    alive = holder.alive
    if alive:
        return Status(LIVE, f"{holder}; {commit}")
    if alive is None and reader.live:
        return Status(LIVE, f"{holder}, not to be seen from here; {commit}")
    if alive is None:
        return Status(SILENT, f"{holder}, not to be seen from here; {commit}. If it has ended, go on", resume)
    return Status(STOPPED, f"{commit}; pid {holder.pid} on {holder.host} is gone", resume)


def ago(when: float) -> str:
    """Return how long ago a time of day is, as text: "12 s ago"."""
    return f"{span(max(0.0, time.time() - when))} ago"


def span(seconds: float) -> str:
    """Return a time as text in the largest unit that suits it: "12 s", "34 min", "5 h", "3 days"."""
    unit, _, word = next(row for row in _SPANS if seconds / row[0] < row[1])
    return f"{seconds / unit:.0f} {word}"


def _finished(reader: Reader) -> Status:
    number = last_commit(reader).number
    if number < 0:
        return Status(FINISHED, "one file")
    if reader.live:
        return Status(FINISHED, f"{number + 1} files; {reader.holder} is still at it")
    return Status(FINISHED, f"{number + 1} files, to be made one", f"fastbm merge {shell_word(reader.path)}")
