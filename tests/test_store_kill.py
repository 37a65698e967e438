"""Runs of arrays, killed at random times and at every file operation, end as if nothing had happened."""

from __future__ import annotations

import errno
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import crashing
import numpy as np
import pytest

from fastbm._checks import StorageError
from fastbm.store import Stream, Writer, create, open_reader, resume

N_BLOCKS, COMMIT_EVERY = 6, 3
EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
STREAMS = {
    "samples/states": Stream("|u1", (4, 3), {"n_units": 20, "bitorder": "little", "one": 1}),
    "samples/energy": Stream("<f8", (4,)),
    "metrics/note": Stream("str"),
    "meta/seconds": Stream("<f8"),
}


def begin(path: Path, n_blocks: int = N_BLOCKS, seed: int = 1, **options: object) -> Writer:
    return create(
        path, spec={"n_blocks": n_blocks, "seed": seed}, inputs={"start": np.arange(5.0)}, streams=STREAMS,
        state={"rng": np.array([seed], np.uint64), "counters/sweep": 0}, **options,
    )  # fmt: skip


def go_on(writer: Writer, n_blocks: int) -> None:
    """Append blocks that depend on all before them through the state, and commit every few."""
    with writer:
        word, sweep = int(writer.state["rng"][0]), int(writer.state["counters/sweep"])

        def state() -> dict[str, object]:
            return {"rng": np.array([word], np.uint64), "counters/sweep": sweep}

        while not writer.finished and writer.n_blocks < n_blocks:
            rng = np.random.default_rng(word)
            rows = {
                "samples/states": rng.integers(0, 256, (3, 4, 3), dtype=np.uint8),
                "samples/energy": rng.normal(size=(3, 4)),
                "meta/seconds": [time.perf_counter()],
            }
            if writer.n_blocks % 2:
                rows["metrics/note"] = [f"block {writer.n_blocks}"]
            word, sweep = int(rng.integers(2**63)), sweep + 3
            writer.append(rows, state)
            if writer.n_blocks % COMMIT_EVERY == 0:
                writer.commit(state())
        writer.finish(state())


def open_run(path: Path) -> Writer:
    try:
        return resume(path)
    except StorageError as error:
        if "does not exist" not in str(error):
            raise
        return begin(path)


def work(path: Path) -> None:
    go_on(open_run(path), N_BLOCKS)


def extend(path: Path) -> None:
    spec = {"n_blocks": 2 * N_BLOCKS, "seed": 1}
    go_on(resume(path, extend_spec=spec), 2 * N_BLOCKS)


def replace(path: Path) -> None:
    go_on(begin(path, seed=2, overwrite=True), N_BLOCKS)


@pytest.fixture
def folder() -> Iterator[Path]:
    with crashing.memory_folder() as path:
        yield path


@pytest.fixture
def whole(folder: Path) -> Path:
    path = folder / "whole.h5"
    work(path)
    return path


def test_killed_at_random_times(folder: Path) -> None:
    seen = [0]

    def look(path: Path) -> None:
        try:
            reader = open_reader(path)
        except StorageError as error:
            assert "does not exist" in str(error)
            return
        seen.append(reader.n_rows("samples/energy"))
        assert reader.n_rows("samples/states") == seen[-1] == 3 * reader.n_blocks

    n_hits = crashing.kill_and_compare(work, folder, n_kills=25, n_lives=3, least_hits=5, check=look)
    assert n_hits >= 5
    assert max(seen) > 0


@pytest.mark.slow
def test_killed_at_random_times_often(folder: Path) -> None:
    assert crashing.kill_and_compare(work, folder, n_kills=200, seed=1, n_lives=4) >= 50


def test_files_are_synced_before_they_are_renamed_and_folders_after(folder: Path) -> None:
    trace: list[tuple[str, str]] = []
    with crashing.watching(lambda number, name, arguments: trace.append((name, str(arguments[0])))):
        work(folder / "run.h5")
    names = [name for name, _ in trace]
    renames = [k for k, name in enumerate(names) if name == "rename"]
    assert len(renames) == 5  # four segments and the merged file
    for k in renames:
        assert names[k - 2 : k] == ["sync", "close"]
        assert trace[k + 1] == ("sync_folder", str(Path(trace[k][1]).parent))


@EVERY
def test_killed_at_every_file_operation(folder: Path, whole: Path, every: bool) -> None:
    operations = crashing.operations_of(lambda: work(folder / "counted.h5"))
    assert {"make_folder", "write", "sync", "rename", "sync_folder", "unlink", "remove_folder"} <= set(operations)
    path = folder / "killed.h5"
    for number in crashing.instants(operations, every=every):
        crashing.remove_run(path)
        assert crashing.kill_at(lambda: work(path), number, torn=True) == -signal.SIGKILL, (number, operations[number])
        work(path)
        crashing.assert_same_run(whole, path)
        assert not path.with_name("killed.h5.parts").exists()


@EVERY
def test_extension_killed_at_every_file_operation(folder: Path, every: bool) -> None:
    longer, path = folder / "longer.h5", folder / "run.h5"
    go_on(begin(longer, 2 * N_BLOCKS), 2 * N_BLOCKS)
    work(path)
    before = path.read_bytes()
    operations = crashing.operations_of(lambda: extend(path))
    crashing.assert_same_run(longer, path)
    for number in crashing.instants(operations, every=every)[:: 1 if every else 3]:
        crashing.remove_run(path)
        path.write_bytes(before)
        assert crashing.kill_at(lambda: extend(path), number, torn=True) == -signal.SIGKILL
        assert open_reader(path).n_rows("samples/energy") >= 3 * N_BLOCKS
        extend(path)
        crashing.assert_same_run(longer, path)


@pytest.mark.parametrize("merged", [True, False])
def test_replacement_killed_at_every_file_operation_leaves_the_old_run_or_the_new(folder: Path, merged: bool) -> None:
    old, new = folder / "old.h5", folder / "new.h5"
    work(old)
    go_on(begin(new, seed=2), N_BLOCKS)

    def prepare(path: Path) -> None:
        crashing.remove_run(path)
        if merged:
            work(path)
        else:
            with pytest.raises(ZeroDivisionError), begin(path) as writer:
                for block in range(4):
                    writer.append({"samples/energy": np.full((3, 4), block)}, dict)
                    writer.commit({"rng": np.array([1], np.uint64), "counters/sweep": 0})
                raise ZeroDivisionError

    path = folder / "run.h5"
    prepare(path)
    operations = crashing.operations_of(lambda: begin(path, seed=2, overwrite=True).close())
    found = set()
    for number in range(len(operations)):
        prepare(path)
        code = crashing.kill_at(lambda: begin(path, seed=2, overwrite=True).close(), number, torn=True)
        assert code == -signal.SIGKILL
        seed = open_reader(path).spec["seed"]
        found.add(seed)
        if seed == 2:
            go_on(resume(path), N_BLOCKS)
            crashing.assert_same_run(new, path)
        elif merged:
            crashing.assert_same_run(old, path)
        else:
            assert open_reader(path).n_rows("samples/energy") == 12
            assert resume(path).n_blocks == 4
    assert found == {1, 2}


@pytest.mark.parametrize("code", [errno.ENOSPC, pytest.param(errno.EIO, marks=pytest.mark.slow)])
@pytest.mark.parametrize("for_good", [False, True])
@EVERY
def test_every_file_operation_may_fail(folder: Path, whole: Path, every: bool, code: int, for_good: bool) -> None:
    operations = crashing.operations_of(lambda: work(folder / "counted.h5"))
    path = folder / "failed.h5"
    for number in crashing.instants(operations, every=every)[:: 1 if every else 5]:
        crashing.remove_run(path)
        try:
            with crashing.failing(number, code, for_good=for_good):
                work(path)
        except StorageError as error:
            assert "resume" in str(error) or "cannot write" in str(error) or "Free space" in str(error)
        work(path)
        crashing.assert_same_run(whole, path)
