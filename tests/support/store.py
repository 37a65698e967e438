"""What the tests of the store share: a small run, how it is written, and what must be read of it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastbm._base.checks import StorageError
from fastbm.store import Memory, Stream, Writer, create, resume
from tests.support import crash

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
    with crash.memory_folder() as path:
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


@cache
def _whole_bytes() -> bytes:
    with crash.memory_folder() as folder:
        return complete(folder / "run.h5").read_bytes()


def completed(path: Path) -> Path:
    """Put a copy of one and the same whole run there, where it does not matter who wrote it."""
    path.write_bytes(_whole_bytes())
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


SEALS = (b"FBMSEG01", b"FBMSEG02", b"FBMSEG03")


def image_of(path: Path) -> bytes:
    """The bytes of a sealed file before its seal."""
    data = path.read_bytes()
    magic, length = data[-48:-40], len(data) - 48
    return data[: length - 4 * -(-length // ((1 << 20) + 4))] if magic == SEALS[2] else data[:length]


def seal(path: Path, data: bytes, magic: bytes = SEALS[2]) -> None:
    """Write a file with one of the seals that there have been: the last keeps its table of checksums."""
    table = b"".join(zlib.crc32(data[k : k + (1 << 20)]).to_bytes(4, "little") for k in range(0, len(data), 1 << 20))
    digest = hashlib.sha256(data if magic == SEALS[0] else table).digest()
    data += table if magic == SEALS[2] else b""
    path.write_bytes(data + magic + len(data).to_bytes(8, "little") + digest)


def refused(act: Callable[[], Any], text: str, *, error: type[Exception] = StorageError) -> None:
    with pytest.raises(error) as caught:
        act()
    assert text in str(caught.value)
