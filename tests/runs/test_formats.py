"""Every format ever released is read and resumed; newer ones are read, or refused, by their number."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import fastbm as bm
from fastbm import store
from fastbm.store import schema
from tests.support import store as store_helpers
from tests.support.formats import DATA, FORMATS, N_BLOCKS, append, fit, known, sample, state_after, stored
from tests.support.places import listing, unchanged

tmp_path = store_helpers.tmp_path
EXPECTED = {name: json.loads((DATA / name / "expected.json").read_text()) for name in FORMATS}
RUNS = [(name, run) for name in FORMATS for run in EXPECTED[name]]


def copy_of(name: str, run: str, folder: Path) -> Path:
    for path in (DATA / name).glob(f"{run}*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    return folder / run


def test_the_first_formats_are_kept() -> None:
    assert {"format-1.0-sha256", "format-1.0"} <= set(FORMATS)
    for name, magic in (("format-1.0-sha256", b"FBMSEG01"), ("format-1.0", b"FBMSEG02")):
        assert {path.read_bytes()[-48:-40] for path in (DATA / name).rglob("*.h5")} == {magic}
    assert "format-{}.{}".format(*schema.FORMAT_VERSION) in FORMATS, "make it: python tests/data/make.py"


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_runs_of_every_format_are_read(name: str, run: str, tmp_path: Path) -> None:
    path = copy_of(name, run, tmp_path)
    before = listing(tmp_path)
    assert known(path) == EXPECTED[name][run]
    found = bm.verify(path)
    assert found.sound, found.problems
    assert found.n_blocks == EXPECTED[name][run]["n_blocks"]
    if run != "extended.h5":
        assert bm.open(path).finished == EXPECTED[name][run]["finished"]
        assert str(bm.open(path).summary())
    assert listing(tmp_path) == before


@pytest.mark.parametrize(("name", "run"), [case for case in RUNS if case[1] != "extended.h5"])
def test_runs_of_every_format_are_resumed(name: str, run: str, tmp_path: Path) -> None:
    path, whole = copy_of(name, run, tmp_path), tmp_path / "now.h5"
    begin: Callable[..., bm.Run] = fit if run in ("fit.h5", "large.h5") else sample
    before = known(path)
    assert bm.resume(path, exact=False).finished
    if path.with_name(f"{run}.parts").exists():  # it was begun with merge=False
        bm.merge(path)
    begin(whole)
    assert_same_rows(path, whole)
    after = known(path)
    assert after["spec"] == before["spec"]
    assert after["finished"]
    assert not path.with_name(f"{run}.parts").exists()
    assert bm.verify(path).sound


@pytest.mark.parametrize("name", FORMATS)
def test_an_extended_run_of_every_format_is_resumed(name: str, tmp_path: Path) -> None:
    path = copy_of(name, "extended.h5", tmp_path)
    for target in (path, tmp_path / "now.h5"):
        with store.resume(path, exact=False) if target == path else stored(target) as writer:
            append(writer, writer.n_blocks, N_BLOCKS)
            writer.finish(state_after(N_BLOCKS))
    assert_same_rows(path, tmp_path / "now.h5")
    assert known(path) == known(tmp_path / "now.h5")


def assert_same_rows(one: Path, other: Path) -> None:
    """Compare all rows but times; numbers that a machine may round otherwise, to nine digits."""
    with store.open_reader(one) as first, store.open_reader(other) as second:
        names = [name for name in first.streams if not name.startswith("meta/")]
        assert names
        assert set(names) <= set(second.streams)
        for name in names:
            a, b = first.read(name), second.read(name)
            assert (a.dtype, a.shape) == (b.dtype, b.shape), name
            if a.dtype.kind == "f":
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=name)
            else:
                assert np.array_equal(a, b), name


def flip(path: Path, place: int, other: bytes = b"") -> None:
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[place] = other[0] if other else data[place] ^ 64
    path.write_bytes(data)


@contextlib.contextmanager
def writing(version: tuple[int, int]) -> Iterator[None]:
    """Let the store write another format's number, and take it for its own."""
    with contextlib.ExitStack() as stack:
        for name, module in sorted(sys.modules.items()):
            if name.startswith("fastbm.store.") and hasattr(module, "FORMAT_VERSION"):
                stack.enter_context(mock.patch.object(module, "FORMAT_VERSION", version))
        yield


def two_runs(folder: Path, version: tuple[int, int]) -> tuple[Path, Path]:
    with writing(version):
        for name, end in (("whole.h5", N_BLOCKS), ("run.h5", 3)):
            with stored(folder / name) as writer:
                append(writer, 0, end)
                if end == N_BLOCKS:
                    writer.finish(state_after(N_BLOCKS))
    return folder / "whole.h5", folder / "run.h5"


def test_a_newer_minor_format_is_read_and_resumed(tmp_path: Path) -> None:
    whole, path = two_runs(tmp_path, (schema.FORMAT_VERSION[0], 7))
    assert known(whole)["n_blocks"] == N_BLOCKS
    assert known(path)["n_blocks"] == 3
    assert bm.verify(whole).sound
    with store.resume(path) as writer:
        append(writer, 3, N_BLOCKS)
        writer.finish(state_after(N_BLOCKS))
    assert known(path) == known(whole)


ACTS: dict[str, Callable[[Path], Any]] = {
    "open": bm.open,
    "resume": bm.resume,
    "inexact": lambda path: bm.resume(path, exact=False),
    "merge": bm.merge,
    "verify": bm.verify,
    "overwrite": lambda path: stored(path, overwrite=True),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("run", ["whole.h5", "run.h5.parts/seg-00000000.h5", "run.h5.parts/seg-00000003.h5"])
def test_a_seal_that_is_not_known_is_refused(tmp_path: Path, act: Callable[[Path], Any], run: str) -> None:
    two_runs(tmp_path, schema.FORMAT_VERSION)
    sealed = tmp_path / run
    data = bytearray(sealed.read_bytes())
    data[-48:-40], data[-40 + 8] = b"FBMSEG09", data[-40 + 8] ^ 1
    sealed.write_bytes(data)
    text = f"{sealed} is sealed by FBMSEG09, which this fastbm ({schema.package_version('fastbm')}) does not know. "
    unchanged(tmp_path, lambda: act(tmp_path / run.split(".parts")[0]), text + "Nothing was changed. Install a newer")


@pytest.mark.parametrize("name", FORMATS)
def test_a_trailer_whose_number_alone_is_damaged_is_no_newer_one(name: str, tmp_path: Path) -> None:
    path = copy_of(name, "stopped.h5", tmp_path)
    flip(path.with_name("stopped.h5.parts") / "seg-00000002.h5", -41, b"9")
    with pytest.warns(UserWarning, match="seg-00000002.h5 is damaged: the trailer is missing. Blocks"):
        assert bm.resume(path, exact=False).finished


@pytest.mark.parametrize("name", FORMATS)
def test_damage_of_every_format_is_found(name: str, tmp_path: Path) -> None:
    path = copy_of(name, "finished.h5", tmp_path)
    flip(path.with_name("finished.h5.parts") / "seg-00000001.h5", 3000)
    text = "seg-00000001.h5 is damaged: sha256 differs"
    assert any(text in one for one in bm.verify(path).problems)
    for act in (bm.merge, lambda path: bm.open(path).energy):
        with pytest.raises(bm.StorageError, match=text):
            act(path)
    path = copy_of(name, "large.h5", tmp_path)
    flip(path.with_name("large.h5.parts") / "state-00000001.h5", 3000)
    assert any("state-00000001.h5 is damaged: sha256 differs" in one for one in bm.verify(path).problems)
    with pytest.warns(UserWarning, match=r"state-00000001.h5: sha256 differs|has no whole state"):
        assert bm.resume(path, exact=False).finished


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_newer_major_format_is_refused(tmp_path: Path, act: Callable[[Path], Any]) -> None:
    ours, here = schema.FORMAT_VERSION[0], schema.package_version("fastbm")
    whole, path = two_runs(tmp_path, (ours + 1, 1))
    text = f" has format {ours + 1}.1; this fastbm ({here}) reads up to {ours}.x. Install fastbm >= {here}."
    unchanged(tmp_path, lambda: act(whole), f"{whole}{text}")
    unchanged(tmp_path, lambda: act(path), text)
