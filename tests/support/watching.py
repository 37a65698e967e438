"""A run that goes on by one block whenever the one who watches it sleeps: no clock decides anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from fastbm.report.watch import screen
from fastbm.store.holder import myself

Begin = Callable[..., Any]


def parts_of(path: Path) -> Path:
    return path.with_name(path.name + ".parts")


def flip(path: Path) -> None:
    """Damage a file in its middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def hold(path: Path, **fields: Any) -> None:
    """Have the lock file say that this process, or another, writes the run."""
    holder = myself()
    for name, value in fields.items():
        object.__setattr__(holder, name, value)
    (parts_of(path) / "lock").write_text(holder.text)


def begun(begin: Begin, path: Path, n_blocks: int = 1) -> Path:
    """Begin a run, do some blocks, one to a commit, and leave it as if its writer were still at it."""
    begin(path, max_seconds=0.0, commit_seconds=0.0)
    for _ in range(n_blocks - 1):
        bm.resume(path, max_seconds=0.0)
    hold(path)
    return path


class Steps:
    """Takes the place of `time.sleep` in a watch; some calls do one block of a run each, the next all others.

    Attributes
    ----------
    n : int
        Calls so far.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, path: Path, then: Callable[[int], bool] = lambda n: True
    ) -> None:
        self.n, self._n_blocks, self._path, self._then = 0, 0, path, then
        monkeypatch.setattr(screen.time, "sleep", self)

    def __call__(self, seconds: float) -> None:
        self.n += 1
        assert self.n < 500, "the watch does not end"
        if self._then(self.n):
            self._n_blocks += 1
            bm.resume(self._path, max_seconds=0.0 if self._n_blocks < 5 else None)
            if parts_of(self._path).exists():
                hold(self._path)
