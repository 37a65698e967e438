"""What the file objects that HDF5 writes to have in common: a place, a size, and ways to move."""

from __future__ import annotations

import io
import os


class Placed(io.RawIOBase):
    """A file object that knows its place and its size; reading and writing are left to others.

    Attributes
    ----------
    place, size : int
        Where the next read or write begins, and the length of the file.
    """

    def __init__(self) -> None:
        self.place, self.size = 0, 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place in the file."""
        self.place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.place, os.SEEK_END: self.size}[whence]
        return self.place

    def tell(self) -> int:
        return self.place

    def passed(self, n_bytes: int) -> int:
        """Move on behind what was written; return how much it was."""
        self.place += n_bytes
        self.size = max(self.size, self.place)
        return n_bytes

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        self.size = self.place if size is None else size
        return self.size
