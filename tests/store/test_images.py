"""Images of segments: what HDF5 reads of them, the record of the header behind them, and what a flipped bit does."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fastbm.store import Stream, disk, open_reader, resume, schema, segment
from fastbm.store.image import SMALL, TAIL, Damaged, Foreign, build_image, write_sealed
from fastbm.store.names import Names
from fastbm.store.segment import Header, pack_record, read_header
from fastbm.store.verification import verify
from tests.support import crash, store
from tests.support.store import STREAMS, append, begin, begun, check_rows, complete, state_after

tmp_path = store.tmp_path
whole = store.whole

ROWS = {
    "samples/states": [np.arange(12 * n, dtype=np.uint8).reshape(n, 4, 3) for n in (1, 9000, 2, 7000)],
    "samples/energy": [np.linspace(0, 1, 4 * n).reshape(n, 4) for n in (5, 6)],
    "metrics/note": [np.array(["", "ü"], object), np.array(["x" * 70_000], object)],
    "meta/seconds": [np.zeros(3 * SMALL // 8)],
}
STATE = {
    "a/large": np.arange(SMALL, dtype=np.int64), "a/none": np.empty((0, 3)), "b": np.array(7, np.uint64),
    "c": np.array([True, False]), "d": np.array([1j, 2]), "e": np.array(["one", "zwei"], object),
}  # fmt: skip


def header_of(**values: Any) -> Header:
    values = {"segment": 3, "first_block": 20, "n_blocks": 2, **values}
    index = np.array([[10, 3], [5, 11], [0, 16012], [7, 2]])
    return Header("a" * 32, spec_sha256="b" * 64, prev_sha256="c" * 64, **{"index": index, **values})


def contents_of(**values: Any) -> segment.Contents:
    return segment.Contents(schema.check_streams(STREAMS), ROWS, STATE, {"written": 1.5, "note": "ü"}, **values)


def same(one: Header, other: Header) -> bool:
    """Whether two headers agree in all but the hash of their file."""
    return repr(replace(one, sha256="")) == repr(replace(other, sha256=""))


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_hdf5_reads_what_was_put(tmp_path: Path, compression: str | None) -> None:
    header, path = header_of(finished=True), tmp_path / "seg-00000003.h5"
    contents = contents_of(compression=compression, spec="{}", inputs={"w": np.eye(300)})
    write_sealed(segment.segment_image(header, contents), path)
    with h5py.File(path) as file:
        for name, blocks in ROWS.items():
            found = file[name].asstr()[()] if name == "metrics/note" else file[name][()]
            assert np.array_equal(found, np.concatenate(blocks))
            assert file[name].compression == (compression if name != "metrics/note" else None)
        for name, array in STATE.items():
            found = file["state"][name]
            assert found.shape == array.shape
            assert (found.asstr()[()] if name == "e" else found[()]).tolist() == array.tolist()
        assert np.array_equal(file["inputs/w"][()], np.eye(300))
        assert file["spec"].asstr()[()] == "{}"
        assert dict(file["meta"].attrs) == {"written": 1.5, "note": "ü"}
        assert file.attrs["format"] == "fastbm"
        assert tuple(file.attrs["format_version"]) == schema.FORMAT_VERSION
        assert file.attrs["format_version"].dtype == np.int32
        assert (file.attrs["first_block"], file.attrs["finished"], file.attrs["base_sha256"]) == (20, 1, "")
        assert np.array_equal(file["index"][()], header.index)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_images_have_the_same_bytes_again(compression: str | None) -> None:
    contents = contents_of(compression=compression)
    first = bytes(segment.segment_image(header_of(), contents))
    junk = [np.random.default_rng(k).bytes(1000 * k) for k in range(50)]
    copied = {name: [np.array(block) for block in blocks] for name, blocks in ROWS.items()}
    assert len(junk) == 50
    assert bytes(segment.segment_image(header_of(), replace(contents, rows=copied))) == first


def test_an_image_is_whole_though_somebody_holds_its_file() -> None:
    held: list[Any] = []  # as a profiler that looks at the frames of threads does, such as that of a Dask worker

    def fill(file: h5py.Group, hold: bool) -> None:
        dataset = file.create_group("g").create_dataset("x", data=np.arange(50.0))
        held.append((dataset, file.file) if hold else None)

    images = [bytes(build_image(lambda file, put, hold=hold: fill(file, hold))) for hold in (False, True)]
    assert images[0] == images[1]
    assert not held[1][1]


def test_an_image_costs_little_memory_beside_its_rows() -> None:
    rows = {"x": [np.ones((1 << 14, 128)) for _ in range(2)]}  # 32 MiB
    contents = segment.Contents({"x": Stream("<f8", (128,))}, rows, {}, {})
    segment.segment_image(header_of(), contents)
    tracemalloc.start()
    image = segment.segment_image(header_of(), contents)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(image) > 32 << 20
    assert peak < 1 << 20


def test_the_disk_is_given_a_megabyte_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def note(handle: int, data: memoryview, offset: int) -> int:
        sizes.append(len(data))
        return write(handle, data, offset)

    image = segment.segment_image(header_of(), contents_of(inputs={"w": np.ones(1 << 19)}))
    write = disk.write
    with monkeypatch.context() as patch:
        patch.setattr(disk, "write", note)
        write_sealed(image, tmp_path / "x.h5")
    assert sum(sizes) == len(image) + 48 == (tmp_path / "x.h5").stat().st_size
    assert max(sizes) == 1 << 20


@pytest.mark.parametrize("n_whole", [0, 1, 5])
def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_whole: int) -> None:
    image, write = segment.segment_image(header_of(), contents_of(inputs={"w": np.ones(1 << 19)})), disk.write
    offsets = []

    def fail(handle: int, data: memoryview, offset: int) -> int:
        offsets.append(offset)
        if len(offsets) > n_whole or offset == len(image):
            raise OSError(28, "No space left on device")
        return write(handle, data, offset)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(disk, "write", fail)
        write_sealed(image, tmp_path / "x.h5")
    assert (len(offsets) == n_whole + 1) or offsets[-1] == len(image)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("n_streams", [0, 4, 3000])
@pytest.mark.parametrize("hashed", [False, True])
def test_a_record_gives_the_header_back(tmp_path: Path, n_streams: int, hashed: bool) -> None:
    index = np.random.default_rng(n_streams).integers(0, 2**53, (n_streams, 2))
    header = header_of(index=index, finished=True, base_sha256="d" * 64, state_sha256="e" * 64, first_block=2**50)
    path = tmp_path / "seg-00000003.h5"
    digest = write_sealed(segment.segment_image(header, segment.Contents({}, {}, {}, {})), path)
    found = read_header(path, "x", hashed=hashed)
    assert same(found, header)
    assert found.sha256 == digest
    assert found.index.dtype == np.int64
    assert (len(pack_record(header)) > TAIL) is (n_streams == 3000)


def test_segments_without_a_record_are_read_and_resumed(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.h5"
    with monkeypatch.context() as patch:
        patch.setattr(segment, "pack_record", lambda header: b"")
        parts = begun(path)
    assert verify(path).sound
    with open_reader(path) as reader:
        check_rows(reader, 6)
    one = parts / "seg-00000003.h5"
    for place in (b"prev_sha256", b"n_blocks"):
        good = one.read_bytes()
        bad = bytearray(good)
        bad[good.index(place)] ^= 1
        one.write_bytes(bad)
        with pytest.raises(Damaged, match="sha256 differs"):
            read_header(one, "x", hashed=False)
        one.write_bytes(good)
    complete(path)
    crash.assert_same_run(whole, path)


@pytest.mark.parametrize("step", [23, pytest.param(5, marks=pytest.mark.slow)])
def test_no_flipped_bit_changes_a_header(tmp_path: Path, step: int) -> None:
    path = begun(tmp_path / "run.h5") / "seg-00000003.h5"
    good, header = path.read_bytes(), read_header(path, "x", hashed=True)
    n_tail = len(pack_record(header)) + 48
    tail = range(8 * (len(good) - n_tail) + random.Random(0).randrange(step), 8 * len(good), step)
    image = random.Random(1).sample(range(8 * (len(good) - n_tail)), 50)
    for bit in [*tail, *image]:
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        with pytest.raises((Damaged, Foreign)):
            read_header(path, "x", hashed=True)
        try:
            found = read_header(path, "x", hashed=False)
        except (Damaged, Foreign):
            continue
        assert same(found, header)
        if bit < 8 * (len(good) - 32):
            assert found.sha256 == header.sha256
        else:
            assert found.sha256 != header.sha256  # the next segment does not follow on it


def test_a_record_that_differs_from_the_attributes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.h5"
    real = segment.pack_record
    for change in ({"base_sha256": "f" * 64}, {"index": np.array([[0, 1]] * 4)}, {"finished": True}):
        with begin(path, overwrite=True) as writer:
            append(writer, 0, 1)
            with monkeypatch.context() as patch:
                patch.setattr(segment, "pack_record", lambda header, change=change: real(replace(header, **change)))
                append(writer, 1, 2)
        (problem,) = verify(path).problems
        assert "seg-00000002.h5 is damaged: its" in problem


def test_a_flipped_hash_in_the_trailer_of_an_unhashed_segment_is_found(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastbm.store.resumption.HASHED_ON_RESUME", 1)
    path = tmp_path / "run.h5"
    one = begun(path) / "seg-00000003.h5"
    data = bytearray(one.read_bytes())
    data[-5] ^= 16
    one.write_bytes(data)
    with pytest.warns(UserWarning, match=r"seg-00000003.h5 is damaged: sha256 differs. Blocks 0-1 are whole"):
        resume(path).close()
    assert Names(path).segment_numbers() == [0, 1, 2]
    with resume(path) as writer:
        append(writer, 2, store.N_BLOCKS)
        writer.finish(state_after(store.N_BLOCKS))
    crash.assert_same_run(whole, path)
