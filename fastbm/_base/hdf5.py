"""What an HDF5 file must be like before anything in it is read, whoever made it.

HDF5 and h5py read more than fastbm writes: types whose bytes are taken for addresses of Python objects, rows that lie
in other files, links that lead elsewhere or in a circle, and arrays that claim more than a disk could hold. None of
these is needed, so a file that has one is refused before a number of it is looked at. HDF5's own parser, which finds
out what there is, is not defended by this.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
from h5py import h5a, h5d, h5g, h5l, h5o, h5s, h5t

from .checks import StorageError
from .files import check_seal

# What stumbles over a file that makes no sense raises one of these.
NONSENSE = (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError)
LARGEST_CHUNK = 1 << 20  # bytes
LARGEST_ATTRIBUTE = 1 << 20
DEEPEST = 16  # groups within groups
# The filters that fastbm writes, and how many bytes one stored byte can become.
REACH = {h5py.h5z.FILTER_DEFLATE: 1032, h5py.h5z.FILTER_SHUFFLE: 1, h5py.h5z.FILTER_FLETCHER32: 1, 32015: 1 << 15}
# The attributes of dimension scales, with the class of what they hold.
SCALE_ATTRIBUTES = {
    b"CLASS": h5t.STRING, b"NAME": h5t.STRING, b"DIMENSION_LIST": h5t.VLEN, b"REFERENCE_LIST": h5t.COMPOUND,
}  # fmt: skip
LONGEST_LABEL = 256  # bytes of their texts
AXIS = b"axis"  # the attribute of what is there for other programs, and is never read
_NUMBERS = (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.COMPOUND)  # an enum is a boolean, a compound a complex number
_LAYOUTS = {h5d.COMPACT: "compact", h5d.VIRTUAL: "virtual"}


class Unbelievable(Exception):
    """Something in a file is not as fastbm writes it; the text names it and says in what."""


_KEPT = 64
_believed: OrderedDict[tuple[int, ...], None] = OrderedDict()  # the last files in which `check` found nothing


def open_believed(path: str | Path, *, axes: bool = False) -> h5py.File:
    """Open a file for reading after `check`; raise Unbelievable, or OSError where HDF5 cannot open it."""
    identity = identity_of(path)
    return believed(h5py.File(path, "r"), identity, axes=axes)


def reader_of(format_name: str) -> str:
    """Return what reads files of a format."""
    return {"fastbm": "fastbm.open", "fastbm classifier": "fastbm.BoltzmannClassifier.load"}.get(
        format_name, "fastbm.load"
    )


def sealed_format(path: str | Path) -> str:
    """Return the format that a file with the seal of machines names; empty where it has none, or bytes are others.

    HDF5 may look for ever in a file that is not as it was written.
    """
    try:
        if not check_seal(Path(path)):
            return ""
        with open_believed(path, axes=True) as file:
            return str(file.attrs.get("format", ""))
    except (OSError, StorageError, Unbelievable, *NONSENSE):
        return ""


def identity_of(path: str | Path) -> tuple[int, ...]:
    """Return which file lies at a path, and how it stands: one that is written to has another identity."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def believed(file: h5py.File, identity: tuple[int, ...], *, axes: bool = False) -> h5py.File:
    """Return an open file if `check` finds nothing in it, or has found nothing; else close it and raise.

    `identity` is that of the file before it was opened.
    """
    key = (*identity, int(axes))
    if key in _believed:
        return file
    try:
        check(file, axes=axes)
    except BaseException:
        file.close()
        raise
    _keep(key)
    return file


def believe(path: str | Path) -> None:
    """Have a file that this process has just written believed when it is opened."""
    for axes in (0, 1):
        _keep((*identity_of(path), axes))


def _keep(identity: tuple[int, ...]) -> None:
    _believed[identity] = None
    if len(_believed) > _KEPT:
        _believed.popitem(last=False)


def check(file: h5py.File, *, axes: bool = False) -> None:
    """Refuse a file in which anything is of a kind that fastbm does not write; no array is read.

    With `axes`, as for runs, there may be datasets in groups of which no more than the length is there; they are marked
    by the attribute `AXIS`, and whoever lists datasets leaves them out.

    Raises
    ------
    Unbelievable
        Naming the first such thing.
    """
    room = file.id.get_filesize()
    try:
        for name, size in _datasets(file.id, "", set(), 0, axes):
            room -= size
            if room < 0:
                raise Unbelievable(f"{name} and what comes before it claim more bytes than the file has")
    except (OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
        raise Unbelievable(f"HDF5 cannot tell what is in it ({error})") from error


def _datasets(group: Any, path: str, seen: set[int], depth: int, axes: bool) -> Iterator[tuple[str, int]]:
    """Yield the path and the allocated bytes of each dataset, checked."""
    if depth > DEEPEST:
        raise Unbelievable(f"{path} lies deeper than {DEEPEST} groups")
    _check_attributes(group, path or "/")
    links: list[tuple[bytes, Any]] = []
    if depth == 0:
        group = h5g.open(group, b"/")
    group.links.iterate(lambda name, info: links.append((name, (info.type, info.u))), info=True)
    for name, (kind, address) in links:
        shown = f"{path}/{name.decode(errors='backslashreplace')}"
        if kind != h5l.TYPE_HARD:
            raise Unbelievable(f"{shown} is a link to elsewhere")
        if address in seen:
            raise Unbelievable(f"{shown} is a second link to one object")
        seen.add(address)
        found = h5o.open(group, name)
        if isinstance(found, h5g.GroupID):
            yield from _datasets(found, shown, seen, depth + 1, axes)
        elif isinstance(found, h5d.DatasetID):
            _check_attributes(found, shown)
            yield shown, _check_dataset(found, shown, axes=axes and depth > 0)
        else:
            raise Unbelievable(f"{shown} is neither a group nor a dataset")


def _check_attributes(found: Any, shown: str) -> None:
    names: list[bytes] = []
    if h5a.get_num_attrs(found):
        h5a.iterate(found, names.append)
    for name in names:
        attribute, called = h5a.open(found, name), f"{shown}, attribute {name.decode(errors='backslashreplace')},"
        kind = attribute.get_type()
        if name in SCALE_ATTRIBUTES and isinstance(found, h5d.DatasetID):
            _check_scale_attribute(kind, len(attribute.shape), SCALE_ATTRIBUTES[name], called)
        else:
            _check_type(kind, called)
        if _n_bytes(kind, attribute.get_space()) > LARGEST_ATTRIBUTE:
            raise Unbelievable(f"{called} claims more than {LARGEST_ATTRIBUTE} bytes")


def _check_scale_attribute(kind: Any, rank: int, expected: int, shown: str) -> None:
    """Refuse all but a short text of fixed length, lists of references to objects, and references with a number."""
    there = kind.get_class()
    fits = there == expected and rank == (0 if expected == h5t.STRING else 1)
    if fits and expected == h5t.STRING:
        fits = not kind.is_variable_str() and kind.get_size() <= LONGEST_LABEL
    elif fits and expected == h5t.VLEN:
        fits = kind.get_super().equal(h5t.STD_REF_OBJ)
    elif fits:
        members = [kind.get_member_type(k) for k in range(kind.get_nmembers())]
        fits = len(members) == 2 and members[0].equal(h5t.STD_REF_OBJ) and members[1].get_class() == h5t.INTEGER
    if not fits:
        raise Unbelievable(f"{shown} is not what dimension scales have")


def _check_type(kind: Any, shown: str) -> None:
    """Refuse all but numbers and UTF-8 texts."""
    there = kind.get_class()
    if there == h5t.STRING:
        if not kind.is_variable_str() or kind.get_cset() not in (h5t.CSET_UTF8, h5t.CSET_ASCII):
            raise Unbelievable(f"{shown} holds texts of a kind that fastbm does not write")
        return
    # h5py takes an opaque type for whatever its tag says, object pointers among it: the class is looked at first.
    if there not in _NUMBERS or (there == h5t.COMPOUND and kind.get_nmembers() != 2):
        raise Unbelievable(f"{shown} holds neither numbers nor texts")
    dtype = kind.dtype
    if dtype.hasobject or dtype.kind not in "biufc":
        raise Unbelievable(f"{shown} holds {dtype}, neither numbers nor texts")


def _check_dataset(dataset: h5d.DatasetID, shown: str, *, axes: bool) -> int:
    """Check the type, the layout and the claims of a dataset; return how many bytes are allocated."""
    kind, space, layout = dataset.get_type(), dataset.get_space(), dataset.get_create_plist()
    _check_type(kind, shown)
    if space.get_simple_extent_type() == h5s.NULL:
        raise Unbelievable(f"{shown} has no shape")
    where = layout.get_layout()
    if where in _LAYOUTS:
        raise Unbelievable(f"{shown} is a {_LAYOUTS[where]} dataset")
    if layout.get_external_count():
        raise Unbelievable(f"{shown} lies in another file")
    claimed, allocated = _n_bytes(kind, space), dataset.get_storage_size()
    if axes and allocated == 0 and where == h5d.CONTIGUOUS and h5a.exists(dataset, AXIS):
        return 0
    if claimed > _check_filters(layout, shown) * allocated:
        raise Unbelievable(f"{shown} claims {claimed} bytes, and {allocated} are there")
    if where == h5d.CHUNKED:
        chunk = kind.get_size() * math.prod(layout.get_chunk())
        if chunk > LARGEST_CHUNK:
            raise Unbelievable(f"{shown} has chunks of {chunk} bytes, above {LARGEST_CHUNK}")
    return int(allocated)


def _n_bytes(kind: Any, space: Any) -> int:
    """Return the bytes that a dataset or attribute claims, by its lengths; HDF5's own product of them may overflow."""
    return int(kind.get_size()) * int(math.prod(space.get_simple_extent_dims()))


def _check_filters(layout: Any, shown: str) -> int:
    """Refuse filters that fastbm does not write; return how many bytes one stored byte can become."""
    reach = 1
    for k in range(layout.get_nfilters()):
        number = layout.get_filter(k)[0]
        if number not in REACH:
            raise Unbelievable(f"{shown} needs filter {number}, which fastbm does not write")
        reach *= REACH[number]
    if layout.get_nfilters() > len(REACH) or reach > max(REACH.values()):
        raise Unbelievable(f"{shown} is compressed more than once")
    return reach
