"""The checksum that HDF5's filter "fletcher32" puts behind each chunk of a dataset."""

from __future__ import annotations

import sys

import numpy as np

from ..kernels.fletcher import MODULUS, sum_words

SIZE = 4  # bytes


def fletcher32(data: bytearray | memoryview) -> bytes:
    """Return the checksum of some bytes, as it stands behind them in a file.

    A word whose bytes are exchanged is 256 times itself modulo 65535, and so are the sums of such words.
    """
    if len(data) % 2:
        data = bytearray(data) + b"\0"
    sums = np.zeros(2, np.uint64)
    sum_words(np.frombuffer(data, np.uint16), sums)
    factor = 256 if sys.byteorder == "little" else 1
    once, twice = ((int(one) * factor - 1) % MODULUS + 1 if one else 0 for one in sums)
    return (twice << 16 | once).to_bytes(SIZE, "little")
