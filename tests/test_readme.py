"""What the README shows works: its Python block, its TOML files, its commands."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from fastbm.cli import app
from fastbm.runs.toml import file as config

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_block_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) == 1
    exec(compile(blocks[0], "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert re.search(r"converged +True", printed) and "sampled-states" in printed
    assert (tmp_path / "sk.h5").exists()


def test_the_two_lines_stand_as_promised():
    lines = [line.strip() for line in README.splitlines()]
    assert 'pip install ".[all]" && fastbm run runs/digits.toml' in lines
    assert 'pip install ".[all,test]" && pytest' in lines


def commands():
    lines = [line.strip() for line in README.splitlines() if line.startswith("    fastbm ")]
    assert len(lines) >= 6
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_is_one_that_the_program_has(words):
    group = get_command(app)
    command = group.commands[words[0]]
    context = command.make_context(words[0], words[1:])
    file = context.params.get("file")
    if file is not None:
        assert (ROOT / file).is_file()


@pytest.mark.parametrize("path", sorted((ROOT / "runs").glob("*.toml")), ids=lambda path: path.name)
def test_every_ready_run_passes_the_checks_and_is_mentioned(path):
    tables = config.read(path)
    assert config.check(tables) in config.VERBS
    assert tomllib.loads(path.read_text(encoding="utf-8"))["store"]["out"] == f"runs/out/{path.stem}.h5"
    assert f"runs/{path.name}" in README


def test_every_dependency_has_its_row():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(name for key in extras for name in extras[key] if key != "all")]
    table = README[README.index("## Dependencies") :]
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9_-]+", requirement).group()
        assert re.search(rf"\b{name}\b", table), name


def test_every_public_name_has_a_docstring():
    import inspect

    import fastbm

    for name in fastbm.__all__:
        thing = getattr(fastbm, name)
        assert inspect.getdoc(thing), name
        for attribute, member in vars(thing).items() if inspect.isclass(thing) else ():
            public_method = inspect.isfunction(member) and not attribute.startswith("_")
            assert not public_method or inspect.getdoc(member), f"{name}.{attribute}"
