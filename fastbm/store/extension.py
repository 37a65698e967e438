"""What a finished run goes on with past its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .schema import Arrays


@dataclass(frozen=True)
class Extension:
    """A longer run, as it stands where it goes on.

    Attributes
    ----------
    spec : dict
    state : mapping of name to array, optional
        Where to go on from; the last state unless given.
    n_rows : mapping of name to int, optional
        How many rows of each stream there are at that place, where the end of the run has brought more: those are left
        out, by readers and by the merge. All unless given.
    """

    spec: dict[str, Any]
    state: Mapping[str, Any] | None = None
    n_rows: Mapping[str, int] | None = None

    def kept(self, written: Mapping[str, int]) -> dict[str, int]:
        """Of the rows that are written, how many count for the longer run."""
        return {name: min(n, (self.n_rows or written)[name]) for name, n in written.items()}


Extend = Callable[[dict[str, Any], Arrays, Arrays], Extension]  # of the spec, the inputs and the last state
