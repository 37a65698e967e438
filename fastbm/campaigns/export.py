"""Tables of campaigns as CSV and as datasets of xarray's."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import numpy as np

from .._base.files import write_whole
from .columns import hashable, text_of

if TYPE_CHECKING:
    import xarray

VERDICTS = {"converged", "failed"}  # columns of which all tables have one
_KEY = re.compile(r"\w+(\.[\w-]+)+")
_LONGEST_LINE = 1 << 20


def to_csv(columns: Mapping[str, np.ndarray], place: str | Path | TextIO) -> None:
    """Write columns, to a file or into an open one."""
    if isinstance(place, (str, Path)):
        text = io.StringIO(newline="")
        _write(columns, text)
        write_whole(Path(place), text.getvalue().encode())
    else:
        _write(columns, place)


def is_table(file: BinaryIO) -> bool:
    """Return whether an open file is a table of a campaign, by its first line: a key of a grid and a verdict."""
    first = file.readline(_LONGEST_LINE).decode(errors="replace").strip()
    if not first:  # of a campaign of which nothing is done
        return not file.read(1)
    names = first.split(",")
    return bool(_KEY.fullmatch(names[0])) and not VERDICTS.isdisjoint(names)


def _write(columns: Mapping[str, np.ndarray], file: Any) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_texts, columns.values()), strict=True))


def _texts(values: np.ndarray) -> list[Any]:
    """Return values as CSV has them."""
    listed = values.tolist()
    if values.dtype.kind == "f":
        return ["" if math.isnan(value) else value for value in listed] if np.isnan(values).any() else listed
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in listed]
    return [_text(value) for value in listed]


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return json.dumps(value)
    return "" if value is None or value != value else value


def to_xarray(columns: Mapping[str, np.ndarray], axes: Sequence[Sequence[str]]) -> xarray.Dataset:
    """Return columns as a dataset with a dimension for each axis."""
    try:
        import xarray
    except ImportError:
        raise ImportError('to_xarray needs xarray: pip install "fastbm[xarray]"') from None
    dims = _dimensions([axis[0] for axis in axes], columns)
    places, coords = [], {}
    for axis, dim in zip(axes, dims, strict=True):
        both = list(zip(*(map(hashable, columns[key].tolist()) for key in axis), strict=True))
        which = {values: k for k, values in enumerate(dict.fromkeys(both))}
        places.append(np.array([which[values] for values in both], np.intp))
        for key, values in zip(axis, zip(*which, strict=True), strict=True):
            labels = np.array([text_of(v) if isinstance(v, tuple) else v for v in values])
            coords[dim if key == axis[0] else key] = (dim, labels)
    shape = tuple(len(coords[dim][1]) for dim in dims)
    keys = {key for axis in axes for key in axis}
    data = {
        name: (tuple(dims), _spread(values, tuple(places), shape))
        for name, values in columns.items()
        if name not in keys
    }
    return xarray.Dataset(data, coords)


def _dimensions(keys: Sequence[str], columns: Iterable[str]) -> list[str]:
    """Return short names of keys, "beta" of "sample.beta", where they are clear: no other key has it, nor a column."""
    short = [key.rpartition(".")[2] for key in keys]
    names = [*short, *columns]
    return [name if names.count(name) == 1 else key for name, key in zip(short, keys, strict=True)]


def _spread(values: np.ndarray, places: tuple[np.ndarray, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Return a column over the axes; NaN or None where there is no row."""
    full = len(values) == math.prod(shape)
    if values.dtype.kind == "O":
        found = np.full(shape, None, object)
    elif values.dtype.kind in "iu" and full:
        found = np.zeros(shape, values.dtype)
    else:
        found = np.full(shape, math.nan) if values.dtype.kind != "b" or not full else np.zeros(shape, bool)
    found[places] = values
    return found
