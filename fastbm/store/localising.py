"""Find the rows of a damaged merged file whose checksums are wrong.

HDF5 may crash on a file whose tables are damaged, so it reads such a file in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py

from . import hdf

LARGEST_PIECE = 16 << 20  # bytes of rows that are read at a time
Place = tuple[str, int, int]  # a stream, the first and the last of its rows


def damaged_rows(path: Path) -> list[Place] | None:
    """Return rows that HDF5 cannot read, to the chunk; None where it cannot read the file's tables either."""
    command = [sys.executable, "-m", __name__, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    return [(str(name), int(first), int(last)) for name, first, last in json.loads(done.stdout)]


def places(path: Path) -> Iterator[Place]:
    """Yield what `damaged_rows` returns; may crash."""
    with h5py.File(path, "r") as file:
        for name, stream in hdf.read_streams(file).items():
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


if __name__ == "__main__":
    json.dump(list(places(Path(sys.argv[1]))), sys.stdout)
