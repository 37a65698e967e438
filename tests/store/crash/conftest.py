"""What all crash tests need: no thread beside the one that forks, and a folder that syncs fast."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import crash, machines


@pytest.fixture(autouse=True)
def no_threads() -> Iterator[None]:
    """Close what tests before have opened: a child that is forked beside a thread may hang."""
    machines.close_pools()
    yield
    machines.close_pools()


@pytest.fixture
def folder() -> Iterator[Path]:
    with crash.memory_folder() as path:
        yield path
