"""The points at which a disk may fail or a process die, by name, and what may happen at each."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from fastbm._base.checks import StorageError
from fastbm.store import is_there
from tests.store.crash.operations import Do, Operation, die, watching, write_half
from tests.store.crash.stories import STORIES, stage
from tests.support import crash

_PUBLISHED = {"create": "create", "write": "write", "sync": "sync", "close": "close", "rename": "rename"}
_FILES = ("first-segment", "segment", "state-file", "merge")

POINTS: dict[str, tuple[str, str]] = {  # name: operation, kind of file
    **{f"{file}-{name}": (operation, file) for file in _FILES for name, operation in _PUBLISHED.items()},
    "parts-create": ("make_folder", "parts"),
    "parts-folder-sync": ("sync_folder", "parts"),
    "folder-sync": ("sync_folder", "folder"),
    "first-segment-unlink": ("unlink", "first-segment"),
    "segment-unlink": ("unlink", "segment"),
    "state-file-unlink": ("unlink", "state-file"),
    "aside-unlink": ("unlink", "aside"),
    "merge-unlink": ("unlink", "merge"),
    "lock-unlink": ("unlink", "lock"),
    "parts-rmdir": ("remove_folder", "parts"),
    "set-aside": ("rename", "aside"),
}

# Where every fault is tried by default; at the others the process is killed, and all is tried in the slow form.
MAIN = (
    *(f"{file}-{name}" for file in ("segment", "merge") for name in ("create", "write", "sync", "rename")),
    "first-segment-write", "folder-sync",
)  # fmt: skip


def final_of(path: Path) -> Path:
    """The name that a file will bear when it is finished."""
    name = re.sub(r"(\.[0-9a-f]{16})?\.tmp$", "", path.name)
    return path.parent.with_suffix("") if name == "merged.h5" else path.with_name(name)


def kind_of(path: Path) -> str:
    """What a file of a run is, finished or under its temporary name."""
    name = final_of(path).name
    if name == "lock":
        return "lock"
    if name.endswith(".parts"):
        return "parts"
    if ".bad" in name:
        return "aside"
    if name.startswith("state-"):
        return "state-file"
    if name.startswith("seg-"):
        return "first-segment" if name == "seg-00000000.h5" else "segment"
    return "merge" if name.endswith(".h5") else "folder"


def point_of(operation: Operation) -> str:
    """The name of the point to which an operation belongs; "" if it has none."""
    what = (operation.name, kind_of(operation.path))
    return next((name for name, known in POINTS.items() if known == what), "")


@cache
def reached(name: str) -> tuple[str, ...]:
    """The point of every operation of a story, in order."""
    return tuple(point_of(operation) for operation in stage(name).operations)


def home_of(point: str) -> str:
    """The first story that comes to a point."""
    return next(name for name in STORIES if point in reached(name))


def _raise(code: int) -> Any:
    raise OSError(code, errno.errorcode[code])


WRITING = ("make_folder", "create", "write", "sync")  # what a disk without room refuses


def _kill(operation: Operation, do: Do, number: int) -> Any:
    return die() if operation.number == number else do(*operation.arguments)


def _fail(code: int) -> Callable[[Operation, Do, int], Any]:
    return lambda operation, do, number: _raise(code) if operation.number == number else do(*operation.arguments)


def _fail_for_good(operation: Operation, do: Do, number: int) -> Any:
    refused = operation.number == number or (operation.number > number and operation.name in WRITING)
    return _raise(errno.ENOSPC) if refused else do(*operation.arguments)


def _short_write(operation: Operation, do: Do, number: int) -> Any:
    return write_half(operation, do) if operation.number == number else do(*operation.arguments)


def _zero_write(operation: Operation, do: Do, number: int) -> Any:
    return 0 if operation.number == number else do(*operation.arguments)


FAULTS: dict[str, Callable[[Operation, Do, int], Any]] = {
    "kill": _kill,
    "ENOSPC once": _fail(errno.ENOSPC),
    "ENOSPC for good": _fail_for_good,
    "EIO": _fail(errno.EIO),
    "short write": _short_write,
    "zero write": _zero_write,
}
OF_WRITES = ("short write", "zero write")
# What a commit or a merge cannot do without; a fault there that is not told would be a promise broken.
VERDICTS = ("create", "write", "sync", "rename", "sync_folder")
WAYS_OUT = ("then resume", "begin it again", "cannot write")


def trial(name: str, path: Path, number: int, fault: str) -> None:
    """Let a fault happen at an operation of a story, tell the story again, and compare the end."""
    told, point = stage(name), reached(name)[number]
    told.set(path)

    def tell() -> None:
        with watching(lambda operation, do: FAULTS[fault](operation, do, number)):
            told.tell(path)

    if fault == "kill":
        assert crash.run_child(tell) < 0, f"{point} was not reached"
    elif fault == "short write":
        tell()
    else:
        try:
            tell()
        except StorageError as error:
            assert any(way_out in str(error) for way_out in WAYS_OUT), error
            if "then resume" in str(error):
                assert is_there(path), error
        else:
            assert POINTS[point][0] not in VERDICTS, f"nothing was said at {point}"
    if fault != "short write":
        told.tell(path)
    crash.assert_same_contents(told.whole, crash.contents_of(path))
    assert not path.with_name(path.name + ".parts").exists()


def applies(fault: str, point: str) -> bool:
    """Whether a fault can happen at a point."""
    return fault not in OF_WRITES or POINTS[point][0] == "write"
