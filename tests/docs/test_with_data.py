"""Pages of the documentation run on data that do not come with fastbm, and find what is known of them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support import machines

DOCS = Path(__file__).parents[2] / "docs"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("with_data", DOCS / "with_data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = script()


@pytest.mark.parametrize("page", PAGES.DATA)
def test_pages_have_one_cell_that_makes_their_data(page: str) -> None:
    assert (DOCS / f"{page}.md").read_text().count(":tags: [data]\n") == 1
    compile(PAGES.DATA[page].replace("{path!r}", repr("a.npz")), page, "exec")


@pytest.mark.parametrize("page", ["course/09_restricted", "users/images"])
def test_rows_that_are_held_out_are_not_learned_from(page: str, tmp_path: Path) -> None:
    parts = {"train": np.zeros((30, 2, 2), np.uint8), "test": np.full((20, 2, 2), 255, np.uint8)}
    labels = {f"{name}_labels": np.zeros(len(images), int) for name, images in parts.items()}
    np.savez(tmp_path / "few.npz", **{f"{name}_images": images for name, images in parts.items()}, **labels)
    found: dict[str, Any] = {}
    exec(PAGES.DATA[page].replace("{path!r}", repr(str(tmp_path / "few.npz"))), found)
    held = found["holdout" if "holdout" in found else "test"]
    assert found["train"].shape == (30, 4) and not found["train"].any() and held.shape == (20, 4) and held.all()


def on(page: str, file: str, member: str = "") -> list[float]:
    """Run a page, and return the numbers that it printed."""
    for name in ("myst_nb", "nbclient", "ipykernel"):
        pytest.importorskip(name, reason='pip install "fastbm[docs]"')
    notebook: Any = PAGES.run(page, f"{machines.data_file(file)}{member}")
    drawn = [out for cell in notebook.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
    assert drawn
    return [float(found) for found in re.findall(r"(?<![\w.])[+-]?\d+\.?\d*", PAGES.printed(notebook))]


@pytest.mark.long
@pytest.mark.parametrize(("file", "member"), [("example15.mat", ":spikes15"), ("example50.mat", "")])
def test_neurons(file: str, member: str) -> None:
    """Pairs explain nearly all of these ten cells' dependence, once the bias of 40,000 bins is taken off."""
    bins, _, *found = on("course/11_neurons", file, member)
    assert bins == 40_000
    ratio, error = found[-2:]
    assert 0.92 < ratio < 1.0 + error and error < 0.03
    assert 0.92 < on("users/neurons", file, member)[2] < 1.02


@pytest.mark.long
def test_ten_machines_classify_mnist() -> None:
    """About the published 3.46 % of one-shot mean field, with the flip noise found by cross-validation."""
    *_, wrong = on("course/08_digits", "mnist.npz")
    assert 3.2 < wrong < 3.8


@pytest.mark.long
def test_restricted_machines_learn_mnist() -> None:
    """Persistent chains come further than contrastive divergence; the right base finds the exact log Z."""
    cd, _, pcd, _, *_, found, error, exact = on("course/09_restricted", "mnist.npz")
    assert -160.0 < cd < pcd - 5.0 and pcd > -140.0
    assert abs(found - exact) < 4.0 * error < 8.0
    assert on("users/images", "mnist.npz")[-1] > 0.88
