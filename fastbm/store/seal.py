"""The hash that seals a file: the sha256 of the CRC-32s of its blocks.

The table of these stands in the file too, so that each block can be checked alone.

Where a processor has no instructions for sha256, to hash the bytes with it takes five to seven times as long, and
longer than to write them to a disk.

A CRC-32 finds every change of one or two bits of a block, every burst of up to 32, and all but one in 2^32 of all
others (P. Koopman, 32-bit cyclic redundancy codes for Internet applications, DSN 2002, doi:10.1109/DSN.2002.1028931).
It tells files apart by chance alone, not against one who means to forge them; which run a segment is of, and where it
belongs, stands in the record of its header.
"""

from __future__ import annotations

import hashlib
import zlib

BLOCK = 1 << 20
CRC = 4  # bytes of one entry of a table


class BlockHash:
    """A hasher with the methods of those of `hashlib`, which takes a file's bytes in order, in pieces of any length."""

    def __init__(self) -> None:
        self._table = bytearray()
        self._crc = self._n_bytes = 0  # of the block that is not full

    def update(self, data: memoryview) -> None:
        """Add bytes to the hash."""
        start = 0
        while start < len(data):
            piece = data[start : start + BLOCK - self._n_bytes]
            self._crc = zlib.crc32(piece, self._crc)
            self._n_bytes += len(piece)
            start += len(piece)
            if self._n_bytes == BLOCK:
                self._end_block()

    def table(self) -> bytes:
        """Return the CRC-32s of all blocks, four bytes each, the lowest first; no bytes may follow."""
        if self._n_bytes:
            self._end_block()
        return bytes(self._table)

    def digest(self) -> bytes:
        """Return the hash of all bytes, as often as asked; no bytes may follow."""
        return hash_of_table(self.table())

    def _end_block(self) -> None:
        self._table += self._crc.to_bytes(CRC, "little")
        self._crc = self._n_bytes = 0


def hash_of_table(table: bytes) -> bytes:
    """Return the hash of a file whose blocks have these CRC-32s."""
    return hashlib.sha256(table).digest()


def bytes_before_table(length: int) -> int:
    """Return how many of `length` bytes come before the table of their CRC-32s, which `length` includes."""
    return length - CRC * -(-length // (BLOCK + CRC))
