"""Public names that methods reach by a string: what is drawn lies floors above what is computed."""

from __future__ import annotations

import importlib
from typing import Any


def public(name: str) -> Any:
    """Return a public name of the package."""
    return getattr(importlib.import_module(__package__.partition(".")[0]), name)
