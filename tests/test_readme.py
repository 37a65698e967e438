"""What the README and the pages of docs/ show works: Python, TOML files, commands, links, and rows of speed."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from fastbm.campaigns import grid
from fastbm.cli import app
from fastbm.runs.toml import file as config
from fastbm.runs.toml.text import is_of_campaign

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}


def test_the_python_block_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) == 1
    exec(compile(blocks[0], "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert re.search(r"converged +True", printed) and "sampled-states" in printed
    assert (tmp_path / "sk.h5").exists()


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=lambda path: path.name)
def test_python_in_the_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", PAGES[page], re.S):
        exec(compile(block, page.name, "exec"), {})


def test_the_two_lines_stand_as_promised():
    lines = [line.strip() for line in README.splitlines()]
    assert 'pip install ".[all]" && fastbm run runs/digits.toml' in lines
    assert 'pip install ".[all,test]" && pytest' in lines


def commands():
    lines = [line.strip() for page in PAGES.values() for line in page.splitlines() if line.startswith("    fastbm ")]
    assert len(lines) >= 20
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
    tables, written = config.read(path), tomllib.loads(path.read_text(encoding="utf-8"))
    if is_of_campaign(tables):
        assert grid.read(tables).verb in config.VERBS and written["campaign"]["out"] == f"runs/out/{path.stem}"
    else:
        assert config.check(tables) in config.VERBS and written["store"]["out"] == f"runs/out/{path.stem}.h5"
    assert any(f"runs/{path.name}" in page for page in PAGES.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", PAGES[page]):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_readme_is_one_page_and_its_rows_of_speed_are_those_that_were_measured():
    assert len(README.splitlines()) <= 150
    measured = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in measured if line.startswith("|")]
    told = README[README.index("## Speed") : README.index("## Dependencies")]
    shown = [line for line in told.splitlines() if line.startswith("|")][2:]
    assert 0 < len(shown) <= 8
    for line in shown:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert [cells[0], "1", *cells[1:]] in rows, line


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
