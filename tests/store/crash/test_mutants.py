"""The suite itself is checked: with one safeguard taken out, the check that stands for it fails."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import pytest

from fastbm._base.checks import StorageError
from tests.store.crash import mutants
from tests.store.crash.mutants import MUTATIONS
from tests.support import crash

RED, PASSED = 3, 0
TELLING = (AssertionError, StorageError, UserWarning, pytest.fail.Exception)


def outcome_of(mutation: mutants.Mutation, folder: Path) -> int:
    """Do the check in a child, with the mutant in; 3 if it told, 0 if it passed, else 1."""

    def child() -> None:
        try:
            with mutation.change():
                mutation.check(folder)
        except TELLING:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(RED)

    return crash.run_child(child)


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
def test_what_is_taken_out_turns_a_check_red(name: str, folder: Path) -> None:
    assert outcome_of(MUTATIONS[name], folder) == RED


def test_enough_is_taken_out() -> None:
    assert len(MUTATIONS) >= 10
