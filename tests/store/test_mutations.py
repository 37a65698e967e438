"""Files changed under a valid seal: no crash, no hang, no raw error."""

from __future__ import annotations

from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.support import crash, mutation_trials, store

tmp_path = store.tmp_path


@pytest.mark.parametrize(
    ("first", "n"),
    [
        (0, 20),
        pytest.param(20, 80, marks=pytest.mark.slow),
        pytest.param(100, 9_900, marks=pytest.mark.long),
    ],
)
def test_what_makes_no_sense_is_one_error(first: int, n: int, tmp_path: Path) -> None:
    told = tmp_path / "told"

    def act() -> None:
        with told.open("w") as file, redirect_stdout(file):
            mutation_trials.main(tmp_path, first, first + n)

    assert crash.run_child(act) == 0
    *wrong, last = told.read_text().splitlines()
    assert not wrong, "\n".join(wrong)
    n_ended, n_refused, n_lost = map(int, last.split())
    assert n_ended + n_refused + n_lost == n
    assert n_refused > n / 4  # the others changed what is not needed, or gave another run
    assert n_lost < n / 200
