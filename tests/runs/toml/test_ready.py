"""Files that run by name, from a checkout and as the wheel has them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import fastbm as bm
from fastbm.campaigns import grid
from fastbm.cli import main
from fastbm.runs.toml import file, ready
from fastbm.runs.toml.text import is_of_campaign

ROOT = Path(__file__).parents[3]


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


def test_the_wheel_has_them_all() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    places = {f"runs/{path.name}" for path in (ROOT / "runs").iterdir() if path.suffix in (".toml", ".txt")}
    assert told["force-include"] == {place: f"fastbm/ready/{Path(place).name}" for place in places}


def test_each_is_found_and_tells_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("examples") == 0
    listed = capsys.readouterr().out
    for name, path in ready.files().items():
        for given in (name, f"{name}.toml", f"runs/{name}.toml"):
            assert ready.find(Path(given)).samefile(path)
        assert name in listed and ready.about(path).endswith(".")
        tables = file.read(path)
        grid.read(tables) if is_of_campaign(tables) else file.check(tables)


def test_one_runs_by_name_in_a_folder_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("run", "phases", "-q", "--set", "fit.epochs=3") == 0
    assert bm.open("runs/out/phases.h5").finished
    (tmp_path / "phases").write_text("[nonsense]")  # a file that is there goes first
    assert call("run", "phases", "-q") == 2


def test_what_lies_beside_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = ready.find(Path("inverse"))
    tables = file.read(path)
    ready.beside(tables, path)
    models = [model["path"] for model in tables["model"] if "path" in model]
    assert models and all(Path(model).is_file() for model in models)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "cubic30.txt").write_text("")  # one of the user's goes first
    tables = file.read(path)
    ready.beside(tables, path)
    assert [model["path"] for model in tables["model"] if "path" in model] == ["runs/cubic30.txt"]


def test_refusals_and_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("run", "digts") == 2
    assert (
        "digts does not exist. Did you mean 'digits'? Ready ones, by name: binder, binder3d," in capsys.readouterr().err
    )
    assert call("run", "run.h5") == 2
    assert capsys.readouterr().err == "fastbm: run.h5 does not exist.\n"
    assert call("examples", "--copy", "mine") == 0
    assert {path.stem for path in Path("mine").glob("*.toml")} == set(ready.files())
    assert call("examples", "--copy", "mine") == 2
    assert "Nothing was copied" in capsys.readouterr().err
