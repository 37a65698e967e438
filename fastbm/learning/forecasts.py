"""Sums over the states of hidden units that every row needs for itself: refused beforehand where all take too long."""

from __future__ import annotations

from collections.abc import Iterable

from ..exact.choosing import duration
from ..inference.exact import LIMITS, forecast_seconds
from ..inference.hidden import machine_of_hidden
from ..model import BoltzmannMachine
from ..rows import Rows
from .distinct import distinct
from .settings import FitSettings


def refuse_long_rows(start: BoltzmannMachine, rows: Iterable[Rows], settings: FitSettings) -> None:
    """Refuse what needs a sum for each distinct row of bits, of one set after the other, if it takes too long.

    For machines whose hidden units are coupled to one another; `rows` are those learned from, then those held out.
    """
    n_distinct = [len(distinct(up)[0]) for up in rows]
    hidden = machine_of_hidden(start)
    for asked, n_rows, moments, way_out in (
        (settings.clamped == "exact", min(n_distinct[0], settings.batch_size), True, 'clamped="gibbs"'),
        (settings.evaluate in ("exact", "ais"), sum(n_distinct), False, 'evaluate="none"'),
    ):
        seconds = n_rows * forecast_seconds(hidden, moments=moments)
        if asked and seconds > LIMITS.seconds:
            what = 'clamped="exact"' if moments else f"evaluate={settings.evaluate!r}"
            raise ValueError(
                f"{what} needs a sum over the states of {start.n_hidden} coupled hidden units for each of {n_rows} "
                f"distinct rows{' of an update' if moments else ''}, about {duration(seconds)} in all; the limit is "
                f"{duration(LIMITS.seconds)}. Use {way_out}, or fewer hidden units."
            )
