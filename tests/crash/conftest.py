"""What all crash tests need: no thread beside the one that forks, and a folder that syncs fast."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import crashing
import helpers
import pytest


@pytest.fixture(autouse=True)
def no_threads() -> Iterator[None]:
    """Close what tests before have opened: a child that is forked beside a thread may hang."""
    helpers.close_pools()
    yield
    helpers.close_pools()


@pytest.fixture
def folder() -> Iterator[Path]:
    with crashing.memory_folder() as path:
        yield path
