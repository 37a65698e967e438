"""The verb `campaign`: many runs as one, and what begins, continues and adds to it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._base import checks, threads as threads_module
from .._base.checks import Interrupted, StorageError
from .._base.files import is_campaign
from .._base.workers import check_executor
from ..runs.bar import check_progress, drawing
from ..runs.loop import Progress
from ..runs.stop import SIGNALS, Stop, stop_of
from ..runs.toml.text import read as read_file
from ..runs.workers.coordinator import IN_VAIN, Coordinator, Left
from ..runs.workers.jobs import Job, is_done
from ..runs.workers.processes import Pool
from . import grid
from .campaign import Campaign, open_campaign
from .generations import read_all
from .settled import jobs_of, settle
from .shard import is_finished, path_of
from .status import opened, way_to_begin

MOST_TEXTS = 3  # of shards that could not be done
PRELOADED = ("fastbm.campaigns.shard",)  # what workers share from before they are forked
_PART = re.compile(r"(\d+)/(\d+)")


@checks.named
def campaign(
    tables: Mapping[str, Any] | str | Path,
    *,
    out: str | Path | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    part: str | None = None,
    threads: int | None = None,
    max_seconds: float | None = None,
    exact: bool = True,
    progress: bool | Progress | None = None,
    stop: Stop | None = None,
) -> Campaign:
    """Run a grid of runs as one: each of them a cell, with a seed of its own.

    The same call goes on where one was stopped or killed, and computes the cells that a grid has more than before.
    Results depend on the tables alone: never on who computes them, how many, how fast, or what was killed on the way.

    Parameters
    ----------
    tables : mapping or path
        A TOML file, or what would stand in it: the tables of one run, and

        grid
            "table.key" and its values: a list, ``{"range": n}``, ``{"range": [from, to, step]}`` or ``{"linspace":
            [first, last, n]}``. All combinations are cells; lists that go together are in ``zip``.
        campaign
            `out`, the folder; `keep`: "summary" (a row of numbers for each cell) or "runs" (its file, too); `seed`, of
            which with a cell's keys its seed is made, or "common" where all have the same; `n_shards` (32): files of
            rows, and how many workers have work at most.
    out : path, optional
        The folder, in place of `campaign.out`.
    executor : concurrent.futures.Executor, optional
        Does the work: of processes, Dask, MPI; each worker a shard at a time.
    workers : int, optional
        Processes of our own; one that dies is replaced. A script that says so must guard its main part by
        ``if __name__ == "__main__":``.
    part : str, optional
        "k/n", k from 1: do a part of the shards, as one job of an array. `n` may differ from one submission to the
        next.
    threads : int, optional
        Of each cell: 1 in workers, all processors here, unless given.
    max_seconds : float, optional
        Stop then; the same call goes on.
    exact : bool
        Refuse other versions of fastbm, NumPy and Numba than those that the campaign was begun with; and but for
        `sample` another BLAS or other vectors of the processor.
    progress, stop
        As for `sample`.

    Returns
    -------
    Campaign
        `failed` says which cells failed, and why.

    Raises
    ------
    ValueError, TypeError
        For tables that are refused, before anything is computed.
    StorageError
        If the folder holds a campaign with other settings, or of files that have changed since; if a file that cells
        read is missing, or a shard cannot be written.
    Interrupted
        If it was stopped; its `run` is the campaign as far as it came.

    Examples
    --------
    >>> import tempfile
    >>> import fastbm as bm
    >>> tables = {
    ...     "model": {"name": "ising", "shape": [4, 4]},
    ...     "sample": {"n_sweeps": 50, "n_chains": 8},
    ...     "grid": {"sample.beta": [0.2, 0.4], "model.field": [0.0, 0.1]},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = bm.campaign(tables, out=folder, threads=1)
    ...     len(found.table)
    4
    """
    if not isinstance(tables, (Mapping, str, os.PathLike)):
        raise TypeError(f"tables must be a mapping or the path of a TOML file; got {tables!r}.")
    plan = grid.read(tables if isinstance(tables, Mapping) else read_file(tables))
    folder = folder_of(plan, out)
    if stop is None and max_seconds is None:
        max_seconds = plan.base.get("store", {}).get("max_seconds")
    options = _checked(executor, workers, part, threads, max_seconds, exact, progress, stop)
    settle(folder, plan, way_to_begin, exact=exact)
    return _go_on(folder, options)


def folder_of(plan: grid.Plan, out: str | Path | None) -> Path:
    """Return where a campaign goes."""
    if out is not None and not isinstance(out, (str, os.PathLike)):
        raise TypeError(f"out must be a path; got {out!r} ({type(out).__name__}).")
    if out is None and not plan.settings.out:
        raise ValueError("a campaign needs a folder: campaign.out, or out=...")
    folder = checks.place("campaign.out", plan.settings.out) if out is None else checks.place("out", out)
    if os.path.exists(folder) and not folder.is_dir():
        raise StorageError(f"{folder} is no folder. A campaign is one: name another.")
    return folder


def _checked(
    executor: Executor | None = None,
    workers: int | None = None,
    part: str | None = None,
    threads: int | None = None,
    max_seconds: float | None = None,
    exact: bool = True,
    progress: Any = None,
    stop: Stop | None = None,
) -> dict[str, Any]:
    """Check how a campaign goes on."""
    check_executor(executor)
    check_progress(progress)
    if executor is not None and workers is not None:
        raise ValueError("say executor or workers, not both.")
    workers = None if workers is None else checks.whole("workers", workers, least=1)
    threads = threads if threads is None else threads_module.resolve(threads)
    stop = stop_of(stop, SIGNALS)
    if max_seconds is not None:
        stop.limit(checks.real("max_seconds", max_seconds, least=0.0))
    return {
        "executor": executor, "workers": workers, "part": check_part(part), "threads": threads, "exact": exact,
        "progress": progress, "stop": stop,
    }  # fmt: skip


def check_part(part: Any) -> tuple[int, int] | None:
    """Read which part is to be done: k from 1, and how many there are."""
    if part is None:
        return None
    match = _PART.fullmatch(part) if isinstance(part, str) else None
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f'part must be "k/n", with k from 1 to n, such as "1/4"; got {part!r}.')
    return int(match[1]), int(match[2])


def _go_on(folder: Path, options: Mapping[str, Any]) -> Campaign:
    """Do the shards that are not finished, of this part."""
    stop, executor, workers = options["stop"], options["executor"], options["workers"]
    here = executor is None and workers is None
    with stop, stop.breaking(False):
        known = read_all(folder)
        paths = [(one, k) for one in known for k in range(len(one.shards))]
        mine = [place for i, place in enumerate(paths) if _is_mine(i, options["part"])]
        left = [(one, k) for one, k in mine if not is_finished(path_of(folder, one.number, k))]
        n_done = sum(one.shards[k] for one, k in mine) - sum(one.shards[k] for one, k in left)
        threads = options["threads"] if here or options["threads"] else 1
        jobs = jobs_of(folder, known, left, threads, options["exact"]) if left else []
        pool = Pool(min(workers, len(jobs)), PRELOADED) if workers and jobs else None
        try:
            result = _work(folder, jobs, n_done, pool or executor, options)
        except BrokenExecutor as error:
            text = f"stopped, as a worker of the executor died ({error}); what was committed is safe."
            raise Interrupted(text, open_campaign(folder)) from None
        finally:
            if pool is not None:
                pool.shutdown()
    undone = [job for job in jobs if not is_finished(Path(job.path))]
    return _ended(folder, result, stop, options["part"], undone, len(mine))


@dataclass
class _Tally:
    """How many cells are done, as a progress bar asks for it."""

    total: int
    n_done: int = 0
    within: int = 0  # of the shard that this process computes
    unit: str = "cell"
    atomic: bool = True

    @property
    def progress(self) -> tuple[int, int]:
        """Cells done, and cells in all."""
        return self.n_done + self.within, self.total

    @property
    def done(self) -> bool:
        """Whether all are done."""
        return self.n_done >= self.total


def _work(folder: Path, jobs: Sequence[Job], n_done: int, workers: Executor | None, options: Mapping[str, Any]) -> Left:
    """Do shards, here or by workers, and draw how many cells are done."""
    tally = _Tally(n_done + sum(job.size for job in jobs), n_done)
    with drawing(options["progress"], tally) as draw:  # type: ignore[arg-type]

        def show(within: int) -> None:
            before, tally.within, tally.n_done = tally.progress, within, n_done + coordinator.n_done
            if draw is not None and tally.progress != before:
                draw(tally, {})  # type: ignore[arg-type]

        coordinator = Coordinator(
            jobs, workers, options["stop"], folder.absolute(), lambda task, rows: show(task.progress[0]),
            patient=options["part"] is None,
        )  # fmt: skip
        for _ in coordinator.rounds():
            show(0)
    left = coordinator.left
    left.failed = [text.replace(IN_VAIN, f"{IN_VAIN} a cell") for text in left.failed]
    return left


def _is_mine(number: int, part: tuple[int, int] | None) -> bool:
    return part is None or number % part[1] == part[0] - 1


def _ended(folder: Path, left: Left, stop: Stop, part: Any, undone: Sequence[Job], n_shards: int) -> Campaign:
    found, n_left = open_campaign(folder), len(undone)
    if left.failed:
        texts = "; ".join(text.rstrip(".") for text in left.failed[:MOST_TEXTS])
        error = StorageError(f"{folder}: {texts}. Of {n_shards} shards {n_left} are left: mend this, then resume.")
        error.resumable = left.only_full
        raise error
    if n_left and stop.requested:
        text = f"stopped by {stop.requested} after cell {found.status.done} of {len(found)}; nothing is lost."
        raise Interrupted(text, found)
    if left.busy and part is None:
        raise Interrupted(f"{len(left.busy)} shards are being written by other processes.", found)
    busy = {job.path for job in left.busy}
    if lost := [job for job in undone if job.path not in busy and not is_done(job.path)]:
        raise _lost(folder, lost, n_shards)
    for _ in opened(folder, found.generations):  # what was there as a finished shard may be damaged, or another's
        pass
    return found


def _lost(folder: Path, lost: Sequence[Job], n_shards: int) -> StorageError:
    """Return the error for shards that workers have done, and that are not there."""
    n_cells = sum(job.size for job in lost)
    return StorageError(
        f"{folder}: {n_cells} cells are left, as {len(lost)} of {n_shards} shards are not here, though workers said "
        f"that they are done. They may lie on a disk of the workers, as {lost[0].path} there, or be seen late here. "
        "See to it that all processes see one file system, then resume."
    )


@checks.named
def open(path: str | Path, *, trust: bool = False) -> Any:
    """Open a run or a campaign, live or finished, for reading; it takes no lock.

    Parameters
    ----------
    path : path
        The file of a run, or the folder of a campaign.
    trust : bool
        Open also a file that has no seal, as another program has rewritten it: nothing of it is checked, and HDF5
        itself may fail at what is wrong in it. `Run.unchecked` and the summary tell of it.

    Returns
    -------
    Run or Campaign

    Raises
    ------
    StorageError
        If there is no such run, it is damaged, or it has no seal and is not trusted.
    """
    if isinstance(path, (str, os.PathLike)) and is_campaign(path):
        return open_campaign(path)
    from ..runs.begin import open as open_run

    return open_run(path, trust=trust)
