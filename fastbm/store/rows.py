"""Check and copy the rows of one block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._checks import nearest
from .hdf import as_array
from .schema import Arrays, Stream, check_names


def copy_rows(rows: Mapping[str, Any], streams: Mapping[str, Stream]) -> Arrays:
    """Return copies in the streams' dtypes; refuse unknown streams, other shapes and lossy dtypes."""
    copies: Arrays = {}
    for name, value in rows.items():
        if name not in streams:
            raise ValueError(f"rows: no stream {name!r} was declared.{nearest(name, streams)}")
        stream = streams[name]
        array = as_array(name, value)
        if array.shape[1:] != stream.shape or array.ndim == 0:
            raise ValueError(f"rows: {name!r} must have shape (n, *{stream.shape}); got {array.shape}.")
        copies[name] = _cast(name, array, stream)
    return copies


def copy_arrays(arrays: Mapping[str, Any], argument: str) -> Arrays:
    """Copy a dictionary of arrays under slash paths, so that the caller may go on changing its own."""
    check_names(argument, arrays)
    return {name: as_array(f"{argument}/{name}", value) for name, value in arrays.items()}


def _cast(name: str, array: np.ndarray, stream: Stream) -> np.ndarray:
    dtype, whole = stream.numpy_dtype, "iu"
    fits = np.can_cast(array.dtype, dtype, "same_kind") and (array.dtype.kind == "O") == (dtype.kind == "O")
    cast = array.astype(dtype, copy=False) if fits or (array.dtype.kind in whole and dtype.kind in whole) else array
    if array.size and dtype.kind in whole and not np.can_cast(array.dtype, dtype, "safe"):
        fits = cast is not array and np.array_equal(cast, array)  # a number that would wrap round is refused
    if array.size and not fits:
        raise TypeError(f"rows: {name!r} is stored as {stream.dtype}; got {array.dtype}, which does not fit in it.")
    return cast.astype(dtype, copy=False)
