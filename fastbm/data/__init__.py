"""Rows of bits: where they come from, how they are held, and their moments."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .datasets import Data, bars_and_stripes, load, shifter

__all__ = ["Data", "bars_and_stripes", "load", "shifter"]


def __getattr__(name: str) -> Any:
    """Find public names when they are used: `fastbm.data.rows` is needed everywhere, the readers of files are not."""
    if name in __all__:
        return getattr(importlib.import_module(".datasets", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
