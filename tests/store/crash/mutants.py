"""Stores that are wrong in one point each, and the check of the suite that must tell."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from fastbm import store
from fastbm.learning.optimise.sgd import Sgd
from fastbm.store import chain, disk, image, lock
from fastbm.store.checked import CheckedFile
from fastbm.store.merge import write
from fastbm.store.names import Names
from tests.store.crash import (
    damages,
    fault_points,
    operations,
    power_cuts,
    test_damage,
    test_kills,
    test_kinds,
    test_readers,
)
from tests.store.crash.stories import stage
from tests.support import pace

Check = Callable[[Path], Any]


@dataclasses.dataclass(frozen=True)
class Mutation:
    """What is taken out of the store or of a task, and the check that must turn red."""

    change: Callable[[], AbstractContextManager[Any]]
    check: Check


@contextmanager
def everywhere(name: str, other: Any) -> Iterator[None]:
    """Put something else in the place of a name in all of the store's modules."""
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(store.__path__, "fastbm.store.")]
    owners = [module for module in modules if hasattr(module, name)]
    assert owners, f"there is no {name} in fastbm.store"
    with ExitStack() as stack:
        for owner in owners:
            stack.enter_context(mock.patch.object(owner, name, other))
        yield


# Operations on files


def left_out(*names: str, kind: str = "") -> AbstractContextManager[None]:
    """The store does not do these operations, on all files or on those of a kind."""

    def change(name: str, path: Path, go: Callable[[], Any]) -> Any:
        return None if name in names and kind in ("", fault_points.kind_of(path)) else go()

    return operations.mutant(change)


def renamed_before_it_is_synced() -> AbstractContextManager[None]:
    """A file has its final name before its bytes are safe."""
    early: set[Path] = set()

    def change(name: str, path: Path, go: Callable[[], Any]) -> Any:
        if name == "sync":
            final = fault_points.final_of(path)
            disk.rename(path, final)
            early.add(final)
            return go()
        if name == "rename" and path in early:
            early.remove(path)
            return None
        return go()

    return operations.mutant(change)


def failed_syncs_are_forgotten() -> AbstractContextManager[None]:
    """An fsync that fails is taken for one that did not."""

    def change(name: str, path: Path, go: Callable[[], Any]) -> Any:
        with suppress(OSError):
            return go()

    return operations.mutant(change)


def short_writes_are_forgotten() -> AbstractContextManager[Any]:
    """What the system did not take is not written again."""

    def write_once(handle: int, data: Any, offset: int) -> int:
        view = memoryview(data).cast("B")
        disk.write(handle, view, offset)
        return offset + len(view)

    return mock.patch.object(disk, "write_all", write_once)


def first_segment_goes_first() -> AbstractContextManager[Any]:
    """Parts that are merged are removed from the first one on."""
    own_files = Names.own_files
    return mock.patch.object(Names, "own_files", lambda self: own_files(self)[::-1])


# What is read


def no_hash_check() -> AbstractContextManager[None]:
    """Bytes are not compared with their hash."""
    return everywhere("check_hash", lambda path, digest: None)


@contextmanager
def no_block_check() -> Iterator[None]:
    """Neither blocks of a merged file nor all of its bytes are compared."""
    with no_hash_check(), mock.patch.object(CheckedFile, "_is_whole", lambda self, number, block: True):
        yield


def no_hash_check_in_a_merge() -> AbstractContextManager[Any]:
    """The bytes that are merged are what their trailer claims."""

    def believed(file: Any) -> tuple[int, Any]:
        length, _ = image.hasher_of(file)
        return length, mock.Mock(digest=lambda: bytes.fromhex(image.read_trailer(Path(file.name))))

    return mock.patch.object(write, "hasher_of", believed)


@contextmanager
def no_trailer_check() -> Iterator[None]:
    """Whatever a file holds is what it should."""

    def claimed(path: Path) -> str:
        with open(path, "rb", buffering=0) as file:
            length, hasher = image.hasher_of(file)
            hasher.update(memoryview(file.read(length)))
        return hasher.digest().hex()

    def tail(path: Path) -> Any:
        return image.Tail(claimed(path), path.read_bytes()[: -image.TRAILER.size][-image.TAIL :])

    with (
        everywhere("read_trailer", claimed),
        everywhere("read_tail", tail),
    ):
        yield


def no_chain_check() -> AbstractContextManager[None]:
    """Any segment may follow on any other of its run."""
    check_link = chain.check_link

    def unlinked(names: Any, origin: Any, before: Any, number: int, *, hashed: bool) -> Any:
        with suppress(Exception):
            found = chain.read_header(names.segment(number), "", hashed=False)
            before = dataclasses.replace(found, sha256=found.prev_sha256, n_blocks=0)
        return check_link(names, origin, before, number, hashed=hashed)

    return everywhere("check_link", unlinked)


def no_run_check() -> AbstractContextManager[None]:
    """Segments of any run are taken."""
    check_link = chain.check_link

    def any_run(names: Any, origin: Any, *arguments: Any, **options: Any) -> Any:
        found = chain.read_header(names.segment(arguments[1]), "", hashed=False)
        header = dataclasses.replace(origin.header, run_id=found.run_id)
        return check_link(names, dataclasses.replace(origin, header=header), *arguments, **options)

    return everywhere("check_link", any_run)


def no_lock() -> AbstractContextManager[Any]:
    """Everybody gets the lock."""
    return mock.patch.object(lock.fcntl, "flock", lambda handle, how: None)


# Commits and states


def no_first_commit() -> AbstractContextManager[None]:
    """A run begins without a commit."""
    return everywhere("write_first", lambda names, header, contents: dataclasses.replace(header, sha256="0" * 64))


def one_word_lost() -> AbstractContextManager[None]:
    """One word of one random stream is not what it was."""
    read_state = store.resumption.read_state

    def read(*arguments: Any) -> dict[str, np.ndarray]:
        state = read_state(*arguments)
        state["streams"].reshape(-1)[-1] ^= 1
        return state

    return everywhere("read_state", read)


def momentum_lost() -> AbstractContextManager[Any]:
    """The optimiser begins anew at every resume."""
    return mock.patch.object(Sgd, "restore", lambda self, state: None)


def state_of_the_commit_before() -> AbstractContextManager[Any]:
    """A segment holds the state before its rows."""
    start = store.Writer._start

    def started(self: Any, state: Any, **options: Any) -> None:
        start(self, self._state, **options)

    return mock.patch.object(store.Writer, "_start", started)


# Checks


def power(*names: str) -> Check:
    def check(folder: Path) -> None:
        for name in names:
            power_cuts.check(stage(name), folder, 60)

    return check


def power_after(operation: str) -> Check:
    return lambda folder: power_cuts.check_after(operation, stage("run"), folder, 20)


def fault(point: str, fault: str, story: str = "run") -> Check:
    def check(folder: Path) -> None:
        number = fault_points.reached(story).index(point)
        fault_points.trial(story, folder / "run.h5", number, fault)

    return check


def killed_after(point: str, n_more: int) -> Check:
    """Kill the run a few operations after it first comes to a point."""

    def check(folder: Path) -> None:
        number = fault_points.reached("run").index(point) + n_more
        fault_points.trial("run", folder / "run.h5", number, "kill")

    return check


def flips(kind: str) -> Check:
    return lambda folder: damages.check(damages.flip_one, kind, folder, 40)


def stopped(kind: str) -> Check:
    def check(folder: Path) -> None:
        with pace.short_blocks():
            test_kinds.stop_and_resume(kind, folder)

    return check


def taken_apart(kind: str) -> Check:
    def check(folder: Path) -> None:
        with pace.short_blocks():
            test_kinds.check(kind)

    return check


def killed(story: str) -> Check:
    return lambda folder: test_kills.kill_each(story, folder, every=False)


MUTATIONS = {
    "no fsync": Mutation(lambda: left_out("sync"), power("run")),
    "no fsync of the merged file": Mutation(lambda: left_out("sync", kind="merge"), power("run")),
    "no fsync of folders": Mutation(lambda: left_out("sync_folder"), power("run")),
    "no fsync of the folder of parts": Mutation(lambda: left_out("sync_folder", kind="parts"), power("run")),
    "no fsync of the folder of the merged file": Mutation(lambda: left_out("sync_folder", kind="folder"), power("run")),
    "renamed before it is synced": Mutation(renamed_before_it_is_synced, power_after("rename")),
    "failed fsyncs are forgotten": Mutation(failed_syncs_are_forgotten, fault("segment-sync", "EIO")),
    "short writes are forgotten": Mutation(short_writes_are_forgotten, fault("segment-write", "short write")),
    "the first segment goes first": Mutation(first_segment_goes_first, killed_after("segment-unlink", 2)),
    "no hash check of segments": Mutation(no_hash_check, flips("parts")),
    "no hash check of states": Mutation(no_hash_check, flips("states")),
    "no hash check of merged files": Mutation(no_block_check, flips("merged")),
    "no hash check in a merge": Mutation(no_hash_check_in_a_merge, test_damage.check_merge_of_changed_rows),
    "no trailer check": Mutation(no_trailer_check, test_damage.check_files_of_others),
    "no chain check": Mutation(no_chain_check, test_damage.check_another_life),
    "no run check": Mutation(no_run_check, test_damage.check_files_of_others),
    "no lock": Mutation(no_lock, test_readers.check_second_writer),
    "no first commit": Mutation(no_first_commit, test_kills.check_first_commit),
    "the state of the commit before": Mutation(state_of_the_commit_before, killed("run")),
    "one word of a random stream": Mutation(one_word_lost, stopped("gibbs-initial")),
    "momentum": Mutation(momentum_lost, taken_apart("monte-carlo")),
}
