"""The paths of a run's files, and their names in messages."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from .._base import checks
from .._base.system import fcntl

PARTS, TEMPORARY, BAD = ".parts", ".tmp", ".bad"
BESIDE = ".chains"
_SEGMENT, _STATE = re.compile(r"seg-(\d{8,})\.h5"), re.compile(r"state-(\d{8,})\.h5")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|(s3a?|gs|gcs|az|abfss?|adl|https?|s?ftp|hdfs|webdav|file):/")
_UNFINISHED = r"\.[0-9a-f]{16}\.tmp"
_OURS = re.compile(rf"(seg|state)-\d{{8,}}\.h5({_UNFINISHED}|\.tmp|\.bad(-\d+)?)?|merged\.h5{_UNFINISHED}")


class Names:
    """The paths of one run, made from ``run.h5`` or ``run.h5.parts``.

    Attributes
    ----------
    shown : str
        The run as the user wrote it, for messages, but for a ``~/``, which is the home folder.
    merged, parts, lock, beside : Path
        Absolute, so that a later change of the working folder does no harm; `beside` is the folder of the runs that it
        is joined from.
    unnamed : dict of int to (Path, int)
        Temporary name and descriptor of a segment that a writer is about to merge, and that bears no name of its own.
    fence : callable
        Called before a file gets its final name; raises StorageError where another writer has taken the run over.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = _checked(path).rstrip("/")
        if fcntl is None:  # no writer could keep others out
            raise checks.StorageError(
                f"{text!r}: this system has no file locks (fcntl), so that runs stay in memory: leave out `out` or "
                "use Linux, macOS or WSL."
            )
        text = os.path.expanduser(text) if text.startswith("~/") else text
        self.shown = text.removesuffix(PARTS) if text.endswith(PARTS) else text
        self.merged = Path(self.shown).absolute()
        self.parts = self.merged.with_name(self.merged.name + PARTS)
        self.lock = self.parts / "lock"
        self.beside = self.merged.with_name(self.merged.name + BESIDE)
        self.unnamed: dict[int, tuple[Path, int]] = {}
        self.fence: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, run: str | os.PathLike[str] | Names) -> Names:
        """Return the names of a run that is given by them or by its path."""
        return run if isinstance(run, Names) else cls(run)

    @cached_property
    def merged_temporary(self) -> Path:
        """The name of the merged file while it is written: among the parts, where only the lock's holder writes."""
        return unfinished(self.parts / "merged.h5")

    def segment(self, number: int) -> Path:
        """Return the path of a segment."""
        return self.unnamed[number][0] if number in self.unnamed else self.named(number)

    def named(self, number: int) -> Path:
        """Return the path of a segment that bears its final name."""
        return self.parts / f"seg-{number:08d}.h5"

    def state(self, number: int) -> Path:
        """Return the path of the state that belongs to a segment, where it is a file of its own."""
        return self.parts / f"state-{number:08d}.h5"

    def show(self, path: Path) -> str:
        """Return a file's name as messages give it: ``run.h5.parts/seg-00000012.h5``."""
        return f"{self.shown}{PARTS}/{path.name}" if path.parent == self.parts else self.shown

    def has_segments(self) -> bool:
        """Return whether there are segments; the folder is listed only where the first one is missing."""
        return self.segment(0).exists() or bool(self.segment_numbers())

    def segment_numbers(self) -> list[int]:
        """Return the numbers of all segments, in order."""
        return sorted([*self._numbers(_SEGMENT), *self.unnamed])

    def state_numbers(self) -> list[int]:
        """Return the numbers of all states that are files of their own, in order."""
        return self._numbers(_STATE)

    def own_files(self) -> list[Path]:
        """Return every file in the parts folder that is the store's, save the lock; the first segment comes last."""
        own = [self.parts / name for name in sorted(self._listing(), reverse=True) if is_own(name)]
        return sorted(own, key=lambda path: path == self.segment(0))

    def check_links(self) -> None:
        """Refuse links and special files among the parts: an archive may bring some, and they lead anywhere.

        Hard links are fine: a file that bears its final name is never written again, so a backup may share it.
        """
        try:
            with os.scandir(self.parts) as found:
                kinds = [(entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in found if is_odd(entry)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for name, mode in sorted(kinds):
            what = "is a link" if stat.S_ISLNK(mode) else "is no plain file"
            raise checks.StorageError(
                f"{self.shown}{PARTS}/{name} {what}, which fastbm never makes there. Nothing was changed. "
                f"Put the file itself in its place."
            )

    def temporaries(self) -> list[Path]:
        """Return the files that a killed writer may have left unfinished."""
        kept = [path for path, _ in self.unnamed.values()]
        return [path for path in self.own_files() if path.name.endswith(TEMPORARY) and path not in kept]

    def bad(self, path: Path) -> Path:
        """Return a free name under which a damaged file is set aside."""
        aside, n = path.with_name(path.name + BAD), 1
        while aside.exists():
            n += 1
            aside = path.with_name(f"{path.name}{BAD}-{n}")
        return aside

    def _numbers(self, kind: re.Pattern[str]) -> list[int]:
        found = [kind.fullmatch(name) for name in self._listing()]
        return sorted(int(match.group(1)) for match in found if match)

    def _listing(self) -> list[str]:
        try:
            return os.listdir(self.parts)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            if error.errno == errno.ELOOP:
                return []
            raise


def is_own(name: str) -> bool:
    """Return whether a file in the parts folder is the store's by its name, save the lock."""
    return _OURS.fullmatch(name) is not None


def of_campaign(argument: str, path: str | os.PathLike[str]) -> str:
    """Return what is wrong with the folder of a campaign where the file of a run is expected, and what takes it."""
    return (
        f"{argument} must be the file of a run; got {path}, which is the folder of a campaign. fastbm.open(FOLDER) "
        "reads it and has resume, retry and extend; on the command line fastbm status, show, table, plot, verify, "
        "resume, retry and extend take it."
    )


def unfinished(path: Path) -> Path:
    """Return a name, which nobody can guess, for a file while it is written."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")


def is_odd(entry: os.DirEntry[str]) -> bool:
    """Return whether a link or a special file bears a name of the store's."""
    plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    return not plain and is_own(entry.name)


def is_segment(name: str) -> bool:
    """Return whether a file bears the final name of a segment."""
    return _SEGMENT.fullmatch(name) is not None


def _checked(path: str | os.PathLike[str]) -> str:
    """Return the text of a path that names a file."""
    text = checks.path("path", path)
    if not text:
        raise ValueError("the path of the run is empty. Name a file, such as 'run.h5'.")
    if "\0" in text:
        raise ValueError(f"a run's path must not hold a zero character; got {text!r}.")
    if _URL.match(text):  # also with one slash, as pathlib writes them
        raise ValueError(
            f"{text!r} is a URL, and runs are local files. Write to a local path and copy the finished file there; "
            f"to read a run, copy it here first."
        )
    if text.rstrip("/").removesuffix(PARTS).rpartition("/")[2] in ("", ".", ".."):
        raise ValueError(f"{text!r} names a folder and no file. Name a file in it, such as 'run.h5'.")
    return text
