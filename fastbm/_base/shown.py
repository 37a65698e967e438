"""One line for what holds many numbers: names, numbers, and shapes in place of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np


def brief(what: Any) -> str:
    """Return a named tuple or a dataclass in one line; its arrays are told by their shapes."""
    named: Mapping[str, Any] = (
        what._asdict() if hasattr(what, "_asdict") else {one.name: getattr(what, one.name) for one in fields(what)}
    )
    return f"<{type(what).__name__}: {', '.join(f'{name} {_told(value)}' for name, value in named.items())}>"


def _told(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"({', '.join(map(str, value.shape))}{',' * (value.ndim == 1)})"
    if isinstance(value, tuple) and not hasattr(value, "_asdict"):
        return f"of {len(value)}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
