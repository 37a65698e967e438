"""Compiled kernels on disk: one sealed file for each kernel and signature, keyed by all that its code depends on.

A file's name holds the sources of the kernel's module and of the modules that it imports, the processor with its
features, and the versions of Python, Numba and llvmlite; so an edit sends to the compiler what it touches, and machines
with other processors share a folder. A file is written aside and renamed, and starts with a checksum: what was cut off,
or is damaged, is dropped and compiled again. One process compiles a module's kernels at a time, others wait for it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import platform
import re
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
MAGIC = b"fastbm kernel 1\n"
DIGEST = 32  # bytes of a sha256
MOST_KEPT = 64  # files of one kernel: signatures, processors, versions of its source
LONGEST_WAIT = 300.0  # seconds for another process to compile; then this one does it itself
POLL = 0.02
FOREIGN_WRITERS = stat.S_IWGRP | stat.S_IWOTH
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(\((?:[^)#]|#[^\n]*)*\)|[^\n(]+)|import[ \t]+([^\n]+))",
    re.MULTILINE,
)
_COMMENT = re.compile(rb"#[^\n]*")

_log = logging.getLogger("fastbm")


_silent = 0  # calls that are to show nothing


@contextmanager
def silent(wanted: bool) -> Iterator[None]:
    """Announce no compiling meanwhile, in any thread, if `wanted`."""
    global _silent
    _silent += wanted
    try:
        yield
    finally:
        _silent -= wanted


def _announce() -> None:
    """Say why nothing happens for some seconds, where somebody looks on and wants to know."""
    if not _silent and sys.stderr is not None and sys.stderr.isatty():
        _print_once()


@cache
def _print_once() -> None:
    print("fastbm: compiling kernels, once: about 5 s; `fastbm warmup` does all beforehand", file=sys.stderr)


@cache
def _say_unwritten(folder: str, why: str) -> None:
    """Say once for all kernels that they will be compiled again."""
    _log.warning("fastbm: compiled code cannot be written to %s (%s): every process compiles anew", folder, why)


@cache
def called(path: Path) -> frozenset[Path]:
    """Return a file of kernels and all those that it imports, whose code its own may hold."""
    found = {path}
    for file in _source(path)[1] - found:
        found |= called(file)
    return frozenset(found)


@cache
def _source(path: Path) -> tuple[bytes, frozenset[Path]]:
    """Return the hash of a file, and the files of kernels that its imports, which stand on lines of their own, name.

    To have Python parse it would take longer than all else that finds a kernel.
    """
    text, found = path.read_bytes(), set()
    for dots, module, names, modules in _IMPORT.findall(text):
        base = path.parents[len(dots) - 1] if dots else PACKAGE.parents[1]
        base = base.joinpath(*module.decode().split("."))
        for name in [""] * bool(names) + re.findall(r"[\w.]+", _COMMENT.sub(b"", names or modules).decode()):
            other = base.joinpath(*name.split("."))
            found |= {other.with_suffix(".py"), other / "__init__.py"}
    kernels = frozenset(file for file in found if PACKAGE in file.parents and file.is_file())
    return hashlib.sha256(text).digest(), kernels


@cache
def _versions() -> tuple[str, ...]:
    return version("numba"), version("llvmlite"), platform.python_version()


@cache
def source_hash(path: Path | None = None) -> str:
    """Hash what the compiled code of a file depends on, or that of all kernels."""
    files = set(PACKAGE.rglob("*.py")) if path is None else {PACKAGE / "jit.py", *called(path)}
    digest = hashlib.sha256()
    for one in sorted(files):
        name = one.relative_to(PACKAGE) if PACKAGE in one.parents else one
        digest.update(name.as_posix().encode() + b"\0" + _source(one)[0])
    return digest.hexdigest()[:16]


def folder_for(root: str) -> str:
    """Make the folder for compiled code, which nobody else may write, and return it.

    Raises
    ------
    OSError
        If it cannot be made or written, or others own it or may write there: it holds machine code.
    """
    folder = os.path.join(root, "kernels")
    os.makedirs(root, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    about = os.lstat(folder)
    owned = not hasattr(os, "geteuid") or (about.st_uid == os.geteuid() and not about.st_mode & FOREIGN_WRITERS)
    if not stat.S_ISDIR(about.st_mode) or not owned:
        raise PermissionError(0, "others own it or may write there")
    with tempfile.TemporaryFile(dir=folder):
        return folder


def usual_folder(asked: str, warn: Callable[..., None]) -> str | None:
    """Return the folder for compiled code, within one that is asked for; None where there can be none, and `warn`."""
    root = asked or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "fastbm")
    try:
        return folder_for(root)
    except OSError as error:
        warn(
            f"fastbm cannot cache compiled kernels in {os.path.join(root, 'kernels')} ({error.strerror}): every "
            "process compiles them anew. Set NUMBA_CACHE_DIR to a folder that can be written.",
            UserWarning,
        )
        return None


class _Locks:
    """One process at a time compiles the kernels of a module; a kernel's callees are compiled within its own turn."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, int]] = {}  # by path: file descriptor (-1 without), depth

    def take(self, path: str) -> None:
        """Take a lock, or go without one after `LONGEST_WAIT`, or where the file system has none."""
        if path in self._held:
            descriptor, depth = self._held[path]
            self._held[path] = descriptor, depth + 1
            return
        descriptor = -1
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            self._wait(descriptor)
        except (OSError, ImportError):
            if descriptor >= 0:
                os.close(descriptor)
            descriptor = -1
        self._held[path] = descriptor, 1

    @staticmethod
    def _wait(descriptor: int) -> None:
        import fcntl  # which only Unix has

        end = time.monotonic() + LONGEST_WAIT
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(POLL)

    def leave(self, path: str) -> None:
        """Give a lock back, once for each time that it was taken."""
        descriptor, depth = self._held.pop(path, (-1, 0))
        if depth > 1:
            self._held[path] = descriptor, depth - 1
        elif descriptor >= 0:
            os.close(descriptor)

    def forget(self) -> None:
        """After a fork: locks are the parent's; closing a copy of its files does not give them back."""
        for descriptor, _ in self._held.values():
            if descriptor >= 0:
                os.close(descriptor)
        self._held = {}


_locks = _Locks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_locks.forget)


class KernelCache:
    """What a dispatcher of Numba asks for compiled code; in the place of Numba's own cache.

    Parameters
    ----------
    function : function
        The kernel, as it is written.
    folder : str
    dumps : callable
        Makes bytes of what the compiler returned.
    rebuild : callable
        Makes compiled code, for a target, of what was pickled.
    how : str
        What else the code depends on.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        folder: str,
        dumps: Callable[[Any], bytes],
        rebuild: Callable[[Any, Any], Any],
        how: str = "",
    ) -> None:
        self._source, self._folder = Path(function.__code__.co_filename), folder
        self._name = f"{self._source.stem}.{function.__qualname__}"
        self._dumps, self._rebuild, self._how = dumps, rebuild, how
        self._codegen: Any = None
        self.cache_path = folder

    @property
    def _lock(self) -> str:
        return os.path.join(self._folder, f"{self._source.parent.name}.{self._source.stem}.lock")

    def _path(self, signature: Any) -> str:
        parts = [
            source_hash(self._source),
            self._name,
            self._how,
            str(signature),
            *map(str, self._codegen.magic_tuple()),
            *_versions(),
        ]
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
        return os.path.join(self._folder, f"{self._name}-{key}.code")

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return compiled code, or None, with the right to compile it until it is saved, or compiling fails."""
        target.refresh()
        self._codegen = target.codegen()
        path = self._path(signature)
        found = self._read(path, target)
        if found is not None:
            return found
        _locks.take(self._lock)
        found = self._read(path, target, mine=True)  # another process may have made it while this one waited
        if found is not None:
            _locks.leave(self._lock)
        else:
            _announce()
        return found

    def _read(self, path: str, target: Any, *, mine: bool = False) -> Any:
        """Return what a file holds; one that is damaged goes if it is `mine`, and nobody has made it anew."""
        try:
            data = Path(path).read_bytes()
        except OSError:
            return None
        head, seal, payload = data[: len(MAGIC)], data[len(MAGIC) : len(MAGIC) + DIGEST], data[len(MAGIC) + DIGEST :]
        try:
            if head != MAGIC or hashlib.sha256(payload).digest() != seal:
                raise ValueError("its checksum is wrong")
            return self._rebuild(target, pickle.loads(payload))
        except Exception as error:  # whatever is wrong with it, the compiler makes another one
            if mine:
                _log.warning("fastbm: %s is damaged (%s) and is compiled again", path, error)
                with suppress(OSError):
                    os.unlink(path)
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Write compiled code, complete or not at all, and let others go on."""
        try:
            if compiled.lifted or compiled.library.has_dynamic_globals:
                return  # addresses of this process
            payload = self._dumps(compiled)
            self._write(self._path(signature), MAGIC + hashlib.sha256(payload).digest() + payload)
            self._prune()
        except OSError as error:
            _say_unwritten(self._folder, str(error.strerror))
        finally:
            self.leave()

    def _write(self, path: str, data: bytes) -> None:
        descriptor, aside = tempfile.mkstemp(dir=self._folder, prefix=f"{self._name}-", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(aside, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(aside)
            raise

    def _prune(self) -> None:
        """Drop the oldest files of this kernel where there are many: those of sources that are no more."""
        files = list(Path(self._folder).glob(f"{self._name}-*.code"))
        if len(files) > MOST_KEPT:
            with suppress(FileNotFoundError):  # another process does the same
                for old in sorted(files, key=lambda file: file.stat().st_mtime)[:-MOST_KEPT]:
                    old.unlink()

    def leave(self) -> None:
        """Give the right to compile back."""
        _locks.leave(self._lock)

    def flush(self) -> None:
        """Do nothing: Numba asks for this, and what is there is right."""
