"""The whole part of a damaged run: what can still be read, up to where a resume would begin to compute again."""

from __future__ import annotations

from .chain import Origin, blocks_safe, follow
from .image import Damaged
from .names import Names
from .parts import Parts
from .segment import read_state


class WholePart(Parts):
    """The segments before the first damaged one; it does not look for others.

    Attributes
    ----------
    damage : str
        What is damaged, and which blocks are whole; empty if all is.
    """

    def __init__(self, names: Names, origin: Origin, end: int, damage: str) -> None:
        self._end, self.damage = end, damage
        super().__init__(names, origin)

    def refresh(self) -> None:
        """Stay with what was whole."""

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
