"""What systems other than Unix lack: locks and forks. Sampling in memory does without, files do not."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:
    fcntl = None


def after_fork(function: Callable[[], object]) -> None:
    """Have every forked child call a function first, where there are forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
