"""Runs of many segments: writers, readers and resumes ask the disk for what they need, however long the run is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastbm.store import Reader, Stream, Writer, create, merge_parts, open_reader, parts, resume
from fastbm.store.verification import verify
from tests.support import crash, store
from tests.support.store import N_BLOCKS, append, begin, begun, check_rows, refused, rows_of, state_after

tmp_path = store.tmp_path
LENGTHS = pytest.mark.parametrize("n", [300, pytest.param(10_000, marks=pytest.mark.slow)])


def start(path: Path, n: int) -> Writer:
    """Begin a run of `n` commits."""
    streams = {"x": Stream("<i8"), "y": Stream("<f8", (3,))}
    return create(path, spec={"n": n}, streams=streams, state={"k": 0}, merge=False)


def commit(writer: Writer, k: int) -> float:
    """Commit two numbers; return the seconds that processors took for it."""
    started = time.process_time()
    writer.append({"x": [2 * k, 2 * k + 1], "y": np.full((k % 2, 3), k)}, dict)
    writer.commit({"k": k + 1})
    return time.process_time() - started


def write(path: Path, n: int) -> None:
    """Write a run of `n` commits."""
    with start(path, n) as writer:
        for k in range(n):
            commit(writer, k)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count what the store asks of the disk."""
    asked: Counter[str] = Counter()

    def count(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            asked[name] += 1
            return real(*arguments, **options)

        return wrapped

    with monkeypatch.context() as patch:
        for name in ("listdir", "stat"):
            patch.setattr(os, name, count(name, getattr(os, name)))
        for module, name in [("segment", "read_tail"), ("segment", "check_hash"), ("segment", "open_image"),
                             ("chain", "open_image"), ("reader", "open_image")]:  # fmt: skip
            place = f"fastbm.store.{module}.{name}"
            patch.setattr(place, count(name, getattr(sys.modules[f"fastbm.store.{module}"], name)))
        yield asked


@LENGTHS
def test_a_long_run_costs_no_more_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    path = tmp_path / "run.h5"
    with counted(monkeypatch) as asked:
        write(path, n)
    assert asked["listdir"] < 10  # none of them in a commit
    assert asked["open_image"] == 0

    with counted(monkeypatch) as asked:
        reader = open_reader(path)
        assert reader.n_rows("x") == 2 * n
        assert reader.n_blocks == n
    assert asked["read_tail"] <= 3
    assert asked["check_hash"] == 2  # the first segment and the last
    assert asked["listdir"] <= 2

    with counted(monkeypatch) as asked:
        for _ in range(100):
            reader.refresh()
    assert asked["listdir"] == asked["read_tail"] == asked["open_image"] == 0
    assert asked["stat"] <= 100 * 6

    with counted(monkeypatch) as asked:
        assert reader.read("x", n, n + 4).tolist() == [n, n + 1, n + 2, n + 3]
        assert reader.spec == {"n": n}
    assert asked["check_hash"] <= 3
    assert asked["open_image"] <= 3
    assert asked["read_tail"] <= 4 * np.log2(n)

    with counted(monkeypatch) as asked, resume(path) as writer:
        assert writer.state["k"] == n
    assert asked["check_hash"] <= 2 + 64
    assert asked["read_tail"] <= 2 + n
    assert asked["open_image"] <= 4

    for start in range(0, 2 * n, 777):
        assert np.array_equal(reader.read("x", start, start + 777), np.arange(start, min(start + 777, 2 * n)))
    assert np.array_equal(reader.read("y")[:, 0], np.arange(1, n, 2))
    assert len(reader._parts._headers) <= parts.KEPT_HEADERS
    with counted(monkeypatch) as asked:
        reader.read("x")
    assert asked["check_hash"] == 0  # each segment's bytes are checked once


def test_a_reader_finds_any_number_of_segments_that_came(tmp_path: Path) -> None:
    with begin(tmp_path / "run.h5") as writer, open_reader(tmp_path / "run.h5") as reader:
        for n in (1, 1, 2, 3, 4, 7, 8, 9, 15, 33):
            append(writer, writer.n_blocks, writer.n_blocks + n)
            reader.refresh()
            assert reader.n_blocks == writer.n_blocks
        check_rows(reader, writer.n_blocks)


def test_a_reader_reads_segments_that_were_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    folder = begun(path, 6)
    with open_reader(path) as reader:
        check_rows(reader, 6)
        bad = folder / "seg-00000003.h5"
        data = bytearray(bad.read_bytes())
        data[5000] ^= 1
        bad.write_bytes(data)
        refused(lambda: reader.read("samples/energy"), "seg-00000003.h5 is damaged: sha256 differs. Blocks 0-1 are")
        with pytest.warns(UserWarning, match="2-5 will be recomputed"):
            writer = resume(path)
        with writer:
            reader.refresh()
            assert reader.n_blocks == 2
            append(writer, 2, 5)
            reader.refresh()
            check_rows(reader, 5)
            append(writer, 5, N_BLOCKS)
            check_rows(reader, 5)
            reader.refresh()
            check_rows(reader, N_BLOCKS)


def test_a_reader_of_an_extended_run_finds_its_spec_in_few_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.h5"
    with begin(path, merge=False) as writer:
        append(writer, 0, 40)
        writer.finish(state_after(40))
    longer = {**store.SPEC, "n": 60}
    with resume(path, extend_spec=longer) as writer:
        append(writer, 40, 60)
    with open_reader(path) as reader, counted(monkeypatch) as asked:
        assert reader.spec == longer
        assert asked["check_hash"] <= 1
        assert asked["open_image"] == 1


def test_a_reader_that_polls_a_live_run_sees_whole_commits_only(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.h5", tmp_path / "seen"
    deadline = time.monotonic() + 300

    def work() -> None:
        with begin(path) as writer:
            append(writer, 0, 150)
            while not seen.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            append(writer, 150, 160)
            writer.finish(state_after(160))

    child = crash.start_child(work)
    reader: Reader | None = None
    looks = [0]
    try:
        while time.monotonic() < deadline:
            if reader is None:
                if (tmp_path / "run.h5.parts" / "seg-00000000.h5").exists():
                    reader = open_reader(path)
                continue
            reader.refresh()
            assert looks[-1] <= reader.n_blocks <= 160
            looks.append(reader.n_blocks)
            for block in range(max(0, looks[-1] - 3), looks[-1]):
                energy = reader.read("samples/energy", 2 * block, 2 * block + 2)
                assert np.array_equal(energy, rows_of(block)["samples/energy"])
                seen.touch()
            if reader.finished:
                break
    finally:
        code = crash.ended(child)
    assert code == 0
    assert reader is not None
    assert looks[-1] == 160
    assert any(0 < n < 160 for n in looks)
    check_rows(reader, 160)


def test_large_states_are_pruned_without_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.store.commit.LARGE_STATE_BYTES", 1)
    with begin(tmp_path / "run.h5") as writer, counted(monkeypatch) as asked:
        append(writer, 0, 20)
        assert asked["listdir"] == 0
    names = writer.names
    assert names.state_numbers() == [1, 2, 4, 8, 16, 17, 18, 19, 20]
    for left in (7, 21):
        names.state(left).write_bytes(b"left by a killed writer")
    resume(tmp_path / "run.h5").close()
    assert names.state_numbers() == [1, 2, 4, 8, 16, 17, 18, 19, 20]


MERGE = """
import resource, sys
from fastbm.store import merge_parts
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
merge_parts(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
def test_a_hundred_thousand_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, n, costs = tmp_path / "run.h5", 100_000, []
    with start(path, n) as writer, start(tmp_path / "short.h5", n) as short:
        for k in range(n - 1000):
            commit(writer, k)
        for k in range(1000):  # by turns, so that both meet the same machine
            costs.append((commit(short, k), commit(writer, n - 1000 + k)))
    first, last = np.median(costs, axis=0)
    print(f"CPU of a commit: first thousand {1e3 * first:.2f} ms, last {1e3 * last:.2f} ms")
    assert last < 1.2 * first

    started = time.process_time()
    with counted(monkeypatch) as asked, open_reader(path) as reader:
        assert reader.n_rows("x") == 2 * n
    print(f"open: {time.process_time() - started:.2f} s of CPU")
    assert asked["read_tail"] <= 3

    started = time.process_time()
    for _ in range(1000):
        reader.refresh()
    print(f"look where nothing came: {1e6 * (time.process_time() - started) / 1000:.0f} us of CPU")

    started = time.process_time()
    with resume(path) as writer:
        print(f"resume: {time.process_time() - started:.2f} s of CPU")
        writer.finish({"k": n})
    assert verify(path).sound
    merged = subprocess.run([sys.executable, "-c", MERGE, str(path)], check=True, capture_output=True, text=True)
    print(f"merge: {int(merged.stdout) / 1024:.0f} MB of memory beside the interpreter")
    assert int(merged.stdout) < 150 << 10
    with open_reader(path) as reader:
        assert np.array_equal(reader.read("x"), np.arange(2 * n))


def test_a_long_run_is_merged(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    write(path, 300)
    with resume(path) as writer:
        writer.finish({"k": 300})
    merge_parts(path)
    assert verify(path).merged
    with open_reader(path) as reader:
        assert np.array_equal(reader.read("x"), np.arange(600))
