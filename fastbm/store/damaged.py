"""Rows of a damaged merged file that cannot be read, to the chunk; HDF5 looks for them in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py

from . import apart, hdf
from .image import open_image

LARGEST_PIECE = 16 << 20  # bytes of rows that are read at a time
SLOWEST = 20e6  # bytes that are read in a second
Place = tuple[str, int, int]  # a stream, the first and the last of its rows


def damaged_rows(path: Path) -> list[Place] | None:
    """Return rows that HDF5 cannot read, to the chunk; None where it cannot read the file's tables either."""
    try:
        found = apart.call(unreadable_rows, str(path), apart.SECONDS + path.stat().st_size / SLOWEST)
    except apart.Lost:
        return None
    return [(str(name), int(first), int(last)) for name, first, last in found]


def unreadable_rows(path: str) -> list[Place]:
    """Return what `damaged_rows` returns; HDF5 may crash the process."""
    return list(_places(Path(path)))


def _places(path: Path) -> Iterator[Place]:
    with open_image(path) as file:
        for name, stream in hdf.read_streams(file)[0].items():
            rows = file[name]
            step = rows.chunks[0]
            n_chunks = max(1, LARGEST_PIECE // max(1, step * stream.row_bytes))
            first = end = 0
            for piece in range(0, len(rows), step * n_chunks):
                if _is_readable(rows, piece, piece + step * n_chunks):
                    continue
                for start in range(piece, min(piece + step * n_chunks, len(rows)), step):
                    if _is_readable(rows, start, start + step):
                        continue
                    if end > first and start > end:
                        yield name, first, end - 1
                        first = end
                    first = first if end > first else start
                    end = min(start + step, len(rows))
            if end > first:
                yield name, first, end - 1


def _is_readable(rows: h5py.Dataset, start: int, stop: int) -> bool:
    try:
        hdf.read_rows(rows, slice(start, min(stop, len(rows))))
    except (OSError, RuntimeError, ValueError):
        return False
    return True
