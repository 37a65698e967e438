"""The places of a stream's rows in a merged file, where these lie there as they do in memory.

HDF5 tells where chunks are, and their bytes are rows with a checksum behind them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

FLETCHER32, SUM_BYTES = 3, 4  # HDF5's number of the filter, and what it adds to a chunk


def split_axis(chunk: tuple[int, ...], shape: tuple[int, ...]) -> int | None:
    """Return the one axis along which chunks cut the rows; None where a chunk is no run of bytes in memory."""
    axis = next((k for k, n in enumerate(chunk) if n > 1), 0)
    return axis if chunk[axis + 1 :] == shape[axis + 1 :] else None


def chunk_places(dataset: h5py.Dataset) -> np.ndarray | None:
    """Return where each chunk lies: (chunks of rows, chunks of one row), int64.

    None where some are not there, or are not rows as they are in memory, with one checksum.
    """
    if dataset.dtype.kind not in "biufc" or dataset.dtype.hasobject or not hasattr(dataset.id, "chunk_iter"):
        return None  # HDF5 before 1.12.3 lists chunks in quadratic time
    layout = dataset.id.get_create_plist()
    filters = [layout.get_filter(k)[0] for k in range(layout.get_nfilters())]
    chunk, shape = dataset.chunks, dataset.shape
    if filters != [FLETCHER32] or not all(shape) or split_axis(chunk, shape) is None:
        return None
    counts = tuple(-(-n // size) for n, size in zip(shape, chunk, strict=True))
    n_bytes = math.prod(chunk) * dataset.dtype.itemsize + SUM_BYTES
    found: list[Any] = []
    dataset.id.chunk_iter(found.append)
    corners = np.array([one.chunk_offset for one in found], np.int64).reshape(-1, len(shape)) // chunk
    if any(one.filter_mask or one.size != n_bytes for one in found) or (corners >= counts).any():
        return None
    places = np.zeros(counts, np.int64)
    places[tuple(corners.T)] = [one.byte_offset for one in found]
    return places.reshape(counts[0], -1) if places.all() else None


def runs(dataset: h5py.Dataset, places: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield place and number of the bytes of rows, run by run, in the order in which they follow in memory."""
    chunk, shape = dataset.chunks, dataset.shape
    axis = split_axis(chunk, shape)
    assert axis is not None
    step = dataset.dtype.itemsize * math.prod(shape[axis + 1 :])
    if axis == 0:
        for number in range(start // chunk[0], -(-stop // chunk[0])):
            first = number * chunk[0]
            low, high = max(start, first), min(stop, first + chunk[0])
            yield int(places[number, 0]) + (low - first) * step, (high - low) * step
        return
    corners = itertools.product(*(range(0, n, size) for n, size in zip(shape[1 : axis + 1], chunk[1:], strict=False)))
    sizes = [min(chunk[axis], shape[axis] - corner[-1]) * step for corner in corners]
    for row in range(start, stop):
        yield from zip(places[row].tolist(), sizes, strict=True)
