"""The rows of a run in parts: which segment holds which, each segment checked once before it is read.

Of a damaged run it is the whole part: what can still be read, up to where a resume would begin to compute again.
"""

from __future__ import annotations

import os
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from .chain import Missing, Origin, Stale, blocks_safe, check_link, follow, spec_of
from .image import Damaged
from .names import Names
from .segment import Header, read_state

Stamp = tuple[int, int, int]
KEPT_HEADERS = 1024


def stamp(path: Path) -> Stamp | None:
    """Return inode, time and size, by which a file differs from another of the same name; None if it cannot be read."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Parts:
    """The segments that bear their final name, checked as they are needed.

    A segment's header knows how many rows came before it, so the number of rows needs the last segment only. Some
    headers are kept, and eight bytes for each segment whose bytes were checked.
    """

    def __init__(self, names: Names, origin: Origin) -> None:
        self.names, self.origin = names, origin
        self._headers: OrderedDict[int, tuple[Stamp | None, Header]] = OrderedDict()
        self._hashed = array("q")  # of each segment, what its stamp was when its bytes were checked
        self._streams = list(origin.streams)
        self._list()

    @property
    def last(self) -> Header:
        """The header at the end of the chain."""
        return self._last

    def refresh(self) -> None:
        """Find segments that were added or computed again since the last call: at most a few questions to the disk.

        Whether the first one is still the same the caller knows.
        """
        if self._before_stale or stamp(self.names.segment(self.last_number)) != self._last_stamp:
            self._list()
        elif (newest := self._newest()) > self.last_number:
            self._go_to(newest)

    def header(self, number: int, *, hashed: bool = True) -> Header:
        """Return a segment's header, all bytes of the segment checked unless `hashed` is false."""
        if number == 0:
            return self.origin.header
        seen = stamp(self.names.segment(number))
        known, header = self._headers.get(number, (None, None))
        if header is not None and known == seen and (not hashed or self._was_hashed(number, seen)):
            return header
        try:
            hashing = hashed and not self._was_hashed(number, seen)
            header = check_link(self.names, self.origin, self._before(number), number, hashed=hashing)
        except Damaged as error:
            raise At(number, error) from None
        if hashing:
            self._note_hashed(number, seen)
        self._headers[number] = (seen, header)
        if len(self._headers) > KEPT_HEADERS:
            self._headers.popitem(last=False)
        return header

    def n_rows(self, name: str) -> int:
        """Return how many rows of a stream are committed."""
        return self._end_row(self.last, self._streams.index(name))

    def n_rows_before(self, name: str) -> int:
        """Return the rows of a stream that count among those before the first segment, in a merged file."""
        return self._end_row(self.origin.header, self._streams.index(name))

    def _end_row(self, header: Header, column: int) -> int:
        return header.end_row(column, self.last.rewinds)

    def pieces(self, name: str, start: int, stop: int) -> Iterator[tuple[int, int, Header]]:
        """Yield first row, end and segment of the pieces that hold rows `start` to `stop`."""
        column = self._streams.index(name)
        low, high = 1, self.last_number
        while low < high:  # the first segment whose rows end behind `start`
            middle = (low + high) // 2
            if self._end_row(self.header(middle, hashed=False), column) > start:
                high = middle
            else:
                low = middle + 1
        for number in range(low, self.last_number + 1):
            header = self.header(number)
            first, end = int(header.index[column, 0]), self._end_row(header, column)
            if first < end:
                yield first, end, header
            if end >= stop:
                return

    def read_spec(self) -> str:
        """Return the spec in force at the end; a run that was extended before its merge holds several."""
        wanted = self.last.spec_sha256
        if wanted == self.origin.header.spec_sha256:
            return self.origin.spec
        low, high = 1, self.last_number
        while low < high:  # no spec comes back, as each is longer than the one before
            middle = (low + high) // 2
            low, high = (low, middle) if self.header(middle, hashed=False).spec_sha256 == wanted else (middle + 1, high)
        return spec_of(self.names, self.header(low))

    def _list(self) -> None:
        """Find all segments by name, and the end of the chain."""
        numbers = self.names.segment_numbers()
        if numbers and len(numbers) != numbers[-1] + 1:
            raise At(next(k for k, number in enumerate(numbers) if k != number), Missing())
        self._before_stale = False
        if self.origin.replaced and len(numbers) > 1:
            try:
                self.header(1)
            except Stale:
                numbers, self._before_stale = [0], True
        self._go_to(numbers[-1] if numbers else 0)

    def _newest(self) -> int:
        """Return the number of the newest segment, found by steps of twice the length."""
        known, step = self.last_number, 1
        while self._exists(known + step):
            step *= 2
        low, high = known + step // 2, known + step  # the first is there, the other is not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._exists(middle) else (low, middle)
        return low

    def _exists(self, number: int) -> bool:
        return os.path.exists(self.names.segment(number))

    def _go_to(self, number: int) -> None:
        seen = stamp(self.names.segment(number))
        self._last = self.header(number)
        self.last_number, self._last_stamp = number, seen

    def _before(self, number: int) -> Header | None:
        if number == 1:
            return self.origin.header
        seen, header = self._headers.get(number - 1, (None, None))
        return header if seen == stamp(self.names.segment(number - 1)) else None

    def _was_hashed(self, number: int, seen: Stamp | None) -> bool:
        return number < len(self._hashed) and self._hashed[number] == _short(seen)

    def _note_hashed(self, number: int, seen: Stamp | None) -> None:
        self._hashed.extend([0] * (number + 1 - len(self._hashed)))
        self._hashed[number] = _short(seen)


class At(Exception):
    """Raised for damage in a segment, with the number of the segment."""

    def __init__(self, number: int, error: Damaged) -> None:
        super().__init__(str(error))
        self.number, self.error = number, error


def _short(seen: Stamp | None) -> int:
    return hash(seen)


class WholePart(Parts):
    """The segments before the first damaged one, with no search for others.

    Attributes
    ----------
    damage : str
        What is damaged, and which blocks are whole; empty if all is.
    """

    def __init__(self, names: Names, origin: Origin, end: int, damage: str) -> None:
        self._end, self.damage = end, damage
        super().__init__(names, origin)

    def refresh(self) -> None:
        """Do nothing: the segments stay those that were whole."""

    def _list(self) -> None:
        self._before_stale = False
        self._go_to(self._end)


def whole_part(names: Names, origin: Origin) -> WholePart:
    """Check every byte of every segment, and the state that a resume would begin from."""
    chain = follow(names, origin, hash_last=None)
    headers, reason = chain.headers, chain.reason
    while len(headers) > 1:
        try:
            read_state(names, headers[-1])
            break
        except Damaged as error:
            reason = reason or f"{names.show(names.state(headers[-1].segment))} is damaged: {error}"
            headers.pop()
    if reason:
        reason = (
            f"{reason}. {blocks_safe(headers[-1].end_block)} are whole; resume the run to compute the others again."
        )
    return WholePart(names, origin, headers[-1].segment, reason)
