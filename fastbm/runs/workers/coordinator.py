"""The coordinator of jobs: hand them out, take back what became of them, and go on whatever dies."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..._base.workers import A_WORKER, CHECK_SECONDS, check_executor, n_workers
from ...store.holder import is_live
from ...store.names import Names, unfinished
from ..loop import Progress
from ..stop import Stop
from .jobs import BUSY, FAILED, FINISHED, STOPPED, Job, Outcome, do_job
from .processes import Pool, do_in_pool

MOST_TRIES = 2  # again, of jobs that could not be done where they were: file systems that are shared have moments
MOST_IN_VAIN = 3  # pools that broke one after the other with nothing done
BUSY_SECONDS = 5.0  # for which jobs are waited for that another process writes: one that was left may still commit
KILLED = "KilledWorker"  # Dask's word for a task whose workers died; each death is counted beside the job
IN_VAIN = "workers die before they begin"


@dataclass
class Left:
    """What was not done, and why.

    Attributes
    ----------
    busy : list of Job
        Those whose files other processes write.
    failed : list of str
        Why jobs, not what they compute, could not be done.
    only_full : bool
        Whether nothing but full disks made them fail.
    """

    busy: list[Job] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    only_full: bool = True


class Coordinator:
    """Does jobs, here or by workers, until all are done or a stop is asked for.

    Parameters
    ----------
    jobs : iterable of Job
    workers : Executor or None
        A `Pool` is rebuilt when it breaks; of others BrokenExecutor is raised.
    stop : Stop
    folder : path
        Where a file asks workers for a stop.
    within : function, optional
        Called after each block of a job that is done here, with its task and rows.
    patient : bool
        Whether jobs that other processes write are waited for a little.

    Attributes
    ----------
    n_done : int
        The sizes of the jobs that are done.
    left : Left
    """

    def __init__(
        self, jobs: Iterable[Job], workers: Executor | None, stop: Stop, folder: Path,
        within: Progress | None = None, *, patient: bool = True,
    ) -> None:  # fmt: skip
        check_executor(workers)
        self._queue, self._workers, self._stop, self._within = deque(jobs), workers, stop, within
        self._stop_file = unfinished(folder / "stop") if not isinstance(workers, (Pool, type(None))) else None
        self._patient = patient
        self._waiting: dict[Future[Outcome], Job] = {}
        self._in_vain, self._marks, self._n_sent = 0, -1, 0
        self._tries: Counter[str] = Counter()
        self.n_done, self.left = 0, Left()

    def rounds(self) -> Iterator[None]:
        """Do all jobs; pause now and then, so that it can be told how many are done.

        Where it is closed before its end jobs are left in order.
        """
        yield from self._all()
        until = time.monotonic() + BUSY_SECONDS
        while self.left.busy and self._patient and not self._stop.due() and time.monotonic() < until:
            time.sleep(CHECK_SECONDS)
            self._queue.extend(self.left.busy)
            self.left.busy.clear()
            yield from self._all()

    def _all(self) -> Iterator[None]:
        if self._workers is None:
            while self._queue and not self._stop.due():
                job = self._queue.popleft()
                self._take(job, do_job(job, self._stop, self._within))
                yield
            return
        try:
            yield from self._there(self._workers)
        finally:
            self._leave()

    def _there(self, workers: Executor) -> Iterator[None]:
        while (self._queue or self._waiting) and not self._stop.due():
            try:
                self._fill(workers)
            except BrokenExecutor as error:
                self._mend(workers, error)
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
                self._mend(workers, broken)
            yield

    def _fill(self, workers: Executor) -> None:
        function = do_in_pool if isinstance(workers, Pool) else do_job
        most = A_WORKER * n_workers(workers)
        stop_file = "" if self._stop_file is None else str(self._stop_file)
        while self._queue and len(self._waiting) < most:
            self._n_sent += 1  # Dask takes calls that are alike for one
            job = replace(self._queue[0], stop_file=stop_file, number=self._n_sent)
            self._waiting[workers.submit(function, job)] = self._queue.popleft()

    def _mend(self, workers: Executor, error: BaseException) -> None:
        """Put another pool in the place of one that broke; one that is not ours ends the work."""
        self._queue.extendleft(self._waiting.values())
        self._waiting.clear()
        if not isinstance(workers, Pool):
            raise BrokenExecutor(str(error))
        workers.renew()
        marks = self.n_done + sum(job.marks() for job in self._queue)
        self._in_vain = self._in_vain + 1 if marks == self._marks else 0
        self._marks = marks
        if self._in_vain >= MOST_IN_VAIN:
            self.left.failed.append(f"{IN_VAIN} ({error})")
            self.left.only_full = False
            self._queue.clear()

    def _take(self, job: Job, outcome: Outcome) -> None:
        if outcome.state == FINISHED:
            self.n_done += job.size
        elif outcome.state == BUSY:
            self.left.busy.append(job)
        elif outcome.state == STOPPED:  # by whoever stops a worker and not the whole
            self._queue.append(job)
        elif self._tries[job.path] < MOST_TRIES and self._workers is not None:  # another worker, another time
            self._tries[job.path] += 1
            self._queue.append(job)
        else:
            self.left.only_full &= outcome.full
            if outcome.text not in self.left.failed:
                self.left.failed.append(outcome.text)

    def _leave(self) -> None:
        """Leave no job waiting, and have those that are being done stop; what was cancelled may be among them."""
        left, stop_file = list(self._waiting.values()), self._stop_file
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
