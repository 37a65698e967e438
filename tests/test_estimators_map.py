"""What `auto` takes, beside the measured map of the cheapest methods."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from bench.estimator_map import machine
from fastbm.inference.auto import settle

MAP = Path(__file__).parents[1] / "bench" / "estimator_map.csv"


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
        taken = settle(machine(row["kind"], int(row["n"]), 0), beta=float(row["beta"]), **about)
        assert taken.method == "exact"
        assert row["both, sure"] == "exact" or float(row["exact: s"]) < 3 * float(row["both, sure: s"])
