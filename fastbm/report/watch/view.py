"""Look at a run from outside: how it stands, how far it is, how fast it goes, what it has found of late.

A look reads whole commits only and takes no lock; where nothing was committed since the last one it costs a few calls
of the file system.
"""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._base.checks import StorageError
from ...runs.begin import run_of
from ...runs.progress import COUNTERS, Progress, progress_of
from ...runs.run import Run
from ...runs.status import FINISHED, LIVE, Status, status_of
from ...store import Commit, Reader, commit_at, counters, last_commit, open_reader
from .series import Line, Recent

CHECK_EVERY = 20.0  # times as long as a check of all bytes takes, after damage was found
COMMITS_OF_RATE = 8  # the rate is that between the last commit and the one so many before it


@dataclass(frozen=True)
class View:
    """What one look at a run saw.

    Attributes
    ----------
    path, title, machine : str
        The run, what it does, and to what.
    standing : Standing
    progress : Progress
    commit : Commit
        The last one.
    rate : float or None
        Units of progress a second, between the last commits of the process that is at work.
    lines : list of Line
    """

    path: str
    title: str
    machine: str
    status: Status
    progress: Progress
    commit: Commit
    rate: float | None
    lines: list[Line]

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end, if it goes on like this; None where nothing tells."""
        if self.status.state != LIVE or not self.rate:
            return None
        left = (self.progress.total - self.progress.done) / self.rate
        return max(0.0, left - max(0.0, time.time() - self.commit.time))


class Watch:
    """A run that is looked at again and again.

    Parameters
    ----------
    path : str or path
    trust : bool
        Believe a file that has no seal.

    Raises
    ------
    StorageError
        If there is no such run; damage is told by `look`, as far as anything can be read.
    """

    def __init__(self, path: str | os.PathLike[str], *, trust: bool = False) -> None:
        self._path, self._trust, self._again = path, trust, 0.0
        self._begin(_open(path, trust))

    def _begin(self, reader: Reader) -> None:
        self._reader, self._run = reader, run_of(reader)
        self._recent = Recent(self._run, reader)
        self._run_id = reader.meta.get("run_id")
        self._past: deque[tuple[Commit, int]] = deque(maxlen=COMMITS_OF_RATE + 1)
        self._seen: Any = None
        self._current: View
        self._n_sums = _n_sums(reader)

    @property
    def run(self) -> Run:
        """The run that is looked at."""
        return self._run

    def view(self) -> View:
        """Return what there is to be seen; the same view as before, but for its standing, where nothing is new."""
        try:
            return self._read_current()
        except FileNotFoundError:  # the parts were merged during the look
            return self._read_current()
        except StorageError:
            started = time.monotonic()
            self._begin(open_reader(self._path, cut=True, trust=self._trust))
            self._again = time.monotonic() + CHECK_EVERY * (time.monotonic() - started)
            return self._read_current()

    def _read_current(self) -> View:
        reader = self._reader
        if not reader.damage:
            reader.refresh()
            if reader.meta.get("run_id") != self._run_id:  # it was replaced by another
                self._begin(reader)
        elif reader.live and time.monotonic() > self._again:  # what was damaged is computed again
            self._begin(_open(self._path, self._trust))
            return self._read_current()
        status = status_of(self._reader)
        at = last_commit(self._reader)
        if at != self._seen:
            self._current, self._seen = self._new_view(at), at
        self._current = replace(self._current, status=status)
        return self._current

    def _new_view(self, at: Commit) -> View:
        done, total, unit = self._progress(at)
        if self._reader.finished:
            total = done
        if not self._past:
            self._past.extend(self._before(at))
        if at.number >= 0:
            self._past.append((at, done))
        return View(
            path=self._reader.path,
            title=_title(self._run.config) + (" (no seal: nothing is checked)" if self._run.unchecked else ""),
            machine=_machine(self._run.config),
            status=Status(FINISHED, ""),
            progress=Progress(done, total, unit),
            commit=at,
            rate=self._rate(),
            lines=self._recent.lines(),
        )

    def _progress(self, at: Commit) -> Progress:
        return progress_of(self._run.config, counters(self._reader, at, COUNTERS), self._n_sums)

    def _before(self, at: Commit) -> list[tuple[Commit, int]]:
        """Return the commit from which the rate is measured at first: by this writer, with a state that is kept."""
        holder = self._reader.holder
        for back in (COMMITS_OF_RATE, 3, 1):
            if at.number < back or holder is None:
                continue
            try:
                earlier = commit_at(self._reader, at.number - back)
                if earlier.time >= holder.start:
                    return [(earlier, self._progress(earlier).done)]
            except OSError:  # states of their own are kept for the last commits only
                continue
        return []

    def _rate(self) -> float | None:
        holder = self._reader.holder
        past = [(at, done) for at, done in self._past if holder is not None and at.time >= holder.start]
        if len(past) < 2:
            return None
        (first, before), (last, done) = past[0], past[-1]
        seconds = last.time - first.time
        return (done - before) / seconds if seconds > 0.0 and done > before else None


def _open(path: str | os.PathLike[str], trust: bool) -> Reader:
    """Open a run; of one whose end is damaged what is whole."""
    try:
        return open_reader(path, trust=trust)
    except StorageError:
        return open_reader(path, cut=True, trust=trust)


def _n_sums(reader: Reader) -> int:
    """How many sums a run of `exact` does: one for each clamped pattern."""
    cells = reader.spec.get("cells", ())
    if len(cells) != 1 or cells[0].get("method") != "exact":
        return 1
    return len(np.atleast_2d(reader.inputs["clamp/values"])) if "clamp/values" in reader.inputs else 1


def _title(spec: dict[str, Any]) -> str:
    """Describe what the run does, in a few words."""
    if spec["kind"] == "sample":
        settings = spec["sample"]
        words = [settings["sampler"], *([settings["rule"]] if settings.get("rule") not in ("", None) else [])]
        return f"sample: {', '.join(dict.fromkeys(words))}, {settings['n_chains']} chains"
    if spec["kind"] == "fit":
        settings = spec["fit"]
        return f"fit: {settings['method']}, {settings['optimizer']}"
    methods = list(dict.fromkeys(str(cell.get("rule") or cell["method"]) for cell in spec["cells"]))
    return f"{spec['kind']}: {methods[0] if len(methods) == 1 else f'{len(methods)} methods'}"


def _machine(spec: dict[str, Any]) -> str:
    """Describe the machine, or how many there are."""
    models = [spec["model"]] if "model" in spec else spec["models"]
    if len(models) > 1:
        return f"{len(models)} machines"
    about = models[0]
    name = (about.get("origin") or {}).get("name", "")
    size = "-".join(map(str, about["sizes"]))
    return f"{name}{', ' if name else ''}{size} {about['units']} units, {about['kind']}"
