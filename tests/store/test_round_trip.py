"""What the store wrote is read as it was written, from parts, from one file and from memory."""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from fastbm._base import arrays
from fastbm.store import Memory, Stream, create, open_reader, schema
from tests.support import store
from tests.support.store import N_BLOCKS, SPEC, STREAMS, append, begin, begun, check_rows, complete, state_after

tmp_path = store.tmp_path
whole = store.whole


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


@pytest.mark.parametrize("n_bytes", [40, 1 << 22])
def test_memory_copies_rows_that_somebody_may_write_to(n_bytes: int) -> None:
    for constant in (False, True):
        rows = arrays.empty((2, n_bytes // 2), np.uint8)
        assert rows.ctypes.data % (arrays.LINE if n_bytes < arrays.HUGE else arrays.HUGE) == 0
        if constant:
            rows.flags.writeable = False
        with Memory(spec=SPEC, streams={"samples/states": Stream("|u1", rows.shape[1:])}, state={}) as run:
            run.append({"samples/states": rows})
            assert np.shares_memory(run._whole("samples/states"), rows) is constant


def test_memory_of_large_arrays_is_kept_for_the_next_ones_and_never_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = arrays._Kept()
    monkeypatch.setattr(arrays, "_KEPT", kept)
    monkeypatch.setattr(arrays, "KEPT", 5 * arrays.HUGE)
    first = arrays.empty((arrays.LARGE,), np.uint8)
    first[:] = 7
    place, part = first.ctypes.data, first[5:].reshape(-1, 1)
    del first
    other = arrays.empty((arrays.LARGE,), np.uint8)
    other[:] = 8
    assert other.ctypes.data != place and (part == 7).all()  # a view holds all of it
    part.flags.writeable = False
    with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
        part.flags.writeable = True
    del part
    again = arrays.empty((arrays.LARGE // 8,), np.float64)
    assert again.ctypes.data == place and not np.shares_memory(again, other)
    small = arrays.empty((arrays.LARGE - 1,), np.uint8)
    assert not np.shares_memory(small, again)
    del again, other, small
    assert sum(part.nbytes for part in kept._parts.values()) <= arrays.KEPT and len(kept._parts) == 1
    before = list(kept._parts)
    arrays.empty((7 * arrays.HUGE,), np.uint8)  # too much alone: what there is stays
    assert list(kept._parts) == before
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(_is_alone, range(100)))


def _is_alone(k: int) -> bool:
    array = arrays.empty((arrays.LARGE + k,), np.uint8)
    array[:] = k
    return bool((array == k).all())


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
            few = schema.chunk_shape(stream, 3)  # a run of three rows has no larger chunks
            assert few == (min(3, chunk[0]), *chunk[1:])


def test_sealed_files_end_in_the_trailer(tmp_path: Path, whole: Path) -> None:
    for path in [whole, *begun(tmp_path / "run.h5").glob("seg-*")]:
        data, trailer = path.read_bytes()[:-48], path.read_bytes()[-48:]
        length, table = len(data), b""
        if path == whole:
            data, table = data[:-4], data[-4:]
        crcs = [zlib.crc32(data[start : start + (1 << 20)]) for start in range(0, len(data), 1 << 20)]
        digest = hashlib.sha256(np.array(crcs, "<u4").tobytes()).digest()
        assert trailer == (b"FBMSEG03" if table else b"FBMSEG02") + length.to_bytes(8, "little") + digest
        assert table in (b"", np.array(crcs, "<u4").tobytes())
