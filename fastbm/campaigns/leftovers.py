"""Runs of cells that were left in parts: as a disk was full, or as a kill came while they were merged."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path

from .._base.checks import StorageError, warn
from ..runs.begin import open as open_run, resume
from ..runs.stop import Stop


def tidy(folder: Path, stop: Stop | None = None) -> None:
    """Merge the runs of cells in a campaign's folder that are finished and were to be merged.

    Only those in parts are opened. Left alone are those that another process writes, and damaged ones, which `verify`
    tells of.

    Warns
    -----
    UserWarning
        If some stay in parts, with how many, and why the first of them does.
    """
    reasons = []
    for parts in sorted((folder / "cells").glob("*.parts")):
        if stop is not None and stop.due():
            return
        with suppress(StorageError), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if open_run(parts).finished:  # those that were not to be merged stay as they are
                resume(parts, progress=False, stop=stop)
        if parts.exists():
            reasons += [str(one.message) for one in caught[-1:]]
    if reasons:
        warn(f"{len(reasons)} runs of cells were not merged: {reasons[0]}", UserWarning)
