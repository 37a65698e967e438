"""Changes of files that a seal does not tell: what is stored is changed by HDF5 itself, or byte by byte, and sealed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .hostile import CRAFTS, reseal, unsealed

VALUES: list[Any] = [None, -1, 0, 1, 3, 10**20, -(10**20), 0.5, 1e308, float("nan"), "", "x", [], [1], {}, True, "\0"]


def _datasets(file: h5py.File) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, one: found.append(name) if isinstance(one, h5py.Dataset) else None)
    return found


def _put(file: h5py.File, name: str, data: Any) -> None:
    attributes = dict(file[name].attrs)
    del file[name]
    file[name] = data
    for key, value in attributes.items():
        file[name].attrs[key] = value


def remove(file: h5py.File, chance: random.Random) -> str:
    """Remove an array."""
    name = chance.choice(_datasets(file))
    del file[name]
    return f"no {name}"


def remove_group(file: h5py.File, chance: random.Random) -> str:
    """Remove a group."""
    name = chance.choice([name for name in file if isinstance(file[name], h5py.Group)])
    del file[name]
    return f"no {name}"


def retype(file: h5py.File, chance: random.Random) -> str:
    """Give an array another type of numbers."""
    name = chance.choice([name for name in _datasets(file) if file[name].dtype.kind in "biuf"])
    kind = chance.choice(["<f4", "<f8", "<i1", "<u8", "<i8", ">f8", "?", "<c16", "<f2"])
    with np.errstate(all="ignore"):
        _put(file, name, file[name][()].astype(kind))
    return f"{name} as {kind}"


def reshape(file: h5py.File, chance: random.Random) -> str:
    """Give an array another shape."""
    name = chance.choice([name for name in _datasets(file) if file[name].dtype.kind in "biuf"])
    data = np.asarray(file[name][()])
    ways: list[Callable[[], np.ndarray]] = [
        data.ravel, lambda: data[None], lambda: data.ravel()[:1], lambda: data.ravel()[:0], lambda: np.float64(1.0),
        lambda: np.concatenate([np.atleast_1d(data)] * 2), lambda: np.atleast_1d(data)[:-1], lambda: data.T,
    ]  # fmt: skip
    k = chance.randrange(len(ways))
    _put(file, name, np.asarray(ways[k]()).astype(data.dtype))
    return f"{name} reshaped ({k})"


def revalue(file: h5py.File, chance: random.Random) -> str:
    """Put an odd number into an array."""
    name = chance.choice([name for name in _datasets(file) if file[name].dtype.kind in "iuf" and file[name].size])
    data = np.array(file[name][()])
    info = None if data.dtype.kind == "f" else np.iinfo(data.dtype)
    odd = chance.choice([np.nan, np.inf, -np.inf, 1e308, -0.0] if info is None else [info.min, info.max, 0, 1])
    data.reshape(-1)[chance.randrange(data.size)] = odd
    _put(file, name, data)
    return f"{name} with {odd}"


def to_text(file: h5py.File, chance: random.Random) -> str:
    """Replace an array by texts, or a text by numbers."""
    name = chance.choice(_datasets(file))
    text = file[name].dtype.kind == "O"
    _put(file, name, np.arange(3.0) if text else np.array(["x"] * 3, dtype=object))
    return f"{name} {'of numbers' if text else 'of texts'}"


def respec(file: h5py.File, chance: random.Random) -> str:
    """Change a value of the spec, remove it or add one."""
    if "spec" not in file:
        return retouch(file, chance)
    spec = json.loads(file["spec"].asstr()[()])
    inner, path = spec, "spec"
    while True:
        key = chance.choice(list(inner))
        path += f".{key}"
        if isinstance(inner[key], dict) and inner[key] and chance.random() < 0.8:
            inner = inner[key]
            continue
        break
    what = chance.choice(["value", "value", "value", "gone", "more"])
    if what == "gone":
        del inner[key]
    elif what == "more":
        inner["other"] = 1
    else:
        inner[key] = chance.choice(VALUES)
        path += f" = {inner[key]!r}"
    del file["spec"]
    file["spec"] = json.dumps(spec)
    return f"{path} ({what})"


def ruin_spec(file: h5py.File, chance: random.Random) -> str:
    """Cut or replace the spec's text."""
    if "spec" not in file:
        return retouch(file, chance)
    text = file["spec"].asstr()[()]
    new = chance.choice([text[: len(text) // 2], "", "[]", "null", "1", "{}", '{"kind": 1}', "[" * 5000])
    del file["spec"]
    file["spec"] = new
    return f"spec = {new[:20]!r}"


def retouch(file: h5py.File, chance: random.Random) -> str:
    """Change or remove an attribute."""
    places = ["/", *(name for name in ("meta", *_datasets(file)) if name in file)]
    place = chance.choice([name for name in places if len(file[name].attrs)])
    attrs = file[place].attrs
    key = chance.choice(list(attrs))
    if chance.random() < 0.3:
        del attrs[key]
        return f"{place}@{key} gone"
    value = chance.choice([-1, 0, 10**12, 1.5, float("nan"), "x", "", "{}", "[1]", [1, 2, 3], [9, 9]])
    attrs[key] = value
    return f"{place}@{key} = {value!r}"


def more(file: h5py.File, chance: random.Random) -> str:
    """Add an array nobody asked for."""
    where = chance.choice([name for name in file if isinstance(file[name], h5py.Group)] or ["other"])
    file[f"{where}/more"] = np.arange(3.0)
    return f"{where}/more"


def spoil_text(file: h5py.File, chance: random.Random) -> str:
    """Put bytes that are no UTF-8 into a text, of an array or an attribute."""
    texts = [name for name in _datasets(file) if file[name].dtype.kind == "O"]
    place = chance.choice([*texts, "/"])
    bad = np.array(b"\xff\xfe{", dtype=object)
    if place == "/":
        file.attrs.create(chance.choice(list(file.attrs) or ["x"]), bad, dtype=h5py.string_dtype())
    else:
        shape = file[place].shape
        del file[place]
        file.create_dataset(place, data=np.full(shape, bad), dtype=h5py.string_dtype())
    return f"{place} of no UTF-8"


def craft(file: h5py.File, chance: random.Random) -> str:
    """Put something there that fastbm does not write: another type, layout, filter or link."""
    done, name = chance.choice(list(CRAFTS)), chance.choice(_datasets(file))
    done(file, name, Path(file.filename).parent)
    return f"{done.__name__} {name}"


CHANGES = [
    craft,
    spoil_text,
    remove,
    remove_group,
    retype,
    reshape,
    reshape,
    revalue,
    to_text,
    respec,
    respec,
    ruin_spec,
    retouch,
    more,
]


def bytes_of(path: Path, chance: random.Random) -> str:
    """Change some bytes anywhere before the seal, and seal the file again."""
    data, sealed = unsealed(path)
    image, length = bytearray(data), len(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        place = chance.randrange(min(length, chance.choice([512, 4096, length])))
        image[place] = chance.choice([0, 255, image[place] ^ (1 << chance.randrange(8))])
    path.write_bytes(sealed(bytes(image)))
    return "bytes"


def mutate(path: Path, chance: random.Random) -> str:
    """Change a sealed file of a run; return what was done."""
    if chance.random() < 0.2:
        return bytes_of(path, chance)
    done: list[str] = []
    change = chance.choice(CHANGES)
    reseal(path, lambda file: done.append(change(file, chance)))
    return done[0]
