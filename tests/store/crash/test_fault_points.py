"""Named points at which a disk fails or the process dies: the run ends as if nothing had happened, or says what did."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastbm.store import disk
from tests.store.crash.fault_points import FAULTS, MAIN, POINTS, applies, home_of, reached, trial
from tests.store.crash.stories import STORIES


def test_every_file_operation_belongs_to_a_named_point() -> None:
    found = {point for name in STORIES for point in reached(name)}
    assert "" not in found
    assert found == set(POINTS), "a point that no story comes to tests nothing"
    assert {POINTS[point][0] for point in found} == set(disk.OPERATIONS)
    assert set(MAIN) <= set(POINTS)


@pytest.mark.parametrize("point", POINTS)
def test_faults_at_a_named_point(folder: Path, point: str) -> None:
    name = home_of(point)
    there = [number for number, found in enumerate(reached(name)) if found == point]
    for fault in FAULTS:
        if applies(fault, point) and (point in MAIN or fault == "kill"):
            trial(name, folder / "run.h5", there[len(there) // 2], fault)


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_at_every_operation(folder: Path, name: str, fault: str, step: int) -> None:
    """Or at every third one, another for each fault and story; kills are at every one in `test_kills.py`."""
    first = (list(FAULTS).index(fault) + list(STORIES).index(name)) % step
    for number, point in list(enumerate(reached(name)))[first::step]:
        if applies(fault, point):
            trial(name, folder / "run.h5", number, fault)
