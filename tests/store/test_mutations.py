"""Files changed under a valid seal: no crash, no hang, no raw error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import store

tmp_path = store.tmp_path
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("first", "n"),
    [
        (0, 40),
        pytest.param(40, 60, marks=pytest.mark.slow),
        pytest.param(100, 9_900, marks=pytest.mark.long),
    ],
)
def test_what_makes_no_sense_is_one_error(first: int, n: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.mutation_trials", str(tmp_path), str(first), str(first + n)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *wrong, last = done.stdout.splitlines()
    assert not wrong, "\n".join(wrong)
    n_ended, n_refused, n_lost = map(int, last.split())
    assert n_ended + n_refused + n_lost == n
    assert n_refused > n / 4  # the others changed what is not needed, or gave another run
    assert n_lost < n / 200
