"""What `auto` takes, beside the measured map of the cheapest methods."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from fastbm.inference.auto import settle

MAP = Path(__file__).parents[2] / "bench" / "estimator_map.csv"


def machine(kind: str, n: int) -> bm.BoltzmannMachine:
    """The machine that the map was measured on; `bench` is a folder of the repository and no installed package."""
    made: bm.BoltzmannMachine = runpy.run_path(str(MAP.with_suffix(".py")))["machine"](kind, n, 0)
    return made


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with MAP.open() as file:
        return [row for row in csv.DictReader(file) if row["truth"] == "exact"]


def test_small_machines_are_summed_most_cheaply(rows: list[dict[str, str]]) -> None:
    assert {row[column] for row in rows if int(row["n"]) <= 16 for column in ("both", "log Z, sure")} == {"exact"}


def test_auto_takes_what_can_vouch_for_log_z_and_the_means(rows: list[dict[str, str]]) -> None:
    """An exact sum within a budget of a minute, which in one cell is twice as dear as the cheapest that is as sure."""
    about: Any = {"clamp": None, "moments": True, "seed": 0, "threads": 1, "budget": 60.0}
    for row in rows:
        taken = settle(machine(row["kind"], int(row["n"])), beta=float(row["beta"]), **about)
        assert taken.method == "exact"
        assert row["both, sure"] == "exact" or float(row["exact: s"]) < 3 * float(row["both, sure: s"])
