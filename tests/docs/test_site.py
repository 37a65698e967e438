"""The documentation site is built without a warning, its notebooks run as they stand, and each asks three questions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
COURSE = sorted((DOCS / "course").glob("*.md"))
NOTEBOOKS = [*COURSE, *sorted((DOCS / "users").glob("*.md"))]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    for name in ("sphinx", "myst_nb", "furo", "ipykernel"):
        if not os.environ.get("CI"):
            pytest.importorskip(name, reason='pip install "fastbm[docs]"')
    source = tmp_path / "docs"
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("_api", "_build"))
    (tmp_path / "runs").symlink_to(DOCS.parent / "runs")  # whose pictures pages show
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(source), str(tmp_path / "site")]
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}  # figures go into pages
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    notebooks = [f"{path.parent.name}/{path.stem}" for path in NOTEBOOKS]
    for page in ("index", "tour", "gallery", "methods", "_api/fastbm.sample", *notebooks):
        assert (tmp_path / "site" / f"{page}.html").stat().st_size > 3_000
    assert len(list((tmp_path / "site" / "_images").glob("*.png"))) >= 6


def test_what_notebooks_import_comes_with_the_extra_that_builds_them() -> None:
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    listed, *more = extras["docs"]
    brought = [one for name in re.findall(r"\w+", listed)[1:] for one in extras[name]] + more
    known = {re.match(r"[\w-]+", one).group() for one in brought} | {"fastbm", "numpy", "scipy", "h5py"}  # type: ignore[union-attr]
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*NOTEBOOKS, DOCS / "tour.md", DOCS / "gallery.md"])
    cells = "\n".join(re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    imported = set(re.findall(r"^(?:import|from) (\w+)", cells, re.MULTILINE)) - sys.stdlib_module_names
    assert {{"sklearn": "scikit-learn"}.get(name, name) for name in imported} <= known


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_lessons_end_with_three_questions_and_are_listed(path: Path) -> None:
    questions = path.read_text().partition("## Try\n")[2].strip().splitlines()
    assert [line[:3] for line in questions if re.match(r"\d\. ", line)] == ["1. ", "2. ", "3. "]
    assert f"course/{path.stem}\n" in (DOCS / "index.md").read_text()
