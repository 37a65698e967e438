"""Arrays and streams in HDF5 groups: written and read, always with the same bytes for the same contents.

The rows of a block are checked here, once, against the streams that they belong to, and copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5p, h5s, h5t

from .._base.arrays import Lease
from .._base.checks import nearest
from .._base.hdf5 import AXIS, SCALE_ATTRIBUTES
from .._base.streams import Stream
from .schema import INDEX, INPUTS, REWINDS, SPEC, STATE, Arrays, check_names, chunk_shape

TEXT = h5py.string_dtype("utf-8")
Put = Callable[[h5d.DatasetID, Iterable[np.ndarray]], None]


def as_array(name: str, value: Any) -> np.ndarray:
    """Return a C-contiguous array that HDF5 can hold, a copy unless nobody can write to it; texts become objects."""
    array = value if _is_constant(value) else np.array(value, order="C")
    if array.dtype.kind == "U":
        array = array.astype(object)
    if array.dtype.kind == "O":
        _check_texts(name, array)
    if array.dtype.kind not in "biufcO":
        raise TypeError(f"{name!r} must hold numbers, booleans or texts; got dtype {array.dtype}.")
    return array


def _is_constant(value: Any) -> bool:
    """Tell whether nobody can write to `value`, a contiguous array of numbers in memory that NumPy owns, or a lease."""
    memory = value
    while isinstance(memory, np.ndarray) and not memory.flags.writeable:
        if memory.base is None or isinstance(memory.base, Lease):
            return value.dtype.kind in "biufc" and bool(value.flags.c_contiguous)
        memory = memory.base
    return False


def _check_texts(name: str, array: np.ndarray) -> None:
    for item in array.flat:
        if not isinstance(item, str):
            raise TypeError(f"{name!r} must hold numbers, booleans or texts; got {type(item).__name__}.")
        if "\0" in item:
            raise ValueError(f"{name!r}: HDF5 cannot hold a text with a zero character; got {item!r}.")
        item.encode()


def write_through(dataset: h5d.DatasetID, arrays: Iterable[np.ndarray]) -> None:
    """Write a whole array through HDF5."""
    for array in arrays:
        dataset.write(h5s.ALL, h5s.ALL, array)


def write_arrays(group: h5py.Group, arrays: Mapping[str, np.ndarray], put: Put = write_through) -> None:
    """Write whole arrays under their slash paths."""
    for name in sorted(arrays):
        array = arrays[name]
        dataset = add_dataset(group, name, array.dtype, array.shape)
        if array.size and array.dtype.kind == "O":
            h5py.Dataset(dataset)[()] = array
        elif array.size:
            put(dataset, [array])


def write_attribute(group: h5py.Group | h5py.Dataset, name: str, value: Any) -> None:
    """Write an attribute that is not there yet: a number, a text or an array of numbers."""
    array = np.array(value, dtype=TEXT if isinstance(value, str) else None)
    h5a.create(group.id, name.encode(), _type(array.dtype), _space(array.shape)).write(array, _in_memory(array.dtype))


def add_dataset(group: h5py.Group, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> h5d.DatasetID:
    """Create a dataset in one piece, whose place in the file is allocated at once.

    h5py's own layer takes twice as long for a dataset and four times for an attribute; a commit writes about twenty.
    """
    links, layout = _properties(dtype.kind == "O")
    return h5d.create(group.id, name.encode(), _type(dtype), _space(shape), layout, links)


@cache
def _properties(is_text: bool) -> tuple[Any, Any]:
    links = h5p.create(h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    links.set_char_encoding(h5t.CSET_UTF8)
    layout = h5p.create(h5p.DATASET_CREATE)
    if not is_text:  # HDF5 fills in texts itself
        layout.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        layout.set_fill_time(h5d.FILL_TIME_NEVER)
    layout.set_obj_track_times(False)
    return links, layout


def _growing(stream: Stream, chunk: tuple[int, ...]) -> Any:
    layout = h5p.create(h5p.DATASET_CREATE)
    layout.set_chunk(chunk)
    if stream.dtype != "str":  # HDF5 refuses filters on texts of variable length
        layout.set_fletcher32()
    layout.set_obj_track_times(False)
    return layout


def _group(group: h5py.Group, path: str) -> h5g.GroupID:
    """Return a group below `group`, made where it is not there: before its datasets, or files are longer."""
    if not path:
        return group.id
    return h5g.open(group.id, path.encode()) if path.encode() in group.id else group.create_group(path).id


def _type(dtype: np.dtype[Any]) -> Any:
    return _text_type() if dtype.kind == "O" else _number_type(dtype)


def _in_memory(dtype: np.dtype[Any]) -> Any:
    """Return the type of an array's memory, which h5py would make anew at each call: texts are objects there."""
    return _text_object() if dtype.kind == "O" else _number_type(dtype)


@cache
def _number_type(dtype: np.dtype[Any]) -> Any:
    return h5t.py_create(dtype, logical=True)


@cache
def _text_type() -> Any:
    return h5t.py_create(TEXT, logical=True)


@cache
def _text_object() -> Any:
    return h5t.py_create(TEXT)


@lru_cache(maxsize=64)
def _space(shape: tuple[int, ...]) -> Any:
    return h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)


def read_attributes(found: h5g.GroupID | h5d.DatasetID) -> dict[str, Any]:
    """Return the attributes of a group or a dataset as Python numbers, texts and arrays, but for those of scales.

    h5py's own layer takes three times as long, and a run has some thirty of them.
    """
    names: list[bytes] = []
    if h5a.get_num_attrs(found):
        h5a.iterate(found, names.append)
    return {name.decode(): _value(h5a.open(found, name)) for name in sorted(names) if name not in SCALE_ATTRIBUTES}


def _value(attribute: h5a.AttrID) -> Any:
    shape, kind = attribute.shape, attribute.get_type()
    if shape is None:
        return h5py.Empty(kind.dtype)
    array = np.zeros(shape, kind.dtype)
    attribute.read(array, _in_memory(array.dtype))
    if array.dtype.kind == "O":
        texts = [text.decode("utf-8", "surrogateescape") for text in array.flat]
        array = np.array(texts, object).reshape(array.shape)
    return array if array.ndim else array.item()


def read_arrays(group: h5py.Group) -> Arrays:
    """Read every dataset below `group`, by slash path."""
    return {name: read_dataset(dataset) for name, dataset in datasets(group).items()}


def read_dataset(dataset: h5d.DatasetID) -> np.ndarray:
    """Read a whole dataset, as an array also where it is a scalar."""
    if is_text(dataset):
        return np.asarray(h5py.Dataset(dataset).asstr()[()], dtype=object)
    array = np.empty(dataset.shape, dataset.dtype)
    if array.size:
        dataset.read(h5s.ALL, h5s.ALL, array)
    return array


def dataset_names(group: h5py.Group, leave: Collection[str] = ()) -> list[str]:
    """Return the slash paths of `datasets`."""
    return list(datasets(group, leave))


def datasets(group: h5py.Group, leave: Collection[str] = ()) -> dict[str, h5d.DatasetID]:
    """Return all datasets below `group` by slash path, sorted; top groups named in `leave` are not entered.

    Axes, which are there for other programs, are none of them.
    """
    names: dict[str, h5d.DatasetID] = {}
    groups, seen = [("", h5g.open(group.id, b"."))], set()
    while groups:
        prefix, one = groups.pop()
        links: list[tuple[str, int]] = []
        # `visititems` asks for the size of each dataset's tables, and so reads them all
        one.links.iterate(lambda name, info, links=links: links.append((name.decode(), _address(info))), info=True)
        for name, address in links:
            if address < 0 or address in seen or (not prefix and name in leave):
                continue
            seen.add(address)
            found = h5o.open(one, name.encode())
            if isinstance(found, h5g.GroupID):
                groups.append((f"{prefix}{name}/", found))
            elif isinstance(found, h5d.DatasetID) and not h5a.exists(found, AXIS):
                names[prefix + name] = found
    return dict(sorted(names.items()))


def _address(info: Any) -> int:
    """Return the address that a hard link leads to; -1 for other links."""
    return int(info.u) if info.type == h5l.TYPE_HARD else -1


def is_text(dataset: h5py.Dataset | h5d.DatasetID) -> bool:
    """Return whether a dataset holds UTF-8 text."""
    return h5py.check_string_dtype(dataset.dtype) is not None


def declare(group: h5py.Group, name: str, stream: Stream, compression: str | None, n_rows: int = 0) -> h5py.Dataset:
    """Create the growing dataset of a stream, for `n_rows` that are still to be written."""
    shape, chunk = (n_rows, *stream.shape), chunk_shape(stream, n_rows)
    # HDF5 wants chunks no larger than a fixed axis, and none of length zero: an empty axis is left free to grow.
    most = (None, *(n or None for n in stream.shape))
    if compression:
        options = _layout(stream, compression)
        dataset = group.create_dataset(name, shape=shape, maxshape=most, chunks=chunk, track_times=False, **options)
    else:
        space = h5s.create_simple(shape, tuple(n or h5s.UNLIMITED for n in most))
        above, _, own = name.rpartition("/")
        made = h5d.create(_group(group, above), own.encode(), _type(stream.numpy_dtype), space, _growing(stream, chunk))
        dataset = h5py.Dataset(made)
    for key in sorted(stream.attrs):
        write_attribute(dataset, key, stream.attrs[key])
    return dataset


def dataset_of(group: h5py.Group, name: str) -> h5py.Dataset:
    """Return a dataset that is there, in a third of the time of `group[name]`."""
    return h5py.Dataset(h5d.open(group.id, name.encode()))


def write_rows(
    group: h5py.Group, name: str, stream: Stream, blocks: list[np.ndarray], compression: str | None, put: Put
) -> None:
    """Write the rows of one commit, whose number is final."""
    n_rows, n_bytes = sum(map(len, blocks)), sum(block.nbytes for block in blocks)
    shape = (n_rows, *stream.shape)
    if n_bytes and stream.dtype == "str":
        h5py.Dataset(add_dataset(group, name, TEXT, shape))[()] = np.concatenate(blocks)
    elif n_bytes and compression:
        chunk = chunk_shape(stream)
        options = _layout(stream, compression) | {"chunks": (min(chunk[0], n_rows), *chunk[1:])}
        dataset = group.create_dataset(name, shape=shape, track_times=False, **options)
        dataset[()] = np.concatenate(blocks)  # a chunk is compressed anew at each write
    else:
        dataset = add_dataset(group, name, stream.numpy_dtype, shape)
        if n_bytes:
            put(dataset, blocks)


def read_rows(dataset: h5py.Dataset, selection: slice) -> np.ndarray:
    """Read some rows of a stream."""
    rows = dataset.asstr()[selection] if is_text(dataset) else dataset[selection]
    return np.asarray(rows, dtype=object if is_text(dataset) else dataset.dtype)


def read_rows_of(file: h5py.File, name: str, stream: Stream, selection: slice) -> np.ndarray:
    """Read some rows of a stream, which must exist and have the layout that is declared."""
    dataset = file[name]
    dtype = "str" if is_text(dataset) else dataset.dtype.str
    if (dtype, dataset.shape[1:]) != (stream.dtype, stream.shape) or len(dataset) < selection.stop:
        meant = f"{stream.dtype} of shape ({selection.stop}, *{stream.shape})"
        raise ValueError(f"{name} is {dtype} of shape {dataset.shape}, not {meant}")
    return read_rows(dataset, selection)


def read_streams(file: h5py.File) -> tuple[dict[str, Stream], dict[str, int]]:
    """Return the streams that a first segment or a merged file declares, and how many rows it has of each."""
    own = (SPEC, INPUTS, STATE, INDEX, REWINDS)
    found = datasets(file, own)
    return {name: _stream(one) for name, one in found.items()}, {name: int(one.shape[0]) for name, one in found.items()}


def _stream(dataset: h5d.DatasetID) -> Stream:
    dtype = "str" if is_text(dataset) else dataset.dtype.str
    return Stream(dtype, tuple(int(n) for n in dataset.shape[1:]), read_attributes(dataset))


def _layout(stream: Stream, compression: str | None) -> dict[str, Any]:
    if stream.dtype == "str":  # HDF5 refuses filters on texts of variable length
        return {"dtype": TEXT}
    layout: dict[str, Any] = {"dtype": stream.numpy_dtype, "fletcher32": True}
    if compression == "gzip":
        layout |= {"compression": "gzip", "compression_opts": 1}
    elif compression == "zstd":
        layout |= dict(zstd().Zstd())
    return layout


def zstd() -> Any:
    """Return hdf5plugin, which brings the zstd filter."""
    try:
        import hdf5plugin
    except ImportError:
        raise ImportError('compression="zstd" needs hdf5plugin: pip install hdf5plugin') from None
    return hdf5plugin


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
    if array.dtype == dtype:
        return array
    fits = np.can_cast(array.dtype, dtype, "same_kind") and (array.dtype.kind == "O") == (dtype.kind == "O")
    cast = array.astype(dtype, copy=False) if fits or (array.dtype.kind in whole and dtype.kind in whole) else array
    if array.size and dtype.kind in whole and not np.can_cast(array.dtype, dtype, "safe"):
        fits = cast is not array and np.array_equal(cast, array)  # a number that would wrap round is refused
    if array.size and not fits:
        raise TypeError(f"rows: {name!r} is stored as {stream.dtype}; got {array.dtype}, which does not fit in it.")
    return cast.astype(dtype, copy=False)
