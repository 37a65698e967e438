"""Rows of bits: where they come from, how they are held, and their moments."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .datasets import Data, bars_and_stripes, load, shifter
    from .spikes import Binned, from_spike_times

_PLACES = {
    "Binned": "spikes",
    "Data": "datasets",
    "bars_and_stripes": "datasets",
    "from_spike_times": "spikes",
    "load": "datasets",
    "shifter": "datasets",
}

__all__ = ["Binned", "Data", "bars_and_stripes", "from_spike_times", "load", "shifter"]


def __getattr__(name: str) -> Any:
    """Find public names when they are used: `fastbm.data.rows` is needed everywhere, the readers of files are not."""
    if name in _PLACES:
        return getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
