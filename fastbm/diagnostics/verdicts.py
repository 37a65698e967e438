"""Verdicts that know three answers: True, False, and None where nothing tells."""

from __future__ import annotations

from collections.abc import Iterable

VERDICTS = {True: "converged", False: "NOT converged", None: "cannot tell whether it converged"}


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """Tell whether all are true; False if one is false, else None if one is None."""
    found = list(verdicts)
    if any(verdict is False for verdict in found):
        return False
    return None if any(verdict is None for verdict in found) else True
