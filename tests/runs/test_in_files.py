"""A run, a result or a comparison in a file is the one in memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from tests.support import machines
from tests.support.combinations import each
from tests.support.machines import machine
from tests.support.runs import ALL, assert_same, sample


@pytest.mark.parametrize("begin", ALL)
def test_a_run_in_a_file_is_the_run_in_memory(begin: Callable[..., bm.Run], tmp_path: Path) -> None:
    here, there = begin(), begin(tmp_path / "run.h5")
    again = bm.open(tmp_path / "run.h5")
    for run in (there, again):
        assert_same(here, run)
        assert run.config == here.config
        assert run.kind == here.kind
        assert run.finished
        assert not run.live
        assert run.path == tmp_path / "run.h5"
        assert run.converged == here.converged
        drop = lambda s: {k: v for k, v in s.items() if k not in ("file",)}  # noqa: E731
        assert drop(run.summary()) == drop(here.summary())
    assert here.path is None
    assert "in memory" in str(here.summary())
    assert "finished" in repr(again)
    assert [p.name for p in tmp_path.iterdir()] == ["run.h5"]


@pytest.mark.parametrize("begin", ALL)
def test_the_working_folder_may_change(
    begin: Callable[..., bm.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is one of where the run was begun."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run = begin(Path("run.h5"), progress=lambda task, rows: os.chdir(tmp_path / "elsewhere"))
    assert Path.cwd() == tmp_path / "elsewhere"
    assert_same(begin(), run)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["elsewhere", "run.h5"]
    assert not list((tmp_path / "elsewhere").iterdir())


FEW: dict[str, dict[str, Any]] = {
    "exact": {},
    "mean-field": {},
    "tap": {},
    "bethe": {},
    "ais": {"n_chains": 32, "bracket": True},
    "reverse-ais": {"n_chains": 32},
    "tempering": {"n_chains": 8, "n_sweeps": 200},
    "population-annealing": {"n_chains": 1024, "n_sweeps": 3},
    "sampled-states": {"n_chains": 32},
    "gibbs": {"n_chains": 32},
    "metropolis": {"n_chains": 32},
}


@each(method=FEW, clamp=[None, ([0], [1]), ([0, 2], [[1, 1], [-1, 1]])])
def test_inference_in_a_file_is_inference_in_memory(method: str, clamp: Any, tmp_path: Path) -> None:
    model = machine("layers", scale=0.3)
    options = FEW[method]
    here = bm.infer(model, method, clamp=clamp, **options)
    there = bm.infer(model, method, clamp=clamp, out=tmp_path / "result.h5", **options)
    opened = bm.open(tmp_path / "result.h5")
    for found in (there, opened.inference):
        machines.assert_same_inference(here, found)
        assert found.seconds > 0
        assert type(found.mean) is np.ndarray or method == "reverse-ais"
        assert method in str(found)
        assert isinstance(found.detail, dict)
    assert opened.kind == "infer"
    assert opened.converged is here.converged
    assert opened.summary()["cells"] == "1 of 1"


def test_details_come_back_as_they_were(tmp_path: Path) -> None:
    model = machine("layers", scale=0.3)
    here = bm.infer(model, "ais", n_chains=8)
    there = bm.infer(model, "ais", n_chains=8, out=tmp_path / "result.h5")
    assert {k: type(v) for k, v in here.detail.items()} == {k: type(v) for k, v in there.detail.items()}
    lowest = [
        bm.infer(model, "exact", n_lowest=3, **out).detail["lowest states"] for out in ({}, {"out": tmp_path / "l.h5"})
    ]
    assert lowest[0].dtype == lowest[1].dtype == np.int8


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("ais", {"betas": np.linspace(0, 1, 30) ** 2}),
        ("ais", {"n_betas": np.int64(30)}),
        ("gibbs", {"initial": np.ones(7, int)}),
        ("mean-field", {"tolerance": np.float64(1e-7)}),
    ],
    ids=["path", "numpy-int", "start", "numpy-float"],
)
def test_options_that_are_arrays_go_into_files_too(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = machine("layers", scale=0.3)
    machines.assert_same_inference(
        bm.infer(model, method, **options), bm.infer(model, method, out=tmp_path / "r.h5", **options)
    )


def test_comparisons_in_a_file(tmp_path: Path) -> None:
    models, methods = (
        {"a": machine("visible"), "b": machine("layers", scale=0.3)},
        {"exact": {}, "gibbs": {"n_sweeps": 200}},
    )
    here, there = (
        bm.compare(models, methods, beta=[0.2, 0.4]),
        bm.compare(models, methods, beta=[0.2, 0.4], out=tmp_path / "c.h5"),
    )
    for found in (there, bm.open(tmp_path / "c.h5").comparison):
        assert [(c.model, c.beta, c.method) for c in found.cells] == [(c.model, c.beta, c.method) for c in here.cells]
        for k in range(len(here)):
            machines.assert_same_inference(here[k], found[k])
    with pytest.raises(AttributeError, match="'compare' has no one model"):
        _ = bm.open(tmp_path / "c.h5").model


def test_a_run_that_was_moved_still_opens(tmp_path: Path) -> None:
    sample(tmp_path / "run.h5")
    shutil.move(tmp_path / "run.h5", tmp_path / "other.h5")
    assert_same(bm.open(tmp_path / "other.h5"), sample())
    assert_same(bm.open(str(tmp_path / "other.h5")), sample())
