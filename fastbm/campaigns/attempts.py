"""Which cell of a shard is being computed, written down before it is begun: one that kills its worker is found by it.

The text beside a shard has a line for each beginning of a process and of a cell; that of a cell says how far its own
run had come, so that deaths between which it got further are told apart. None of it is synced: it tells of processes
that die, and after a power cut there is no one to blame.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

MOST_DEATHS = 3  # of workers at one cell that comes no further
STARTED, LEFT = "started", "left"
DIED = (
    "its worker died {n} times while it was computed, and it came no further: it may need more memory than there is, "
    "or more time than a job has. `fastbm retry` computes it again."
)


class Attempts:
    """The deaths of workers at the cells of a shard.

    Parameters
    ----------
    shard : path
        The shard's file; the text lies beside it.
    """

    _handle = -1

    def __init__(self, shard: str | os.PathLike[str]) -> None:
        self._path = path_of(shard)
        self.deaths = read(self._path)
        self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._note(STARTED)

    def begin(self, cell: str) -> bool:
        """Note that a cell is begun; return False, and note nothing, where it has killed its workers.

        `cell` is its id, and the last commit of its run where it has a file.
        """
        if self.deaths[cell] >= MOST_DEATHS:
            return False
        self._note(cell)
        return True

    def leave(self) -> None:
        """Note that the process leaves the shard in order, where the disk lets it."""
        with suppress(OSError):
            self._note(LEFT)

    def end(self) -> None:
        """Take the text away: no cell is left that may kill anyone."""
        self._close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _note(self, text: str) -> None:
        if self._handle >= 0:
            os.write(self._handle, f"{text}\n".encode())

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def __del__(self) -> None:
        self._close()


def path_of(shard: str | os.PathLike[str]) -> Path:
    """Return where the attempts at a shard are written."""
    return Path(f"{os.fspath(shard)}.attempts")


def read(path: Path) -> Counter[str]:
    """Return how many processes have died at each cell as it then was: those whose line another beginning follows."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return Counter()
    followed = zip(lines, [*lines[1:], STARTED], strict=False)  # none of a file that a full disk left empty
    return Counter(line for line, after in followed if after == STARTED and line not in (STARTED, LEFT))
