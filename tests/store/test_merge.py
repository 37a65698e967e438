"""The merge: its chunks are those of HDF5, and it finds what is not as the segments have it."""

from __future__ import annotations

import hashlib
import itertools
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fastbm.store import Stream, create, disk, hdf, merge_parts, open_reader, resume, seal as blockhash
from fastbm.store.merge import write as merging
from fastbm.store.merge.file import DiskFile, fletcher32
from fastbm.store.merge.write import kept_rows
from fastbm.store.names import Names
from fastbm.store.segment import Header
from fastbm.store.verification import verify
from tests.support import crash, store
from tests.support.store import refused
from tests.twins import reference

tmp_path = store.tmp_path
STREAMS = {
    "a/bytes": Stream("|u1", (3,)),
    "a/one": Stream("|u1"),
    "b/wide": Stream("<f8", (37, 5000)),
    "b/split": Stream("|u1", (3, 400_000)),
    "b/deep": Stream("<i2", (2, 3, 100_001)),
    "c/flags": Stream("|b1", (5,)),
    "c/complex": Stream("<c16", (2, 2)),
    "c/half": Stream("<f2", (7,)),
    "c/none": Stream("<f4", (0,)),
    "c/empty": Stream("<f8"),
    "d/text": Stream("str"),
    "d/number": Stream("<i8", (), {"unit": "sweeps"}),
}
BLOCKS = (1, 0, 3, 2)  # rows of each
FEW = (1, 0, 1)  # where they are compressed


def rows_of(name: str, n_rows: int, seed: int) -> np.ndarray:
    rng, stream = np.random.default_rng([seed, len(name)]), STREAMS[name]
    if name == "c/empty":
        n_rows = 0
    if name == "a/one":
        n_rows *= 50_000
    if stream.dtype == "str":
        return np.array([f"{seed}-{k}-ü" for k in range(n_rows)], object)
    n_bytes = n_rows * stream.row_bytes
    if stream.dtype == "|b1":
        return rng.integers(0, 2, (n_rows, *stream.shape)).astype(bool)
    if stream.dtype in ("<c16", "<f2", "<f4", "<f8"):
        return rng.normal(size=(n_rows, *stream.shape)).astype(stream.dtype)
    return np.frombuffer(rng.bytes(n_bytes), stream.dtype).reshape(n_rows, *stream.shape)


def write(path: Path, blocks: tuple[int, ...] = BLOCKS, **options: Any) -> None:
    with create(path, spec={}, streams=STREAMS, state={"k": 0}, merge=False, **options) as writer:
        for seed, n_rows in enumerate(blocks):
            writer.append({name: rows_of(name, n_rows, seed) for name in STREAMS}, dict)
            writer.commit({"k": seed})
        writer.finish({"k": len(blocks)})


def expected(name: str, blocks: tuple[int, ...] = BLOCKS) -> np.ndarray:
    return np.concatenate([rows_of(name, n_rows, seed) for seed, n_rows in enumerate(blocks)])


def check(path: Path, blocks: tuple[int, ...] = BLOCKS) -> None:
    with h5py.File(path) as file:
        for name, stream in STREAMS.items():
            found = hdf.read_rows(file[name], slice(None))
            assert found.shape == expected(name, blocks).shape
            assert np.array_equal(found, expected(name, blocks)), name
            assert file[name].fletcher32 == (stream.dtype != "str")
            assert hdf.read_attributes(file[name].id) == stream.attrs
    assert verify(path).sound


def test_any_rows_are_merged_as_hdf5_would_write_them(tmp_path: Path) -> None:
    write(tmp_path / "run.h5")
    merge_parts(tmp_path / "run.h5")
    check(tmp_path / "run.h5")
    with h5py.File(tmp_path / "run.h5") as file, h5py.File(tmp_path / "twin.h5", "w", libver="earliest") as twin:
        for name, stream in STREAMS.items():
            dataset = hdf.declare(twin, name, stream, None, len(file[name]))
            dataset.resize(file[name].shape)
            if dataset.size:
                dataset[...] = hdf.read_rows(file[name], slice(None))
            n_chunks = dataset.id.get_num_chunks()
            assert file[name].id.get_num_chunks() == n_chunks
            for k in range(n_chunks if stream.dtype != "str" else 0):
                corner = dataset.id.get_chunk_info(k).chunk_offset
                assert file[name].id.read_direct_chunk(corner) == dataset.id.read_direct_chunk(corner), (name, corner)


def test_the_file_depends_on_rows_alone_and_not_on_commits(tmp_path: Path) -> None:
    images = []
    for k, commits in enumerate(((0, 1, 2, 3), (3,))):
        path = tmp_path / f"{k}.h5"
        with create(path, spec={}, streams=STREAMS, state={"k": 0}) as writer:
            for seed, n_rows in enumerate(BLOCKS):
                writer.append({name: rows_of(name, n_rows, seed) for name in STREAMS}, dict)
                if seed in commits:
                    writer.commit({"k": seed})
            writer.finish({"k": len(BLOCKS)})
        check(path)
        with h5py.File(path) as file:
            infos = [file["b/split"].id.get_chunk_info(i) for i in range(file["b/split"].id.get_num_chunks())]
            images.append([info.byte_offset for info in infos])
    assert images[0] == images[1]


def test_pieces_of_a_segment_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "run.h5")
    monkeypatch.setattr("fastbm.store.merge.write.PIECE", 100_003)
    monkeypatch.setattr("fastbm.store.merge.file._LEAST", 1000)
    merge_parts(tmp_path / "run.h5")
    check(tmp_path / "run.h5")


@pytest.mark.parametrize("place", [0.5, 0.97])
def test_a_segment_that_is_damaged_before_or_in_the_merge_is_named(tmp_path: Path, place: float) -> None:
    path = tmp_path / "run.h5"
    write(path)
    segment = Names(path).segment(3)
    data = bytearray(segment.read_bytes())
    data[int(place * len(data))] ^= 16
    segment.write_bytes(data)
    text = "seg-00000003.h5 is damaged: sha256 differs. Blocks 0-1 are whole; resume the run"
    refused(lambda: merge_parts(path), text)
    assert sorted(os.listdir(tmp_path)) == ["run.h5.parts"]


def test_a_state_that_is_damaged_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.store.commit.LARGE_STATE_BYTES", 0)
    path = tmp_path / "run.h5"
    write(path)
    last = Names(path).segment_numbers()[-1]
    Names(path).state(last).unlink()
    refused(lambda: merge_parts(path), f"seg-{last:08d}.h5 has no whole state: the file of its state is missing.")
    assert sorted(os.listdir(tmp_path)) == ["run.h5.parts"]


def test_what_the_disk_made_of_a_chunk_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.h5"
    write(path)
    original = disk.write

    def flip(handle: int, data: memoryview, offset: int) -> int:
        if len(data) > 300_000:
            data = memoryview(bytes(data[:1000]) + bytes([data[1000] ^ 1]) + bytes(data[1001:]))
        return original(handle, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write", flip)
        refused(lambda: merge_parts(path), "of the merged file differs from the parts")
    assert sorted(os.listdir(tmp_path)) == ["run.h5.parts"]
    merge_parts(path)
    check(path)


def test_texts_and_compressed_rows_are_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.h5"
    write(path, FEW, compression="gzip")
    monkeypatch.setattr(merging, "batch_rows", lambda stream: max(1, 60_000 // (stream.row_bytes or 60_000)))
    with monkeypatch.context() as patch:
        copy = merging._copy
        patch.setattr(merging, "_copy", lambda *arguments: copy(*arguments) and "0")
        refused(lambda: merge_parts(path), "differs from the parts, which were kept")
    merge_parts(path)
    check(path, FEW)


def test_no_threads_are_left(tmp_path: Path) -> None:
    import threading

    before = threading.active_count()
    write(tmp_path / "run.h5")
    merge_parts(tmp_path / "run.h5")
    assert threading.active_count() == before


def test_a_longer_run_is_merged_with_its_first_part(tmp_path: Path) -> None:
    path, whole = tmp_path / "run.h5", tmp_path / "whole.h5"
    for one, n_first in ((path, 2), (whole, 4)):
        with create(one, spec={"n": n_first}, streams=STREAMS, state={"k": 0}) as writer:
            for seed, n_rows in enumerate(BLOCKS[:n_first]):
                writer.append({name: rows_of(name, n_rows, seed) for name in STREAMS}, dict)
            writer.finish({"k": n_first})
    with resume(path, extend_spec={"n": 4}) as writer:
        for seed in (2, 3):
            writer.append({name: rows_of(name, BLOCKS[seed], seed) for name in STREAMS}, dict)
            writer.commit({"k": seed})
        writer.finish({"k": 4})
    crash.assert_same_run(whole, path)
    check(path)
    assert np.array_equal(open_reader(path).read("b/split"), expected("b/split"))


def header(first: list[int], count: list[int]) -> Header:
    return Header("", 0, 0, 0, "", "", index=np.array([first, count], np.int64).T)


def test_rows_that_later_segments_replace_do_not_count() -> None:
    headers = [header([8, 4], [0, 0]), header([8, 4], [5, 1]), header([13, 5], [2, 2]), header([9, 7], [3, 0])]
    base, kept = kept_rows(headers, np.array([8, 4]))
    assert base.tolist() == [8, 4]
    assert [one.tolist() for one in kept] == [[0, 0], [1, 1], [0, 2], [3, 0]]
    base, kept = kept_rows([header([8, 4], [0, 0]), header([6, 4], [1, 0])], np.array([8, 4]))
    assert base.tolist() == [6, 4]
    assert [one.tolist() for one in kept] == [[0, 0], [1, 0]]


@pytest.mark.parametrize("n_bytes", [0, 1, 2, 3, 127, 128, 129, 130, 4097, 32_768, 32_770, 65_537])
def test_the_checksum_is_that_of_hdf5(tmp_path: Path, n_bytes: int) -> None:
    rng = np.random.default_rng(n_bytes)
    for data in (rng.integers(0, 256, n_bytes, np.uint8), np.zeros(n_bytes, np.uint8), np.full(n_bytes, 255, np.uint8)):
        found = fletcher32(bytearray(data))
        assert found == reference.fletcher32(data.tobytes())
        if n_bytes:
            with h5py.File(tmp_path / "one.h5", "w") as file:
                dataset = file.create_dataset("a", data=data, chunks=(n_bytes,), fletcher32=True)
                assert dataset.id.read_direct_chunk((0,))[1][-4:] == found


@pytest.mark.parametrize("n_bytes", [0, 1, 99, 100, 101, 300, 1234])
def test_the_block_hash_is_that_of_the_crcs_of_blocks(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    monkeypatch.setattr(blockhash, "BLOCK", 100)
    rng = np.random.default_rng(n_bytes)
    data = rng.bytes(n_bytes)
    crcs = [reference.crc32(data[start : start + 100]) for start in range(0, n_bytes, 100)]
    for n_cuts in (0, 1, 20):
        found = blockhash.BlockHash()
        for low, high in itertools.pairwise([0, *sorted(rng.integers(0, n_bytes + 1, n_cuts).tolist()), n_bytes]):
            found.update(memoryview(data)[low:high])
        assert found.digest() == hashlib.sha256(b"".join(crc.to_bytes(4, "little") for crc in crcs)).digest()


def test_a_merged_file_that_cannot_be_made_is_closed_all_the_same() -> None:
    DiskFile.__new__(DiskFile).close()  # as Python does, which tells of errors there from 3.13 on
