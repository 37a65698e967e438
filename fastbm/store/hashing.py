"""The sha256 of bytes in pieces, in a thread of its own where that is wanted."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from contextlib import suppress


class Hash:
    """Hashes pieces one after the other; they must not change before `digest` has returned.

    Parameters
    ----------
    pieces : sequence of memoryview
    beside : bool
        Begin at once, in another thread.
    """

    def __init__(self, pieces: Sequence[memoryview], *, beside: bool) -> None:
        self._pieces, self._digest = pieces, b""
        self._thread: threading.Thread | None = None
        if beside:
            thread = threading.Thread(target=self._hash, name="fastbm-hash")
            with suppress(RuntimeError):  # no thread can be started while the interpreter ends
                thread.start()
                self._thread = thread

    def digest(self) -> bytes:
        """Wait for the end, and return the sha256 of all pieces."""
        if self._thread is not None:
            self._thread.join()
        if not self._digest:
            self._hash()
        return self._digest

    def _hash(self) -> None:
        digest = hashlib.sha256()
        for piece in self._pieces:
            digest.update(piece)
        self._digest = digest.digest()
