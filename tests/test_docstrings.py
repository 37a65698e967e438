"""Examples in docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
import warnings
from pathlib import Path

import pytest

import fastbm as bm

PACKAGE = Path(bm.__file__).parent
WITH_EXAMPLES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text()
]


def test_every_kind_of_named_model_has_an_example() -> None:
    assert {path.stem for path in (PACKAGE / "models").glob("*.py")} - {"__init__", "origin", "square_lattice"} <= {
        module.rpartition(".")[2] for module in WITH_EXAMPLES
    }


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_print_what_they_say(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.ConvergenceWarning)
        found = doctest.testmod(importlib.import_module(module))
    assert found.attempted and not found.failed
