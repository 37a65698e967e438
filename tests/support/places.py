"""What the tests of places and bad input share: what lies in a folder, before and after."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastbm._base.checks import StorageError
from tests.support.store import refused


def listing(folder: Path) -> dict[str, str]:
    """Every entry below a folder, with its kind and the hash of its bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        text = stat.filemode(mode)
        if stat.S_ISREG(mode):
            text += hashlib.sha256(path.read_bytes()).hexdigest()
        elif stat.S_ISLNK(mode):
            text += os.readlink(path)
        found[str(path.relative_to(folder))] = text
    return found


def unchanged(folder: Path, act: Callable[[], Any], text: str, *, error: type[Exception] = StorageError) -> None:
    """Check that `act` is refused with a text, and changes nothing below a folder."""
    before = listing(folder)
    refused(act, text, error=error)
    assert listing(folder) == before
