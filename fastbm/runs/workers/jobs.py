"""What is handed to workers: a run with a file that is to be brought to its end, from wherever it is."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

from ..._base.checks import Interrupted, StorageError, TakenRun, is_full
from ...store import is_there, open_reader
from ...store.holder import is_live
from ...store.names import Names
from ..loop import Progress
from ..stop import SIGNALS, Stop

FINISHED, STOPPED, BUSY, FAILED = "finished", "stopped", "busy", "failed"
LOOK_SECONDS = 1.0  # between two looks for a stop that is asked for by a file


@dataclass(frozen=True)
class Outcome:
    """How a worker left a run: "finished", "stopped", "busy" (another process writes it) or "failed", and why.

    `full` says whether it failed as a disk was full.
    """

    state: str
    text: str = ""
    full: bool = False


@dataclass(frozen=True)
class Job:
    """The base of what a worker does.

    Attributes
    ----------
    path : str
        The file of the run.
    size : int
        How much it counts in a progress bar.
    stop_file : str
        What asks for a stop by being there.
    number : int
        How many were sent before.
    """

    path: str
    size: int
    stop_file: str = ""
    number: int = 0

    def bring_to_end(self, stop: Stop, progress: Progress | None) -> None:
        """Begin the run, or go on with it; raise `Interrupted` where it was stopped."""
        raise NotImplementedError

    def refusal(self) -> str:
        """Return why this process cannot do it; empty if it can."""
        return ""

    def marks(self) -> int:
        """Return a number that rises as the run comes on, whatever becomes of workers."""
        return len(Names(self.path).segment_numbers())


def do_job(job: Job, stop: Stop | None = None, progress: Progress | None = None) -> Outcome:
    """Bring a run to its end, or to a stop."""
    if text := job.refusal():
        return Outcome(FAILED, text)
    stop = PatientStop(job.stop_file) if stop is None else stop
    if stop.due():
        return Outcome(STOPPED)
    try:
        with stop:
            job.bring_to_end(stop, progress)
    except Interrupted as stopped:
        return Outcome(FINISHED if is_done(job.path) else STOPPED, stopped.reason)
    except StorageError as error:
        if is_done(job.path):  # by another process, in between
            return Outcome(FINISHED)
        if isinstance(error, TakenRun) or is_live(Names(job.path)):
            return Outcome(BUSY, str(error))
        return Outcome(FAILED, str(error), is_full(error))
    except OSError as error:  # of a disk, in what lies beside the run
        return Outcome(FAILED, f"{error.filename or job.path}: {error.strerror or error}.", is_full(error))
    return Outcome(FINISHED)


def is_done(path: str) -> bool:
    """Return whether a run is there and finished, in one file or in parts."""
    with suppress(StorageError):
        return is_there(path) and open_reader(path).finished
    return False


class PatientStop(Stop):
    """A stop that a worker listens to: signals after the first change nothing, and a file asks for it as well.

    Who ends a worker may do so twice, and what is being committed then is not to be lost.
    """

    def __init__(self, file: str) -> None:
        super().__init__(SIGNALS)
        self._file, self._next_look = file, 0.0

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            super()._note(number, frame)
            self._listen(number, self._ignore)

    def _ignore(self, number: int, frame: FrameType | None) -> None:
        pass

    def asked(self) -> bool:
        """Return whether a stop is asked for."""
        if not self.requested and self._file and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SECONDS
            if os.path.exists(self._file):
                self.requested = "the coordinator"
        return super().asked()

    def due(self) -> bool:
        """Return whether a stop is asked for, or the time is over."""
        return self.asked() or super().due()
