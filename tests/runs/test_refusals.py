"""What runs refuse: to overwrite, to open what is no run, and bad options of storage."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from tests.support.runs import MODEL, assert_same, begin_and_stop, fit, sample


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    sample(path)
    before = path.read_bytes()
    for again in (
        lambda: sample(path),
        lambda: fit(path),
        lambda: bm.infer(MODEL, "exact", out=path),
        lambda: bm.compare(MODEL, ["exact"], out=path),
    ):
        with pytest.raises(bm.StorageError, match=r"run.h5 exists\. Continue it with fastbm.resume\('.*overwrite=True"):
            again()
        assert path.read_bytes() == before
    assert_same(sample(path, seed=2, overwrite=True), sample(seed=2))
    assert bm.infer(MODEL, "exact", out=path, overwrite=True).log_z == bm.infer(MODEL, "exact").log_z
    assert bm.open(path).kind == "infer"


def test_an_unfinished_run_is_not_overwritten_either(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    begin_and_stop(fit, path)
    with pytest.raises(bm.StorageError, match="exists"):
        fit(path)
    assert_same(fit(path, overwrite=True), fit())


def test_foreign_files_are_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "thesis.h5"
    path.write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(bm.StorageError, match=r"thesis.h5"):
            sample(path, overwrite=overwrite)
    assert path.read_text() == "years of work"


@pytest.mark.parametrize("verb", [bm.open, bm.resume])
def test_runs_that_are_not_there_are_named(verb: Callable[[Path], bm.Run], tmp_path: Path) -> None:
    sample(tmp_path / "digits.h5")
    with pytest.raises(bm.StorageError, match=r"digit.h5 does not exist.*digits\.h5"):
        verb(tmp_path / "digit.h5")
    with pytest.raises(bm.StorageError, match="is not a fastbm run"):
        verb(tmp_path)
    MODEL.save(tmp_path / "model.h5")
    with pytest.raises(bm.StorageError, match=r"model\.h5"):
        verb(tmp_path / "model.h5")


@pytest.mark.parametrize(
    ("verb", "name", "way"),
    [
        (bm.extend, "n_sweps", "Did you mean 'n_sweeps'?"),
        (bm.campaign, "worker", "Did you mean 'workers'?"),
        (bm.resume, "thread", "Did you mean 'threads'?"),
        (bm.open, "q", "It takes: path, trust."),
    ],
)
def test_names_that_a_verb_does_not_take(verb, name, way):
    with pytest.raises(TypeError, match=re.escape(f"{verb.__name__} has no argument {name!r}. {way}")):
        verb("run.h5", **{name: 1})


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (TypeError, "sample has no argument 'commit_second'. Did you mean 'commit_seconds'", {"commit_second": 3}),
        (TypeError, "sample has no argument 'tau'", {"tau": 3}),
        (ValueError, "commit_seconds must be at least 0", {"commit_seconds": -1.0}),
        (ValueError, "commit_bytes must be at least 0", {"commit_bytes": -1}),
        (ValueError, "compression must be one of 'gzip', 'zstd'", {"compression": "zip"}),
        (TypeError, "merge must be True or False", {"merge": "no"}),
        (TypeError, "overwrite must be True or False", {"overwrite": "no"}),
        (TypeError, "about must be a dict of texts", {"about": ["tissue"]}),
        (ValueError, "about must have names and texts", {"about": {1: "tissue"}}),
        (ValueError, "about must have names and texts", {"about": {"tissue": "retina\0"}}),
        (TypeError, "out must be a path", {"out": 3}),
    ],
)
def test_bad_storage_is_named(error: type[Exception], text: str, options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        sample(**{"out": tmp_path / "run.h5", **options})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{}, {"commit_seconds": -1.0}, {"compression": "zip"}], ids=str)
def test_storage_options_are_checked_in_memory_too(options: dict[str, Any]) -> None:
    if not options:
        assert sample(commit_seconds=1.0, compression="gzip", about=None).finished
        return
    with pytest.raises(ValueError, match=next(iter(options))):
        sample(**options)


@pytest.mark.parametrize("verb", [bm.open, bm.resume, bm.merge, bm.verify, bm.load, bm.models.from_rudy])
def test_what_is_no_path_is_told(verb: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="path must be text or a Path; got 3"):
        verb(3)


def test_a_damaged_run_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    begin_and_stop(fit, path, commit_seconds=0)
    first = sorted(path.with_name("run.h5.parts").glob("*.h5"))[0]
    first.write_bytes(first.read_bytes()[:1000])
    for verb in (bm.open, bm.resume):
        with pytest.raises(bm.StorageError, match=r"damaged|not a fastbm"):
            verb(path)
