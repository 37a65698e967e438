"""Axes of merged files, as other programs see them; a claim that only an axis may make."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t

from fastbm._base.checks import StorageError
from fastbm.store import Stream, create, open_reader
from fastbm.store.verification import verify
from tests.support import store
from tests.support.crash import contents_of
from tests.support.hostile import reseal

tmp_path = store.tmp_path
STREAMS = {
    "a/x": Stream("<f8", (2,), {"dims": "row chain"}),
    "a/row": Stream("<i8", (), {"dims": "row"}),
    "b/x": Stream("<f8", (3, 2), {"dims": "row beta chain", "units": "nats"}),
    "plain": Stream("<f8"),
}
COORDINATES = {"axes/b+beta+beta": np.array([0.5, 1.0, 2.0]), "axes/b+chain+site": np.array(["left", "ö"], object)}


def written(path: Path, streams: dict[str, Stream] = STREAMS, **options: bool) -> Path:
    with create(path, spec={}, streams=streams, inputs=COORDINATES, state={}, **options) as writer:
        for _ in range(2):
            writer.append({n: np.zeros((3, *s.shape)) for n, s in streams.items() if n != "a/row"}, dict)
            writer.append({"a/row": np.arange(3)} if "a/row" in streams else {}, dict)
        writer.finish({})
    return path


def scales_of(path: Path) -> dict[str, list[list[str]]]:
    """Names of the scales of every axis, by path."""
    with h5py.File(path) as file:
        found: dict[str, list[list[str]]] = {}

        def look(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and not item.is_scale:
                found[name] = [[scale.name for scale in axis.values()] for axis in item.dims]

        file.visititems(look)
        return found


def test_axes_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "run.h5")
    found = scales_of(path)
    assert found["a/x"] == [["/a/row"], ["/a/chain"]]
    assert found["b/x"] == [["/b/row"], ["/b/beta"], ["/b/chain"]]
    assert found["b/site"] == [["/b/chain"]]
    assert found["plain"] == [[]]
    with h5py.File(path) as file:
        assert file["b/beta"][()].tolist() == [0.5, 1.0, 2.0]
        assert file["b/site"].asstr()[()].tolist() == ["left", "ö"]
        assert file["a/chain"].id.get_storage_size() == 0
    with open_reader(path) as reader:
        assert reader.streams == STREAMS
    assert verify(path).sound
    assert contents_of(path) == contents_of(written(tmp_path / "again.h5"))


def test_xarray_reads_them(tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    xarray = pytest.importorskip("xarray")
    named = {name: stream for name, stream in STREAMS.items() if stream.attrs}
    with xarray.open_datatree(written(tmp_path / "run.h5", named), engine="h5netcdf") as tree:  # and does not warn
        assert dict(tree["b"]["x"].sizes) == {"row": 6, "beta": 3, "chain": 2}
        assert tree["b"]["beta"].values.tolist() == [0.5, 1.0, 2.0]
        assert tree["b"]["x"].attrs["units"] == "nats"
        assert tree["a"]["x"].indexes["row"].tolist() == [0, 1, 2, 0, 1, 2]


def test_axes_of_another_length_stay_unnamed(tmp_path: Path) -> None:
    streams = {"a/x": Stream("<f8", (2,), {"dims": "row chain"}), "a/y": Stream("<f8", (5,), {"dims": "row chain"})}
    assert scales_of(written(tmp_path / "run.h5", streams))["a/y"] == [["/a/row"], []]


@pytest.mark.parametrize(
    ("streams", "text"),
    [
        ({"x": Stream("<f8", (2,), {"dims": "row"})}, "'x' has 2 axes, and names"),
        ({"x": Stream("<f8", (2,), {"dims": "row row"})}, "'x' has 2 axes, and names"),
        ({"x": Stream("<f8", (), {"axis": 1})}, "written by the store itself"),
        ({"x": Stream("<f8", (), {"dims": "y"}), "y": Stream("<f8")}, "the stream of that name is no axis"),
    ],
)
def test_bad_axes_are_refused(streams: dict[str, Stream], text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=text):
        written(tmp_path / "run.h5", streams)


@pytest.mark.parametrize("name", ["b/x", "inputs/axes/b+beta+beta"])
def test_what_claims_to_be_an_axis_is_never_read(name: str, tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        del file[name]
        layout = h5p.create(h5p.DATASET_CREATE)
        h5d.create(file.id, name.encode(), h5t.IEEE_F64LE, h5s.create_simple((10**12, 3, 2)), layout)
        file[name].attrs["axis"] = 1

    path = written(tmp_path / "run.h5")
    reseal(path, change)
    with open_reader(path) as reader:
        assert name not in {*reader.streams, *(f"inputs/{one}" for one in reader.inputs)}
    if name == "b/x":
        with pytest.raises((KeyError, StorageError), match="b/x"), open_reader(path) as reader:
            reader.read(name)
