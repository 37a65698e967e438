"""Find the rows of a damaged merged file whose checksums are wrong.

HDF5 may crash on a file whose tables are damaged, or believe in rows without end, so it reads such a file in a process
of its own that has little memory and time.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import h5py

from . import hdf

LARGEST_PIECE = 16 << 20  # bytes of rows that are read at a time
LARGEST_MEMORY = 8 << 30  # addresses: libraries reserve far more than they use
SECONDS, SLOWEST = 60.0, 20e6  # for the start of a process, and bytes that are read in a second
Place = tuple[str, int, int]  # a stream, the first and the last of its rows


def damaged_rows(path: Path) -> list[Place] | None:
    """Return rows that HDF5 cannot read, to the chunk; None where it cannot read the file's tables either."""
    command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()", str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
    seconds = SECONDS + path.stat().st_size / SLOWEST
    try:
        done = subprocess.run(command, env=environment, timeout=seconds, capture_output=True, text=True, check=True)
    except (subprocess.SubprocessError, OSError):
        return None
    return [(str(name), int(first), int(last)) for name, first, last in json.loads(done.stdout)]


def main() -> None:
    """Print what `places` finds in the file that the command line names."""
    resource.setrlimit(resource.RLIMIT_AS, (LARGEST_MEMORY, LARGEST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ImportError):  # where it is missing, rows that need it cannot be read
        hdf.zstd()
    json.dump(list(places(Path(sys.argv[1]))), sys.stdout)


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
