"""Comparisons and automatic choices that a TOML file asks for."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import fastbm as bm
from fastbm.report import tables as report
from fastbm.runs.toml import file as config
from tests.support.machines import calm

SEVERAL = """
[[model]]
label = "glass"
name = "random_machine"
n = [5, 6]

[[model]]
name = "random_tree"
n = 8

[[model]]
name = "ising"
shape = [2, 3]
periodic = false

[compare]
methods = ["exact", "bethe", "gibbs"]
beta = [0.5, 1.0]
seed = [0, 1]
budget = 0.05
options.gibbs.n_chains = 16
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "file.toml"
    file.write_text(text)
    return file


def test_several_tables_of_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, SEVERAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report.run_file(file, [], out=tmp_path / "c.h5", overwrite=False, threads=1, quiet=True)
    found = bm.open(tmp_path / "c.h5").comparison
    names = ["glass, n = 5", "glass, n = 6", "random_tree", "ising"]
    assert list(dict.fromkeys(cell.model for cell in found.cells)) == names
    assert len(found) == 4 * 2 * (1 + 2 + 2)
    by_method = {row["method"]: row for row in found.summary(("model", "method")) if row["model"] == "random_tree"}
    assert by_method["bethe"]["log_z_off"] < 1e-9 and by_method["bethe"]["covariance_off"] < 1e-9
    told = capsys.readouterr().out
    assert all(name in told for name in names) and (tmp_path / "c.png").stat().st_size > 10_000
    assert max(map(len, told.splitlines()[:40])) <= 80


def test_many_cells_are_told_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, SEVERAL.replace("seed = [0, 1]", "seed = [0, 1, 2, 3]"))
    report.run_file(file, [], out=tmp_path / "c.h5", overwrite=False, threads=1, quiet=True)
    told = capsys.readouterr().out
    assert "all of them" in told and "95 % error bars" in told
    assert max(len(line) for line in told.splitlines() if str(tmp_path) not in line) <= 80


def test_the_method_that_is_chosen_takes_a_budget(tmp_path: Path) -> None:
    file = write(
        tmp_path, '[model]\nname = "curie_weiss"\nn = 10\n[infer]\nmethod = "auto"\nbudget = 5.0\nbeta = 0.5\n'
    )
    report.run_file(file, [], out=tmp_path / "a.h5", overwrite=False, threads=1, quiet=True)
    found = bm.open(tmp_path / "a.h5").inference
    assert found.method == "exact" and "5 seconds" in found.detail["auto"]["why"]


@pytest.mark.parametrize("values", [[1, -1], [[1, -1], [1, 1]]])
def test_units_are_clamped_by_a_file(values: list[object], tmp_path: Path) -> None:
    tables = {"model": {"name": "curie_weiss", "n": 6}, "infer": {"method": "exact", "clamp": [[0, 3], values]}}
    found = config.call(tables, config.check(tables))(threads=1, progress=False).inference
    expected = bm.infer(bm.models.curie_weiss(6), "exact", clamp=([0, 3], values), threads=1)
    assert np.array_equal(found.log_z, expected.log_z)


@pytest.mark.parametrize("method", ["tempering", "population-annealing", "bethe"])
def test_curves_over_temperatures_are_drawn(method: str, tmp_path: Path) -> None:
    options = {"bethe": {}, "tempering": {"n_sweeps": 50}}.get(method, {"n_chains": 128})
    calm(bm.infer, bm.models.ising((3, 3), periodic=False), method, beta=0.3, out=tmp_path / "i.h5", **options)
    picture = report.draw_picture(bm.open(tmp_path / "i.h5"), tmp_path / "i.png")
    assert picture.stat().st_size > 10_000
    if method != "bethe":
        curves = bm.Temperatures.of(bm.open(tmp_path / "i.h5").inference)
        assert curves.betas[0] == 0.0 and curves.betas[-1] == 0.3 and curves.log_z[0] == pytest.approx(9 * math.log(2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SEVERAL.replace('"glass"\n', '"ising"\n').replace("n = [5, 6]", "n = 6"), "two machines are called"),
        (SEVERAL.replace("[compare]", "[infer]"), r"\[model\] must be a table"),
        (SEVERAL.replace("budget = 0.05", 'budget = "long"'), "compare.budget"),
        (SEVERAL.replace("seed = [0, 1]", "seed = [0, 0.5]"), "compare.seed"),
        ('[model]\nname = "ising"\nshape = [2, 2]\n[infer]\nmethod = "auto"\nn_chains = 3\n', "budget"),
        (
            '[model]\nname = "ising"\nshape = [2, 2]\n[infer]\nmethod = "exact"\nclamp = [[0]]\n',
            "infer.clamp = .* length 2",
        ),
        ("model = [3]\n[compare]\n", r"\[model\] must be a table"),
    ],
)
def test_bad_files(text: str, said: str, tmp_path: Path) -> None:
    tables = config.read(write(tmp_path, text), [])
    with pytest.raises(ValueError, match=said):
        config.call(tables, config.check(tables))
