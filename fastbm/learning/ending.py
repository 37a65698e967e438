"""Where the end of a run begins: its last epoch, after which all that is looked at now and then is looked at once more.

A longer run would have gone on from there without that. So the state before it stays with the run, and the numbers of
rows that there were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .moments import with_prefix, without_prefix

PREFIX, N_ROWS = "before_end", "n_rows"

Arrays = dict[str, np.ndarray]


class Ending:
    """Keeps the state before the end."""

    def __init__(self) -> None:
        self._kept: Arrays = {}

    def begin(self, state: Callable[[], Arrays], n_written: Callable[[], Mapping[str, int]] | None) -> None:
        """The end begins here, unless it has begun; without the numbers of rows that were written nothing is kept."""
        if self._kept or n_written is None:
            return
        counts = n_written()
        self._kept = {name: np.array(array) for name, array in state().items()}
        self._kept[N_ROWS] = np.array([counts[name] for name in sorted(counts)], np.int64)

    def forget(self) -> None:
        """It was no end: learning had stopped by itself before, which is not known after a resume until asked."""
        self._kept = {}

    def state(self) -> Arrays:
        return with_prefix(PREFIX, self._kept)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._kept = without_prefix(PREFIX, dict(state))


def before_end(state: Mapping[str, np.ndarray], streams: Mapping[str, object]) -> tuple[Arrays, dict[str, int]] | None:
    """The state of a finished run before its end, and its rows of each stream there; None if it was not kept."""
    kept = without_prefix(PREFIX, dict(state))
    if not kept:
        return None
    counts = kept.pop(N_ROWS).tolist()
    return kept, dict(zip(sorted(streams), counts, strict=True))
