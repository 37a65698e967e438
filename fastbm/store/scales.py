"""Names of axes in merged files: HDF5's dimension scales, by which any program knows which axes are the same.

A stream names its axes in its attribute ``dims``. The merged file has a scale for each axis of a group: the stream of
that name, where there is one; else an array of coordinates, which a run keeps in its inputs as
``axes/GROUP+AXIS+NAME``; else a scale without values, of which HDF5 stores no more than its length. Axes of one name in
a group that differ in length keep theirs unnamed. The layout is that of netCDF-4, which xarray reads.

HDF5 Dimension Scale Specification 1.0; NetCDF-4 file format, "Dimensions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5ds, h5p, h5s, h5t

from .._base.hdf5 import AXIS
from .._base.streams import Stream
from .hdf import TEXT, datasets, write_attribute
from .schema import INPUTS, STATE, beside, names_of_axes

AXES = "axes"
WHOLE = (INPUTS, STATE)  # groups of arrays that are no records
_LENGTH = "This is a netCDF dimension but not a netCDF variable. {:9d}"  # words that netCDF-4 looks for


def name_axes(file: h5py.File, streams: Mapping[str, Stream], inputs: Mapping[str, np.ndarray]) -> None:
    """Write the scales of all streams and tie their axes to them; the datasets of streams have all their rows."""
    scales: dict[str, h5d.DatasetID] = {}
    for name in sorted(streams):
        dataset = h5d.open(file.id, name.encode())
        for axis, dim in enumerate(names_of_axes(streams[name])):
            place, length = beside(name, dim), dataset.shape[axis]
            if place not in scales:
                scales[place] = _make_scale(file, place, length, streams, inputs)
            scale = scales[place]
            if place != name and scale.shape == (length,):
                h5ds.attach_scale(dataset, scale, axis)
    for group in WHOLE:
        _name_lengths(file, group)
    for place, (name, array) in _coordinates(inputs):
        if place not in scales and name == place:
            _make_scale(file, place, len(array), streams, inputs)
        elif place in scales and name != place and scales[place].shape == array.shape:
            h5ds.attach_scale(_write(file, name, array), scales[place], 0)


def _name_lengths(file: h5py.File, group: str) -> None:
    """Name the axes of arrays that no record lies along by their lengths, as other programs would without a name."""
    scales: dict[str, h5d.DatasetID] = {}
    for dataset in datasets(file[group]).values():
        for axis, length in enumerate(dataset.shape):
            label = f"length_{length}" + "_again" * dataset.shape[:axis].count(length)
            if label not in scales:
                scales[label] = _without_values(file, f"{group}/{label}", length)
            h5ds.attach_scale(dataset, scales[label], axis)


def _without_values(file: h5py.File, place: str, length: int) -> h5d.DatasetID:
    """Return a scale of which the file keeps the length alone."""
    found = h5d.create(file.id, place.encode(), h5t.STD_I8LE, h5s.create_simple((length,)), _without_times())
    write_attribute(h5py.Dataset(found), AXIS.decode(), np.uint8(1))
    h5ds.set_scale(found, _LENGTH.format(length).encode())
    return found


@cache
def _without_times() -> Any:
    layout = h5p.create(h5p.DATASET_CREATE)
    layout.set_obj_track_times(False)
    return layout


def _make_scale(
    file: h5py.File, place: str, length: int, streams: Mapping[str, Stream], inputs: Mapping[str, np.ndarray]
) -> h5d.DatasetID:
    """Return the scale of an axis, by name and length."""
    values = inputs.get(f"{AXES}/{place.replace('/', '+')}+{_last(place)}")
    if place in streams:
        found = h5d.open(file.id, place.encode())
    elif values is not None and values.shape == (length,):
        found = _write(file, place, values)
    else:
        return _without_values(file, place, length)
    h5ds.set_scale(found, _last(place).encode())
    return found


def _write(file: h5py.File, name: str, array: np.ndarray) -> h5d.DatasetID:
    dtype: Any = TEXT if array.dtype.kind == "O" else array.dtype
    dataset = file.create_dataset(name, data=array, dtype=dtype, track_times=False)
    write_attribute(dataset, AXIS.decode(), np.uint8(1))
    return dataset.id


def coordinates(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return those of a run's inputs that stand along axes."""
    return {name: array for name, array in inputs.items() if name.startswith(f"{AXES}/")}


def _coordinates(inputs: Mapping[str, np.ndarray]) -> Iterator[tuple[str, tuple[str, np.ndarray]]]:
    """Yield the place of an axis, and name and values of what stands along it."""
    for key in sorted(inputs):
        if key.startswith(f"{AXES}/"):
            place, _, name = key.removeprefix(f"{AXES}/").replace("+", "/").rpartition("/")
            yield place, (beside(place, name), inputs[key])


def _last(name: str) -> str:
    return name.rpartition("/")[2]
