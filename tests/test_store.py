"""The store on real files: what is written is read, what is refused is refused, and damage is never read as data."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crashing
import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from fastbm._checks import StorageError
from fastbm.store import Memory, Stream, Writer, commit, create, files, merge, merge_parts, open_reader, resume, schema
from fastbm.store.names import Names

STREAMS = {
    "samples/states": Stream("|u1", (4, 3), {"n_units": 20, "bitorder": "little", "one": 1, "scale": 0.5}),
    "samples/energy": Stream("<f8", (4,)),
    "metrics/note": Stream("str"),
    "meta/seconds": Stream("<f8"),
}
SPEC = {"sampler": {"beta": 0.5, "thin": 10}, "n_chains": 4, "name": "sk"}
N_BLOCKS = 8


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with crashing.memory_folder() as path:
        yield path


def begin(path: Path, **options: Any) -> Writer:
    options = {"spec": SPEC, "streams": STREAMS, "inputs": {"model/weights": np.eye(3)}, **options}
    return create(path, state={"rng": np.array([7], np.uint64)}, **options)


def state_after(block: int) -> dict[str, np.ndarray]:
    return {"rng": np.array([7 + block], np.uint64)}


def rows_of(block: int) -> dict[str, Any]:
    rng = np.random.default_rng(block)
    states, energy = rng.integers(0, 256, (2, 4, 3), dtype=np.uint8), rng.normal(size=(2, 4))
    rows: dict[str, Any] = {"samples/states": states, "samples/energy": energy}
    return rows | ({"metrics/note": [f"block {block}", "ü"]} if block % 2 else {})


def append(writer: Writer | Memory, first: int, end: int, *, commit_each: bool = True) -> None:
    for block in range(first, end):
        writer.append(rows_of(block), lambda block=block: state_after(block + 1))
        if commit_each:
            writer.commit(state_after(block + 1))


def complete(path: Path, **options: Any) -> Path:
    """Write a whole run, from the start or from its last commit."""
    writer = resume(path) if path.with_name(path.name + ".parts").exists() else begin(path, **options)
    with writer:
        append(writer, writer.n_blocks, N_BLOCKS)
        writer.finish(state_after(N_BLOCKS))
    return path


def begun(path: Path, n_blocks: int = 6, **options: Any) -> Path:
    """Write a run that was stopped after some commits of one block each; return its parts."""
    with begin(path, **options) as writer:
        append(writer, 0, n_blocks)
    return path.with_name(path.name + ".parts")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return complete(tmp_path / "whole.h5")


def check_rows(reader: Any, n_blocks: int) -> None:
    for name in ("samples/states", "samples/energy", "metrics/note"):
        wanted = [np.asarray(rows_of(block)[name]) for block in range(n_blocks) if name in rows_of(block)]
        found = reader.read(name)
        assert len(found) == reader.n_rows(name) == sum(map(len, wanted))
        if wanted:
            assert np.array_equal(found, np.concatenate(wanted))


# ---------------------------------------------------------------- what is written is read


@pytest.mark.parametrize("finished", [False, True])
def test_a_run_is_read_as_it_was_written(tmp_path: Path, finished: bool) -> None:
    path = tmp_path / "deep" / "folder" / "run.h5"
    with begin(path, meta={"note": "first"}) as writer:
        append(writer, 0, 5)
        if finished:
            writer.finish(state_after(5))
    for name in [path] if finished else [path, Path(f"{path}.parts")]:
        with open_reader(name) as reader:
            check_rows(reader, 5)
            assert reader.spec == SPEC
            assert reader.streams == {name: STREAMS[name] for name in sorted(STREAMS)}
            assert reader.inputs["model/weights"].tolist() == np.eye(3).tolist()
            assert reader.state["rng"].tolist() == [12]
            assert reader.state["rng"].dtype == np.uint64
            assert (reader.finished, reader.live, reader.n_blocks) == (finished, False, 5)
            assert reader.meta["note"] == "first"
            assert reader.meta["numpy_version"] == np.__version__
            reader.verify()
    assert path.exists() is finished
    assert Path(f"{path}.parts").exists() is not finished


DTYPES = ["|b1", "|i1", "|u1", "<i2", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", ">f8", "<c8", "<c16"]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), dtype=st.sampled_from(DTYPES), shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
def test_every_dtype_and_shape_comes_back(
    tmp_path: Path, data: st.DataObject, dtype: str, shape: tuple[int, ...]
) -> None:
    counts = data.draw(st.lists(st.integers(0, 4), max_size=4))
    blocks = [data.draw(hnp.arrays(np.dtype(dtype), (n, *shape))) for n in counts]
    state = data.draw(hnp.arrays(np.dtype(dtype), shape))
    streams = {"s/x": Stream(dtype, shape, {"unit": "nats", "k": 3})}
    path = tmp_path / "run.h5"
    with create(path, spec={}, streams=streams, state={"a": state}, overwrite=True) as writer:
        for block in blocks:
            writer.append({"s/x": block}, dict)
            writer.commit({"a": state})
        wanted = np.concatenate([np.empty((0, *shape), dtype), *blocks], dtype=dtype)
        for _ in range(2):
            with open_reader(path) as reader:
                found = reader.read("s/x")
                assert found.tobytes() == wanted.tobytes()
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                assert reader.state["a"].tobytes() == state.tobytes()
                assert reader.state["a"].shape == shape
                assert reader.streams == streams
            writer.finish({"a": state})


def test_texts_come_back(tmp_path: Path) -> None:
    texts = ["", "ü", "a\nb", "x" * 100_000, "☃"]
    with create(
        tmp_path / "run.h5", spec={}, streams={"t": Stream("str")}, state={"names": np.array(texts)}
    ) as writer:  # fmt: skip
        writer.append({"t": texts}, dict)
        writer.append({"t": np.array(texts[:2])}, dict)
        writer.finish({"names": texts, "one": "ü"})
    reader = open_reader(tmp_path / "run.h5")
    assert reader.read("t").tolist() == texts + texts[:2]
    assert reader.state["names"].tolist() == texts
    assert reader.state["one"].item() == "ü"


@pytest.mark.parametrize("finished", [False, True])
def test_any_slice_is_that_of_the_whole(tmp_path: Path, finished: bool) -> None:
    path = complete(tmp_path / "run.h5") if finished else begun(tmp_path / "run.h5")
    chance = random.Random(0)
    with open_reader(path) as reader:
        everything = reader.read("samples/energy")
        bounds = [None, *range(-len(everything) - 2, len(everything) + 3)]
        for _ in range(200):
            start, stop, step = chance.choice(bounds[1:]), chance.choice(bounds), chance.randint(1, 5)
            assert np.array_equal(reader.read("samples/energy", start, stop, step), everything[start:stop:step])
        with pytest.raises(ValueError, match="step must be at least 1"):
            reader.read("samples/energy", step=0)
        with pytest.raises(KeyError, match="Did you mean 'samples/energy'"):
            reader.read("samples/energi")


def test_memory_equals_file(tmp_path: Path) -> None:
    memory = Memory(spec=SPEC, streams=STREAMS, inputs={"model/weights": np.eye(3)}, state={"rng": 7}, meta={"a": 1})
    append(memory, 0, N_BLOCKS, commit_each=False)
    memory.finish(state_after(N_BLOCKS))
    with open_reader(complete(tmp_path / "run.h5")) as reader:
        assert open_reader(memory) is memory
        assert (memory.spec, memory.streams, memory.n_blocks) == (reader.spec, reader.streams, reader.n_blocks)
        assert memory.state.keys() == reader.state.keys()
        assert memory.finished
        for name in STREAMS:
            for one, other in zip(
                (memory.read(name), memory.read(name, 1, -1, 2)), (reader.read(name), reader.read(name, 1, -1, 2)),
                strict=True,
            ):  # fmt: skip
                assert np.array_equal(one, other)
                assert (one.dtype, one.shape) == (other.dtype, other.shape)


def test_the_merged_file_is_plain_hdf5(whole: Path) -> None:
    with h5py.File(whole) as file:
        assert sorted(file.attrs) == ["fastbm_version", "format", "format_version"]
        assert file["spec"].asstr()[()] == json.dumps(SPEC, sort_keys=True, separators=(",", ":"))
        states = file["samples/states"]
        assert dict(states.attrs) == {"n_units": 20, "bitorder": "little", "one": 1, "scale": 0.5}
        assert states.fletcher32
        assert states.dtype == np.uint8
        assert states.shape == (2 * N_BLOCKS, 4, 3)
        assert file["inputs/model/weights"][...].tolist() == np.eye(3).tolist()
        assert file["state/rng"][0] == 7 + N_BLOCKS


def test_a_run_describes_itself_before_its_first_row(tmp_path: Path) -> None:
    with begin(tmp_path / "run.h5"), h5py.File(tmp_path / "run.h5.parts" / "seg-00000000.h5") as file:
        assert file["samples/states"].shape == (0, 4, 3)
        assert file["samples/states"].attrs["bitorder"] == "little"
        assert file.attrs["n_blocks"] == 0
        assert file["spec"].asstr()[()] == schema.canonical_json(SPEC)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_compression_changes_no_row(tmp_path: Path, compression: str) -> None:
    if compression == "zstd":
        pytest.importorskip("hdf5plugin")
    path = tmp_path / "run.h5"
    begun(path, compression=compression)
    with open_reader(path) as reader:
        check_rows(reader, 6)
    with open_reader(complete(path)) as reader:
        check_rows(reader, N_BLOCKS)
    with h5py.File(path) as file:
        assert file["samples/energy"].compression == {"gzip": "gzip", "zstd": "unknown"}[compression]
        assert file["samples/energy"].fletcher32


def test_chunks_are_64_kib_to_1_mib() -> None:
    for shape in [(), (3,), (64, 125), (1000, 1000), (3, 5, 70_000), (2_000_001,), (0, 7)]:
        for dtype in ("|u1", "<f8"):
            stream = Stream(dtype, shape)
            chunk = schema.chunk_shape(stream)
            size = np.prod(chunk) * np.dtype(dtype).itemsize
            assert size >= 64 << 10
            assert size <= 1 << 20
            assert all(c <= max(1, n) for c, n in zip(chunk[1:], shape, strict=True))


# ---------------------------------------------------------------- commits


def test_state_is_asked_for_only_when_a_commit_is_due(tmp_path: Path) -> None:
    asked = []
    with begin(tmp_path / "run.h5", commit_bytes=3 * 88) as writer:
        for block in range(0, 12, 2):  # 88 bytes each
            writer.append(rows_of(block), lambda block=block: asked.append(block) or state_after(block))
            time.sleep(0.05)
    assert asked == [4, 10]
    assert open_reader(tmp_path / "run.h5").n_blocks == 6


def test_a_commit_is_due_after_its_seconds(tmp_path: Path) -> None:
    with begin(tmp_path / "run.h5", commit_seconds=0.05) as writer:
        append(writer, 0, 1, commit_each=False)
        time.sleep(0.06)
        append(writer, 1, 2, commit_each=False)
    assert open_reader(tmp_path / "run.h5").n_blocks == 2


def test_a_large_state_stretches_the_interval() -> None:
    pace = commit.Pace(seconds=0.0, n_bytes=100)
    assert pace.due(0)
    pace.committed(commit_seconds=30.0, state_bytes=900, all_bytes=1000)
    assert not pace.due(300)  # the state took 27 s, so nothing is due for 900 s,
    assert pace.due(900)  # unless waiting rows outweigh it


def test_arrays_are_copied(tmp_path: Path) -> None:
    with begin(tmp_path / "run.h5") as writer:
        rows, state = rows_of(0), state_after(1)
        writer.append(rows, lambda: state)
        rows["samples/energy"][...] = np.nan
        writer.commit(state)
        state["rng"][...] = 0
        assert writer.state["rng"].tolist() == [8]
    check_rows(open_reader(tmp_path / "run.h5"), 1)


def test_a_reader_of_a_live_run_sees_whole_commits_only(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with begin(path) as writer, open_reader(path) as reader:
        for block in range(4):
            append(writer, block, block + 1, commit_each=False)
            reader.refresh()
            assert reader.n_blocks == block
            assert reader.live
            writer.commit(state_after(block + 1))
            assert reader.n_blocks == block  # until it looks again
            reader.refresh()
            check_rows(reader, block + 1)
        writer.finish(state_after(4))
        check_rows(reader, 4)  # the parts are gone from under it
        assert reader.finished
        assert not reader.live


def test_images_are_a_function_of_their_contents(tmp_path: Path) -> None:
    meta = {"time": 0.0}

    def image(junk: int) -> bytes:
        header = commit.Header("id", 0, 0, 0, "a", "b", index=np.zeros((4, 2), np.int64))
        np.random.default_rng(junk).bytes(junk)
        contents = commit.Contents(schema.check_streams(STREAMS), {}, state_after(1), meta, "{}", {"w": np.eye(3)})
        return commit.segment_image(header, contents)

    assert image(1) == image(100_000)


def test_a_large_state_has_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "LARGE_STATE_BYTES", 1000)
    path, n = tmp_path / "run.h5", 40

    def state(block: int) -> dict[str, np.ndarray]:
        return {"chains": np.full(500, block)}

    with begin(path) as writer:
        for block in range(n):
            append(writer, block, block + 1, commit_each=False)
            writer.commit(state(block + 1))
    names = Names(path)
    assert names.state_numbers() == [1, 2, 4, 8, 16, 32, 37, 38, 39, 40]
    assert open_reader(path).state["chains"][0] == n
    for number in (39, 40):
        names.state(number).write_bytes(names.state(number).read_bytes()[:-60])
    with pytest.warns(UserWarning, match=r"seg-00000039.h5 has no whole state: .* 0-37 are whole; 38-39 will"):
        writer = resume(path)
    with writer:
        assert writer.n_blocks == 38
        assert writer.state["chains"].tolist() == [38] * 500
        append(writer, 38, n, commit_each=False)
        writer.finish(state(n))
    with open_reader(path) as reader:
        check_rows(reader, n)
        assert reader.state["chains"][0] == n


# ---------------------------------------------------------------- resume


@pytest.mark.parametrize("stops", [[], [0], [3], [1, 1, 5, 7], [8]])
def test_a_resumed_run_ends_as_the_uninterrupted_one(tmp_path: Path, whole: Path, stops: list[int]) -> None:
    path = tmp_path / "run.h5"
    begin(path).close()
    for stop in stops:
        with resume(path, spec=SPEC) as writer:
            append(writer, writer.n_blocks, stop)
            append(writer, stop, stop + 1, commit_each=False)  # lost: it was never committed
    complete(path)
    crashing.assert_same_run(whole, path)


def test_how_commits_fall_changes_nothing(tmp_path: Path, whole: Path) -> None:
    with begin(tmp_path / "run.h5", commit_bytes=1) as writer:
        append(writer, 0, 3, commit_each=False)
        append(writer, 3, N_BLOCKS, commit_each=False)
        writer.finish(state_after(N_BLOCKS))
    crashing.assert_same_run(whole, tmp_path / "run.h5")


def test_a_finished_run_is_left_as_it_is(whole: Path) -> None:
    before = whole.read_bytes()
    with resume(whole, spec=SPEC) as writer:
        assert writer.finished
        assert writer.n_blocks == N_BLOCKS
        assert writer.state["rng"].tolist() == [7 + N_BLOCKS]
        with pytest.raises(StorageError, match="is finished"):
            writer.append({}, dict)
        writer.finish({})
    assert whole.read_bytes() == before
    assert os.listdir(whole.parent) == ["whole.h5"]


@pytest.mark.parametrize("merged", [True, False])
def test_a_longer_run_is_the_same_begun_long_or_extended(tmp_path: Path, merged: bool) -> None:
    longer = {**SPEC, "n_chains": 8}
    with begin(tmp_path / "long.h5", spec=longer) as writer:
        append(writer, 0, N_BLOCKS)
        writer.finish(state_after(N_BLOCKS))
    path = tmp_path / "run.h5"
    with begin(path, merge=merged) as writer:
        append(writer, 0, 3)
        writer.finish(state_after(3))
    with resume(path, extend_spec=longer) as writer:
        assert (writer.n_blocks, writer.finished, writer.spec) == (3, False, longer)
        append(writer, 3, 5)
    with open_reader(path) as reader:
        check_rows(reader, 5)
        assert reader.spec == longer
        assert not reader.finished
    with pytest.raises(StorageError, match=r"is not finished \(5 blocks\)"):
        resume(path, extend_spec={**longer, "n_chains": 16})
    with resume(path, spec=longer, extend_spec=longer) as writer:
        append(writer, 5, N_BLOCKS)
        writer.finish(state_after(N_BLOCKS))
    if not merged:
        assert not path.exists()
        merge_parts(path)
    crashing.assert_same_run(tmp_path / "long.h5", path)
    assert resume(path, extend_spec=longer).finished


def test_the_first_part_of_an_extended_run_may_not_change(tmp_path: Path, whole: Path) -> None:
    with resume(whole, extend_spec={**SPEC, "n_chains": 8}) as writer:
        append(writer, N_BLOCKS, N_BLOCKS + 1)
    other = complete(tmp_path / "other.h5", spec={"other": 1})
    kept = whole.read_bytes()
    whole.unlink()
    with pytest.raises(StorageError, match=r"the first part of the run in .*parts, is missing"):
        open_reader(whole)
    shutil.copy(other, whole)
    with pytest.raises(StorageError, match="are of different runs"):
        resume(whole)
    whole.write_bytes(kept)
    with open_reader(whole) as reader:
        check_rows(reader, N_BLOCKS + 1)


# ---------------------------------------------------------------- texts


def refused(act: Callable[[], Any], text: str, *, error: type[Exception] = StorageError) -> None:
    with pytest.raises(error) as caught:
        act()
    assert text in str(caught.value)


def test_another_spec_is_refused_by_field(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    begun(path)
    other = {"sampler": {"beta": 0.8, "burn_in": 1}, "n_chains": 4, "name": "sk"}
    refused(
        lambda: resume(path, spec=other),
        "cannot resume: sampler.beta is 0.8 here and 0.5 in the file; "
        "sampler.burn_in is 1 here and absent in the file; sampler.thin is absent here and 10 in the file.",
    )
    with resume(path, spec=json.loads(json.dumps(SPEC))) as writer:
        assert writer.n_blocks == 6


def test_other_versions_are_refused_unless_inexact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.h5"
    begun(path)
    monkeypatch.setattr("fastbm.store.resuming.package_version", lambda name: "9.9" if name == "numpy" else "x")
    refused(lambda: resume(path), f"numpy is 9.9 here and {np.__version__} in the file")
    with resume(path, exact=False) as writer:
        assert writer.n_blocks == 6


def test_an_existing_run_is_never_overwritten_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = 'run.h5 exists. Continue it with fastbm.resume("run.h5") or pass overwrite=True to replace it.'
    begun(tmp_path / "run.h5")
    refused(lambda: begin(Path("run.h5")), text)
    complete(tmp_path / "run.h5")
    refused(lambda: begin(Path("run.h5")), text)
    assert not (tmp_path / "run.h5.parts").exists()
    with begin(Path("run.h5"), spec={"b": 1}, overwrite=True):
        assert os.listdir(tmp_path) == ["run.h5.parts"]
    assert open_reader("run.h5").spec == {"b": 1}


def test_files_of_others_are_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    path.mkdir()
    refused(lambda: begin(path, overwrite=True), "is not a fastbm run (it is a folder). It is never overwritten.")
    path.rmdir()
    path.write_text("thesis")
    refused(lambda: begin(path, overwrite=True), "is not a fastbm run (not an HDF5 file). It is never overwritten.")
    refused(lambda: open_reader(path), "is not a fastbm run (not an HDF5 file).")
    path.unlink()
    with h5py.File(path, "w") as file:
        file["a"] = 1
    refused(lambda: begin(path, overwrite=True), "is not a fastbm run (no format attribute). It is never overwritten.")
    refused(lambda: resume(path), "is not a fastbm run (no format attribute).")
    assert os.listdir(tmp_path) == ["x.h5"]


def test_a_missing_run_names_its_neighbours(tmp_path: Path) -> None:
    begun(tmp_path / "digits.h5")
    for act in (open_reader, resume, merge_parts):
        refused(lambda act=act: act(tmp_path / "digit.h5"), "does not exist: no such run. Nearest by name: digits.h5.")
    refused(lambda: open_reader(tmp_path / "no" / "run.h5"), "and no folder")
    assert os.listdir(tmp_path) == ["digits.h5.parts"]


def test_a_newer_format_is_refused(whole: Path) -> None:
    with h5py.File(whole, "r+") as file:
        file.attrs["format_version"] = np.array([2, 1], np.int32)
        file.attrs["fastbm_version"] = "0.9.1"
    text = f"has format 2.1; this fastbm ({schema.package_version('fastbm')}) reads up to 1.x. Install fastbm >= 0.9.1."
    refused(lambda: open_reader(whole), text)
    refused(lambda: resume(whole), text)


def test_a_file_edited_by_others_is_still_read(whole: Path) -> None:
    with h5py.File(whole, "r+") as file:
        file["notes"] = np.arange(3.0)
    with open_reader(whole) as reader:
        check_rows(reader, N_BLOCKS)
        refused(reader.verify, "the trailer is missing")


def test_one_segment_is_not_a_run(tmp_path: Path) -> None:
    refused(lambda: open_reader(begun(tmp_path / "run.h5") / "seg-00000001.h5"), "is one segment of a run")


def test_a_second_writer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("run.h5")

    def refused_in_a_child() -> None:
        text = rf"^run.h5 is being written by pid {os.getppid()} on \S+ since 2\d\d\d-\d\d-\d\d \d\d:\d\d. Stop it"
        for act in (resume, lambda path: begin(path, overwrite=True), merge_parts):
            with pytest.raises(StorageError, match=text):
                act(path)
        assert open_reader(path).live

    with begin(path) as writer:
        append(writer, 0, 1)
        assert crashing.run_child(refused_in_a_child) == 0
        append(writer, 1, 2)
        assert crashing.run_child(lambda: refused(lambda: append(writer, 2, 3), "is closed for writing")) == 0
    with resume(path) as writer:
        assert writer.n_blocks == 2


def test_a_child_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    writer = begin(tmp_path / "run.h5")
    child = crashing.start_child(lambda: time.sleep(5))
    writer.close()
    resume(tmp_path / "run.h5").close()
    os.kill(child, 9)
    crashing.ended(child)


@pytest.mark.parametrize(
    ("rows", "error", "text"),
    [
        ({"samples/energi": np.zeros((1, 4))}, ValueError, "Did you mean 'samples/energy'?"),
        ({"samples/energy": np.zeros((1, 5))}, ValueError, "must have shape (n, *(4,)); got (1, 5)"),
        ({"samples/energy": 1.0}, ValueError, "got ()"),
        ({"samples/states": np.full((1, 4, 3), 300)}, TypeError, "stored as |u1; got int64, which does not fit"),
        ({"samples/states": np.zeros((1, 4, 3))}, TypeError, "which does not fit"),
        ({"metrics/note": [1.0]}, TypeError, "which does not fit"),
        ({"metrics/note": ["a\0b"]}, ValueError, "zero character"),
        ({"samples/energy": [["a"] * 4]}, TypeError, "which does not fit"),
        ({"samples/energy": [[None] * 4]}, TypeError, "must hold numbers, booleans or texts; got NoneType"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    tmp_path: Path, rows: dict[str, Any], error: type[Exception], text: str
) -> None:
    with begin(tmp_path / "run.h5") as writer:
        refused(lambda: writer.append(rows, dict), text, error=error)
        assert writer.n_blocks == 0
        writer.append({"samples/states": np.full((1, 4, 3), 3)}, dict)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"spec": {"beta": float("nan")}}, ValueError, "spec must be made of"),
        ({"spec": {"w": np.eye(2)}}, TypeError, "spec must be made of"),
        ({"streams": {"state/x": Stream("<f8")}}, ValueError, "may not lie in 'state', which is reserved"),
        ({"streams": {"a": Stream("<f8"), "a/b": Stream("<f8")}}, ValueError, "'a/b' lies inside 'a'"),
        ({"streams": {"/a": Stream("<f8")}}, ValueError, "is not a name"),
        ({"streams": {"a b": Stream("<f8")}}, ValueError, "is not a name"),
        ({"streams": {"a": Stream("<M8[s]")}}, TypeError, "expected numbers, booleans or 'str'"),
        ({"streams": {"a": Stream("<f8", (), {"k": None})}}, TypeError, "must be a number or text"),
        ({"meta": {"run_id": "x"}}, ValueError, "written by the store itself"),
        ({"meta": {"x": None}}, TypeError, "must be a number or text"),
        ({"compression": "lzf"}, ValueError, "compression must be one of 'gzip', 'zstd'"),
        ({"inputs": {"a": {}}}, TypeError, "'inputs/a' must hold numbers"),
    ],
)  # fmt: skip
def test_bad_declarations_are_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    refused(lambda: begin(tmp_path / "run.h5", **options), text, error=error)
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- disks


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.ENOSPC, r"no space left in .* \(needed 0.0 MB, .* MB free\). Blocks 0-1 are safe. Free space, then re"),
        (errno.EDQUOT, r"disk quota exceeded in .* Blocks 0-1 are safe. Free space, then resume."),
        (errno.EIO, r"input/output error in .* Blocks 0-1 are safe. Check the disk, then resume."),
    ],
)
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_what_the_disk_refuses_is_raised_and_nothing_committed_is_lost(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, code: int, text: str, operation: str
) -> None:
    path = tmp_path / "run.h5"
    with pytest.raises(StorageError, match=text), begin(path, commit_bytes=1) as writer:
        append(writer, 0, 2)

        def fails(*arguments: Any) -> int:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(files, operation, fails)
            append(writer, 2, 3, commit_each=False)  # fails in the background
            while writer._busy:
                time.sleep(0.001)
            append(writer, 3, 4, commit_each=False)
    assert [path.name for path in Names(path).temporaries()] == []
    with open_reader(path) as reader:
        check_rows(reader, 2)
    complete(path)
    crashing.assert_same_run(whole, path)


def test_a_failure_is_raised_at_close_if_not_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = begin(tmp_path / "run.h5", commit_bytes=1)
    monkeypatch.setattr(files, "write", lambda handle, data, offset: 0)
    append(writer, 0, 1, commit_each=False)
    with pytest.raises(StorageError, match="input/output error"):
        writer.close()
    writer.close()
    monkeypatch.undo()
    resume(tmp_path / "run.h5").close()


def test_short_writes_are_completed(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "write", lambda handle, data, offset: os.pwrite(handle, data[:701], offset))
    crashing.assert_same_run(whole, complete(tmp_path / "run.h5"))


def test_a_disk_that_fills_up_in_the_merge_leaves_the_parts(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.h5"
    with begin(path) as writer:
        append(writer, 0, N_BLOCKS)
        with monkeypatch.context() as patch, pytest.raises(StorageError, match="no space left"):
            patch.setattr("fastbm.store.diskfile.files", Full(5))
            writer.finish(state_after(N_BLOCKS))
    assert sorted(os.listdir(tmp_path)) == ["run.h5.parts", "whole.h5"]
    with resume(path) as writer:
        assert writer.finished
        writer.finish({})
    crashing.assert_same_run(whole, path)


class Full:
    """The file operations, on a disk that takes a few writes more."""

    def __init__(self, n_writes: int) -> None:
        self.n_writes = n_writes

    def __getattr__(self, name: str) -> Any:
        return getattr(files, name)

    def write_all(self, *arguments: Any) -> int:
        self.n_writes -= 1
        if self.n_writes < 0:
            raise OSError(errno.ENOSPC, "full")
        return files.write_all(*arguments)


def test_parts_are_kept_when_asked_too_large_or_out_of_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = begun(tmp_path / "asked.h5", merge=False)
    with resume(asked) as writer:
        writer.finish(state_after(6))
    with monkeypatch.context() as patch:
        patch.setattr(merge, "LARGEST_MERGE_BYTES", 1000)
        begun(tmp_path / "large.h5")
        with resume(tmp_path / "large.h5") as writer, pytest.warns(UserWarning, match=r"large.h5 stays in parts: it"):
            writer.finish(state_after(6))
    with monkeypatch.context() as patch:
        begun(tmp_path / "tight.h5")
        with resume(tmp_path / "tight.h5") as writer, pytest.warns(UserWarning, match=r"merging needs .* MB are free"):
            patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 0))
            writer.finish(state_after(6))
    assert sorted(os.listdir(tmp_path)) == ["asked.h5.parts", "large.h5.parts", "tight.h5.parts"]
    for name in ("asked.h5", "large.h5", "tight.h5"):
        with open_reader(tmp_path / name) as reader:
            assert reader.finished
            check_rows(reader, 6)
        merge_parts(tmp_path / name)
        merge_parts(tmp_path / name)
        check_rows(open_reader(tmp_path / name), 6)
    assert sorted(os.listdir(tmp_path)) == ["asked.h5", "large.h5", "tight.h5"]


def test_no_space_at_the_start_begins_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 5_000_000 // 10))
    refused(lambda: begin(tmp_path / "run.h5"), "0.5 MB free). Nothing was begun.")
    assert os.listdir(tmp_path) == []


def test_an_unfinished_run_is_not_merged(tmp_path: Path) -> None:
    begun(tmp_path / "run.h5")
    refused(lambda: merge_parts(tmp_path / "run.h5"), "is not finished (6 blocks). Resume it to its end, then merge.")


# ---------------------------------------------------------------- damage


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def check_damaged(path: Path, whole: Path, kept: dict[str, np.ndarray]) -> bool:
    """Assert that readers give rows of the whole run or an error, and that a resume mends the run or says where not."""
    try:
        with open_reader(path) as reader:
            for name, rows in kept.items():
                found = reader.read(name)
                assert np.array_equal(found, rows[: len(found)])
    except StorageError as error:
        assert "run.h5.parts/seg-" in str(error)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            complete(path)
    except StorageError as error:
        assert "run.h5.parts/seg-" in str(error)
        return False
    crashing.assert_same_run(whole, path)
    return True


@pytest.fixture
def kept(whole: Path) -> dict[str, np.ndarray]:
    with open_reader(whole) as reader:
        return {name: reader.read(name) for name in STREAMS if not name.startswith("meta")}


@pytest.fixture
def damage(tmp_path: Path, whole: Path, kept: dict[str, np.ndarray]) -> Iterator[Callable[..., bool]]:
    """Give a function that damages one segment of a copy of a run and checks what comes of it."""
    parts = begun(tmp_path / "run.h5")

    def apply(act: Callable[[Path], None], number: int) -> bool:
        folder = tmp_path / "trial"
        shutil.copytree(parts, folder / "run.h5.parts")
        act(folder / "run.h5.parts" / f"seg-{number:08d}.h5")
        mended = check_damaged(folder / "run.h5", whole, kept)
        shutil.rmtree(folder)
        return mended

    yield apply


@pytest.mark.parametrize("n_trials", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_a_segment_cut_at_a_random_byte_is_computed_again(damage: Callable[..., bool], n_trials: int) -> None:
    chance = random.Random(1)

    def cut(path: Path) -> None:
        os.truncate(path, chance.randrange(path.stat().st_size))

    for _ in range(n_trials):
        number = chance.randrange(7)
        assert damage(cut, number) is (number > 0)


@pytest.mark.parametrize("n_trials", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_found(damage: Callable[..., bool], n_trials: int) -> None:
    chance = random.Random(2)
    for _ in range(n_trials):
        number = chance.randrange(7)
        assert damage(lambda path: flip(path, chance.randrange(8 * path.stat().st_size)), number) is (number > 0)


def test_a_segment_that_is_lost_swapped_or_zeroed_is_computed_again(damage: Callable[..., bool]) -> None:
    def swap(path: Path) -> None:
        other = path.with_name("seg-00000005.h5")
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)

    for number in range(1, 5):
        assert damage(Path.unlink, number)
        assert damage(swap, number)
        assert damage(lambda path: path.write_bytes(bytes(path.stat().st_size)), number)
        assert damage(lambda path: path.write_bytes(b""), number)
    assert not damage(Path.unlink, 0)


def test_a_segment_of_another_life_of_the_run_is_computed_again(tmp_path: Path, whole: Path) -> None:
    parts, path = begun(tmp_path / "run.h5", 3), tmp_path / "run.h5"
    shutil.copytree(parts, tmp_path / "twin.h5.parts")
    with resume(path) as writer:
        append(writer, 3, 5)
    with resume(tmp_path / "twin.h5") as writer:
        append(writer, 3, 4, commit_each=False)
        append(writer, 4, 6)
    shutil.copy(parts / "seg-00000005.h5", tmp_path / "twin.h5.parts")  # block 4, where block 5 should follow
    with pytest.warns(UserWarning, match="it does not follow on the segment before it"):
        complete(tmp_path / "twin.h5")
    crashing.assert_same_run(whole, tmp_path / "twin.h5")


def test_damage_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parts = begun(Path("run.h5"))
    flip(parts / "seg-00000004.h5", 8000)
    refused(
        lambda: open_reader("run.h5").read("samples/energy"),
        "run.h5.parts/seg-00000004.h5 is damaged: sha256 differs. Blocks 0-2 are whole; resume the run to compute the "
        "others again.",
    )
    with pytest.warns(UserWarning) as caught:
        resume("run.h5").close()
    assert [str(warning.message) for warning in caught] == [
        "run.h5.parts/seg-00000004.h5 is damaged: sha256 differs. Blocks 0-2 are whole; 3-5 will be recomputed. "
        "Set aside and 2 after it as seg-00000004.h5.bad."
    ]
    assert sorted(os.listdir(parts)) == [
        "lock", *(f"seg-0000000{k}.h5" for k in range(4)), *(f"seg-0000000{k}.h5.bad" for k in (4, 5, 6))
    ]  # fmt: skip


def test_a_lost_first_segment_is_told(tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5")
    flip(parts / "seg-00000000.h5", 9000)
    for act in (open_reader, resume):
        refused(lambda act=act: act(tmp_path / "run.h5"), "holds the spec and the first state, so the run cannot")
    (parts / "seg-00000000.h5").unlink()
    for act in (open_reader, resume):
        refused(lambda act=act: act(tmp_path / "run.h5"), "seg-00000000.h5 is missing")


def test_files_of_others_among_the_segments_are_refused_and_kept(tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5")
    other = begun(tmp_path / "other.h5") / "seg-00000003.h5"
    victim = parts / "seg-00000003.h5"
    for fill, text in [
        (lambda: shutil.copy(other, victim), "belongs to another run"),
        (lambda: victim.write_text("thesis"), "is not a fastbm segment (no trailer). Nothing was changed."),
        (lambda: h5py.File(victim, "w").close(), "is not a fastbm segment (no trailer). Nothing was changed."),
    ]:
        fill()
        before = victim.read_bytes()
        refused(lambda: resume(tmp_path / "run.h5"), text)
        refused(lambda: open_reader(tmp_path / "run.h5").read("samples/energy"), text)
        assert victim.read_bytes() == before


def test_damage_older_than_a_resume_looks_is_found_by_the_merge(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastbm.store.resuming.HASHED_ON_RESUME", 2)
    path = tmp_path / "run.h5"
    parts = begun(path)
    flip(parts / "seg-00000002.h5", 8 * 3000)
    with resume(path) as writer:
        assert writer.n_blocks == 6
        append(writer, 6, N_BLOCKS)
        refused(lambda: writer.finish(state_after(N_BLOCKS)), "seg-00000002.h5 is damaged: sha256 differs. Blocks 0-0")
    with pytest.warns(UserWarning, match="1-7 will be recomputed"):
        complete(path)
    crashing.assert_same_run(whole, path)


def test_a_damaged_merged_file_is_told(whole: Path) -> None:
    good, chance = whole.read_bytes(), random.Random(3)
    for _ in range(20):
        whole.write_bytes(good)
        flip(whole, chance.randrange(8 * len(good)))
        refused(lambda: open_reader(whole).read("samples/energy"), "whole.h5 is")
        whole.write_bytes(good[: chance.randrange(1, len(good) - 48)])
        refused(lambda: open_reader(whole).read("samples/energy"), "whole.h5 is")


def test_sealed_files_end_in_the_trailer(tmp_path: Path, whole: Path) -> None:
    for path in [whole, *begun(tmp_path / "run.h5").glob("seg-*")]:
        magic, length, _ = struct.unpack("<8sQ32s", path.read_bytes()[-48:])
        assert (magic, length) == (b"FBMSEG01", path.stat().st_size - 48)
