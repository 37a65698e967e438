"""The rows of a run in parts: which segment holds which, each checked once before it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .chain import Missing, Origin, Stale, check_link
from .header import Header
from .image import Damaged
from .names import Names

Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """What changes if a file of the same name is another one; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Parts:
    """The segments that bear their final name, checked as they are needed.

    A segment's header knows how many rows came before it, so the number of rows needs the last segment only.
    """

    def __init__(self, names: Names, origin: Origin) -> None:
        self.names, self.origin = names, origin
        self._checked: dict[int, tuple[Stamp | None, Header]] = {0: (stamp(names.segment(0)), origin.header)}
        self._streams = list(origin.streams)
        self.last_number = 0
        self.refresh()

    @property
    def last(self) -> Header:
        """The header at the end of the chain."""
        return self.header(self.last_number)

    def refresh(self) -> None:
        """Look for segments that came, and for ones that were computed again."""
        for number, (seen, _) in list(self._checked.items()):
            if stamp(self.names.segment(number)) != seen:
                del self._checked[number]
        if 0 not in self._checked:
            raise At(0, Missing())
        numbers = self.names.segment_numbers()
        gap = next((k for k, number in enumerate(numbers) if k != number), None)
        if gap is not None:
            raise At(gap, Missing())
        self.last_number = numbers[-1] if numbers else 0
        if self.origin.replaced and self.last_number:
            try:
                self.header(1)
            except Stale:
                self.last_number = 0
        self.header(self.last_number)

    def header(self, number: int) -> Header:
        """Return a segment's header, all its bytes checked."""
        if number not in self._checked:
            seen = stamp(self.names.segment(number))
            try:
                before = self._checked[number - 1][1] if number - 1 in self._checked else None
                header = check_link(self.names, self.origin, before, number, hashed=True)
            except Damaged as error:
                raise At(number, error) from None
            self._checked[number] = (seen, header)
        return self._checked[number][1]

    def n_rows(self, name: str) -> int:
        """How many rows of a stream are committed."""
        return int(self.last.index[self._streams.index(name)].sum())

    def pieces(self, name: str, start: int, stop: int) -> Iterator[tuple[int, int, Header]]:
        """Yield first row, end and segment of the pieces that hold rows `start` to `stop`."""
        column = self._streams.index(name)
        low, high = 1, self.last_number
        while low < high:  # the first segment whose rows end behind `start`
            middle = (low + high) // 2
            if self.header(middle).index[column].sum() > start:
                high = middle
            else:
                low = middle + 1
        for number in range(low, self.last_number + 1):
            header = self.header(number)
            first, count = (int(n) for n in header.index[column])
            if first >= stop:
                return
            if count:
                yield first, first + count, header


class At(Exception):
    """Damage, and the segment in which it is."""

    def __init__(self, number: int, error: Damaged) -> None:
        super().__init__(str(error))
        self.number, self.error = number, error
