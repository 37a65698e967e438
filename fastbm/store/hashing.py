"""The sha256 of bytes in pieces, in a thread of its own where that is wanted."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

_BLOCK = 1 << 20


class Hash:
    """Hashes pieces one after the other; they must not change before `digest` or `stop` has returned.

    Parameters
    ----------
    pieces : sequence of memoryview
    beside : bool
        Begin at once, in another thread.
    """

    def __init__(self, pieces: Sequence[memoryview], *, beside: bool) -> None:
        self._pieces, self._digest, self._stopped = pieces, b"", False
        self._done = threading.Event()  # an interrupted join of a thread takes it for ended
        try:
            if beside:
                threading.Thread(target=self._hash_beside, name="fastbm-hash").start()
            else:
                self._done.set()
        except RuntimeError:  # no thread can be started while the interpreter ends
            self._done.set()

    def digest(self) -> bytes:
        """Wait for the end, and return the sha256 of all pieces."""
        self._done.wait()
        if not self._digest:
            self._hash()
        return self._digest

    def stop(self) -> None:
        """Give up, and return when no piece is in use."""
        self._stopped = True
        self._done.wait()

    def _hash_beside(self) -> None:
        try:
            self._hash()
        finally:
            self._done.set()

    def _hash(self) -> None:
        digest = hashlib.sha256()
        for piece in self._pieces:
            for first in range(0, len(piece), _BLOCK):
                if self._stopped:
                    return
                digest.update(piece[first : first + _BLOCK])
        self._digest = digest.digest()
