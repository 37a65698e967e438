"""Read a file back while it is written, from its start to its end, and hash what it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from .._checks import StorageError
from .blockhash import BlockHash
from .checksum import SIZE, fletcher32

_BLOCK = 1 << 20
_LEAST = 4 << 20  # bytes for which it pays to wake the other thread


class Follower:
    """Hashes a file behind the one who fills the holes in it, in a thread of its own.

    Each chunk that fills a hole is compared with its checksum, and that with the one that was meant.

    Parameters
    ----------
    handle : int
        The file, all of it written but the holes.
    size : int
        Its length.
    holes : iterable of (int, int)
        Place and length of each.
    """

    def __init__(self, handle: int, size: int, holes: Iterable[tuple[int, int]]) -> None:
        self._handle, self._size = handle, size
        self._holes = sorted(holes)
        self._meant: dict[int, bytes] = {}  # checksums by the places of chunks
        self._n_filled = self._n_checked = 0  # of the holes, from the first on
        self._asked = 0  # bytes that the thread is to hash, or has
        self._digest = BlockHash()
        self._buffer = memoryview(bytearray(max([min(size, _BLOCK), *(size for _, size in self._holes)])))
        self._thread = ThreadPoolExecutor(1, "fastbm-merge")
        self._parts: list[Future[None]] = []

    def filled(self, place: int, checksum: bytes) -> None:
        """Take note that a hole is filled with a chunk."""
        self._meant[place] = checksum
        while self._n_filled < len(self._holes) and self._holes[self._n_filled][0] in self._meant:
            self._n_filled += 1
        if self._n_filled < len(self._holes) and self._holes[self._n_filled][0] - self._asked >= _LEAST:
            self._follow(self._holes[self._n_filled][0])

    def end(self) -> bytes:
        """Return the hash of the whole file, in which there is no hole left."""
        if self._n_filled < len(self._holes):
            raise StorageError(f"{len(self._holes) - self._n_filled} chunks of the merged file were not filled.")
        if self._asked:
            self._follow(self._size)
        else:  # too little was filled to wake the other thread
            self._hash(0, self._size)
        while self._parts:
            self._parts.pop(0).result()
        return self._digest.digest()

    def close(self) -> None:
        """Wait for the thread; what it has not begun is dropped."""
        self._thread.shutdown(cancel_futures=True)

    def _follow(self, end: int) -> None:
        while self._parts and self._parts[0].done():
            self._parts.pop(0).result()
        self._parts.append(self._thread.submit(self._hash, self._asked, end))
        self._asked = end

    def _hash(self, start: int, end: int) -> None:
        while start < end:
            hole, size = self._holes[self._n_checked] if self._n_checked < len(self._holes) else (end, 0)
            if hole == start and size:
                chunk = self._read(start, size)
                if not chunk[-SIZE:] == self._meant.pop(start) == fletcher32(chunk[:-SIZE]):
                    raise StorageError(f"the chunk at byte {start} of the merged file differs from the parts.")
                self._n_checked += 1
            else:
                size = min(len(self._buffer), hole - start, end - start)
                chunk = self._read(start, size)
            self._digest.update(chunk)
            start += size

    def _read(self, start: int, size: int) -> memoryview:
        view = self._buffer[:size]
        n_read = 0
        while n_read < size:
            some = os.preadv(self._handle, [view[n_read:]], start + n_read)
            if not some:
                raise StorageError(f"the merged file ends at byte {start + n_read}; it was cut while it was written.")
            n_read += some
        return view
