"""The hash that seals a file, the sha256 of the CRC-32s of its blocks, and the files known to fit theirs.

Where a processor has no instructions for sha256, to hash the bytes with it takes five to seven times as long, and
longer than to write them to a disk.

A CRC-32 finds every change of one or two bits of a block, every burst of up to 32, and all but one in 2^32 of all
others (P. Koopman, 32-bit cyclic redundancy codes for Internet applications, DSN 2002, doi:10.1109/DSN.2002.1028931).
It tells files apart by chance alone, not against one who means to forge them; which run a segment is of, and where it
belongs, stands in the record of its header.

Merged files that this process has sealed, and read back as it did, are noted: opening one need not read it all again.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections import OrderedDict
from pathlib import Path

BLOCK = 1 << 20
_KEPT = 64


class BlockHash:
    """Takes the bytes of a file in order, in pieces of any length, as the hashes of `hashlib` do."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._crc = self._n_bytes = 0  # of the block that is not full

    def update(self, data: memoryview) -> None:
        """Take some more bytes."""
        start = 0
        while start < len(data):
            piece = data[start : start + BLOCK - self._n_bytes]
            self._crc = zlib.crc32(piece, self._crc)
            self._n_bytes += len(piece)
            start += len(piece)
            if self._n_bytes == BLOCK:
                self._end_block()

    def digest(self) -> bytes:
        """Return the hash of all bytes, whenever asked; none may follow."""
        if self._n_bytes:
            self._end_block()
        return self._digest.digest()

    def _end_block(self) -> None:
        self._digest.update(self._crc.to_bytes(4, "little"))
        self._crc = self._n_bytes = 0


# How files stood when they were sealed, by the hash in their trailers.
_known: OrderedDict[str, tuple[int, ...]] = OrderedDict()


def note(path: Path, digest: str) -> None:
    """Remember that a file, which bears its final name, is what its trailer claims."""
    _known[digest] = _stand(path)
    if len(_known) > _KEPT:
        _known.popitem(last=False)


def is_known(path: Path, digest: str) -> bool:
    """Whether a file was noted and nothing has written to it, moved or copied it since.

    What was written between the sealing and the note counts as sealed; `check_hash` and `fastbm verify` find that.
    """
    return _known.get(digest) == _stand(path)


def _stand(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
