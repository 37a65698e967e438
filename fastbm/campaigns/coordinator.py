"""The coordinator of a campaign: hand out shards, take back what became of them, and go on whatever dies."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._base.checks import Interrupted
from .._base.workers import A_WORKER, CHECK_SECONDS, check_executor, n_workers
from ..runs.bar import drawing
from ..runs.stop import Stop
from ..store.holder import is_live
from ..store.names import Names, unfinished
from . import attempts
from .pool import Pool, do_in_pool
from .shard import BUSY, FAILED, FINISHED, STOPPED, Job, Outcome, do_shard

MOST_TRIES = 2  # again, of shards that could not be done where they were: file systems that are shared have moments
MOST_IN_VAIN = 3  # pools that broke one after the other with nothing done
BUSY_SECONDS = 5.0  # for which shards are waited for that another process writes: one that was left may still commit
KILLED = "KilledWorker"  # Dask's word for a task whose workers died; each death is counted beside the shard


@dataclass
class Tally:
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


@dataclass
class Left:
    """What was not done, and why.

    Attributes
    ----------
    busy : list of Job
        Shards that other processes write.
    failed : list of str
        Why shards, not cells, could not be done.
    """

    busy: list[Job] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def work(
    jobs: Iterable[Job],
    n_done: int,
    workers: Executor | Pool | None,
    stop: Stop,
    progress: Any = None,
    *,
    patient: bool = True,
) -> Left:
    """Do shards, here or by workers, until all are done or a stop is asked for.

    Parameters
    ----------
    jobs : iterable of Job
    n_done : int
        Cells that were done before.
    workers : Executor, Pool or None
    stop : Stop
    progress : bool, function or None
        As for `sample`.
    patient : bool
        Whether shards that other processes write are waited for a little.
    """
    jobs = list(jobs)
    tally = Tally(n_done + sum(job.n_cells for job in jobs), n_done)
    with drawing(progress, tally) as draw:  # type: ignore[arg-type]
        coordinator = _Coordinator(jobs, workers, stop, tally, draw)
        coordinator.run()
        until = time.monotonic() + BUSY_SECONDS
        while coordinator.left.busy and patient and not stop.due() and time.monotonic() < until:
            time.sleep(CHECK_SECONDS)
            coordinator.again()
        return coordinator.left


class _Coordinator:
    def __init__(
        self, jobs: list[Job], workers: Executor | Pool | None, stop: Stop, tally: Tally,
        draw: Callable[[Any, Mapping[str, Any]], None] | None,
    ) -> None:  # fmt: skip
        self._queue, self._workers, self._stop, self._tally, self._draw = deque(jobs), workers, stop, tally, draw
        self._waiting: dict[Future[Outcome], Job] = {}
        self._in_vain, self._marks, self._n_sent = 0, -1, 0
        self._tries: Counter[str] = Counter()
        self.left = Left()

    def run(self) -> None:
        """Do all that is in the queue."""
        if self._workers is None:
            self._run_here()
        else:
            check_executor(self._executor)
            stop_file = self._stop_file() if not isinstance(self._workers, Pool) else None
            try:
                self._run_there("" if stop_file is None else str(stop_file))
            finally:
                self._leave(stop_file)

    def again(self) -> None:
        """Try shards again that other processes were writing."""
        self._queue.extend(self.left.busy)
        self.left.busy.clear()
        self.run()

    def _run_here(self) -> None:
        while self._queue and not self._stop.due():
            job = self._queue.popleft()
            self._take(job, do_shard(job, self._stop, self._within))

    def _within(self, task: Any, rows: Mapping[str, Any]) -> None:
        self._tally.within = task.progress[0]
        self._show()

    def _show(self) -> None:
        if self._draw is not None:
            self._draw(self._tally, {})

    @property
    def _executor(self) -> Executor:
        assert self._workers is not None
        return self._workers.executor if isinstance(self._workers, Pool) else self._workers

    def _run_there(self, stop_file: str) -> None:
        while (self._queue or self._waiting) and not self._stop.due():
            try:
                self._fill(stop_file)
            except BrokenExecutor as error:
                self._mend(error)
                continue
            done, _ = wait(self._waiting, timeout=CHECK_SECONDS, return_when=FIRST_COMPLETED)
            broken: BaseException | None = None
            for future in done:
                job, raised = self._waiting.pop(future), future.exception()
                if isinstance(raised, BrokenExecutor) or type(raised).__name__ == KILLED:
                    self._queue.appendleft(job)
                    broken = raised if isinstance(raised, BrokenExecutor) else broken
                elif raised is not None:
                    self._take(job, Outcome(FAILED, f"{type(raised).__name__}: {raised}"))
                else:
                    self._take(job, future.result())
            if broken is not None:
                self._mend(broken)

    def _fill(self, stop_file: str) -> None:
        function = do_in_pool if isinstance(self._workers, Pool) else do_shard
        most = A_WORKER * n_workers(self._executor)
        while self._queue and len(self._waiting) < most:
            self._n_sent += 1  # Dask takes calls that are alike for one
            job = replace(self._queue[0], stop_file=stop_file, number=self._n_sent)
            self._waiting[self._executor.submit(function, job)] = self._queue.popleft()

    def _mend(self, error: BaseException) -> None:
        """Put another pool in the place of one that broke; one that is not ours ends the work."""
        self._queue.extendleft(self._waiting.values())
        self._waiting.clear()
        if not isinstance(self._workers, Pool):
            raise Interrupted(f"stopped, as a worker of the executor died ({error}); what was committed is safe.")
        self._workers.renew()
        marks = self._tally.n_done + sum(sum(attempts.read(attempts.path_of(job.path)).values()) for job in self._queue)
        self._in_vain = self._in_vain + 1 if marks == self._marks else 0
        self._marks = marks
        if self._in_vain >= MOST_IN_VAIN:
            self.left.failed.append(f"workers die before they begin a cell ({error})")
            self._queue.clear()

    def _take(self, job: Job, outcome: Outcome) -> None:
        self._tally.within = 0
        if outcome.state == FINISHED:
            self._tally.n_done += job.n_cells
        elif outcome.state == BUSY:
            self.left.busy.append(job)
        elif outcome.state == STOPPED:  # by whoever stops a worker and not the campaign
            self._queue.append(job)
        elif self._tries[job.path] < MOST_TRIES and self._workers is not None:  # another worker, another time
            self._tries[job.path] += 1
            self._queue.append(job)
        elif outcome.text not in self.left.failed:
            self.left.failed.append(outcome.text)
        self._show()

    def _stop_file(self) -> Path | None:
        """Return a file that asks workers for a stop once it is there."""
        job = next(iter(self._queue), None)
        return None if job is None else unfinished(Path(job.path).parents[1] / "stop")

    def _leave(self, stop_file: Path | None) -> None:
        """Leave no shard waiting, and have those that are being computed stop; what was cancelled may be among them."""
        left = list(self._waiting.values())
        if left and stop_file is not None:
            with suppress(OSError):
                stop_file.touch()
        for future in self._waiting:
            future.cancel()
        self._waiting.clear()
        if left and stop_file is not None:
            until = time.monotonic() + BUSY_SECONDS
            while (busy := any(is_live(Names(job.path)) for job in left)) and time.monotonic() < until:
                time.sleep(CHECK_SECONDS)
            if not busy:
                stop_file.unlink(missing_ok=True)
