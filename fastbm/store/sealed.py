"""Merged files that this process has sealed, and read back as it did: opening one need not read it all again."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path

_KEPT = 64
# How files stood when they were sealed, by the hash in their trailers.
_known: OrderedDict[str, tuple[int, ...]] = OrderedDict()


def note(path: Path, digest: str) -> None:
    """Remember that a file, which bears its final name, is what its trailer claims."""
    _known[digest] = _stand(path)
    if len(_known) > _KEPT:
        _known.popitem(last=False)


def is_known(path: Path, digest: str) -> bool:
    """Whether a file was noted and nothing has written to it, moved or copied it since.

    What was written between the sealing and the note counts as sealed; `check_hash` and `fastbm verify` find that.
    """
    return _known.get(digest) == _stand(path)


def _stand(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
