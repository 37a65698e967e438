"""A shim under the store: see every file operation, and kill, refuse or record any of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastbm.store import disk
from tests.support import crash

Do = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """One file operation before it is done.

    Attributes
    ----------
    number : int
        Its place in the row of all operations.
    name : str
        Out of `fastbm.store.disk.OPERATIONS`.
    path : Path
        The file or folder that it changes; of a rename the new name.
    arguments : tuple
    """

    number: int
    name: str
    path: Path
    arguments: tuple[Any, ...]


Act = Callable[[Operation, Do], Any]
Mutant = Callable[[str, Path, Callable[[], Any]], Any]
_mutants: list[Mutant] = []


@contextmanager
def mutant(change: Mutant) -> Iterator[None]:
    """Let the store be wrong: ``change(name, path, go)`` is called in the place of each operation, which is `go`."""
    _mutants.append(change)
    try:
        yield
    finally:
        _mutants.remove(change)


def mutate(name: str, path: Path, go: Callable[[], Any]) -> Any:
    """Do an operation as the mutant would, where there is one."""
    return _mutants[-1](name, path, go) if _mutants else go()


@contextmanager
def watching(act: Act) -> Iterator[list[Operation]]:
    """Call ``act(operation, do)`` in the place of every file operation; yield the list of those so far.

    ``do(*operation.arguments)`` does it. What `act` returns is what the store sees.
    """
    originals = {name: getattr(disk, name) for name in disk.OPERATIONS}
    seen: list[Operation] = []
    handles: dict[int, Path] = {}

    def shim(name: str) -> Do:
        def operation(*arguments: Any) -> Any:
            target = arguments[1 if name == "rename" else 0]

            def go() -> Any:
                path = handles[target] if isinstance(target, int) else Path(target)
                seen.append(Operation(len(seen), name, path, arguments))
                result = act(seen[-1], originals[name])
                if name == "create":
                    handles[result] = path
                if name == "rename":
                    handles.update({handle: path for handle, old in handles.items() if old == Path(arguments[0])})
                return result

            return mutate(name, handles[target] if isinstance(target, int) else Path(target), go)

        return operation

    for name in originals:
        setattr(disk, name, shim(name))
    try:
        yield seen
    finally:
        for name, original in originals.items():
            setattr(disk, name, original)


def do_it(operation: Operation, do: Do) -> Any:
    """Do an operation as if nobody watched."""
    return do(*operation.arguments)


def operations_of(work: Callable[[], None]) -> list[Operation]:
    """Do `work` here and return its file operations in order."""
    with watching(do_it) as seen:
        work()
    return seen


def die() -> None:
    """End this process as SIGKILL does: nothing is flushed, closed or told."""
    os.kill(os.getpid(), signal.SIGKILL)


def write_half(operation: Operation, do: Do) -> int:
    """Write the first half of what is to be written; return how much that was."""
    handle, data, offset = operation.arguments
    return int(do(handle, data[: (len(data) + 1) // 2], offset))


def kill_at(work: Callable[[], None], number: int, *, torn: bool = False) -> int:
    """Do `work` in a child that kills itself before operation `number`, with `torn` in the middle of a write."""

    def act(operation: Operation, do: Do) -> Any:
        if operation.number == number:
            if torn and operation.name == "write":
                write_half(operation, do)
            die()
        return do(*operation.arguments)

    def child() -> None:
        with watching(act):
            work()

    return crash.run_child(child)
