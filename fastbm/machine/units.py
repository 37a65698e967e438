"""The two conventions for a unit's values: spins (-1, +1) and binary units (0, 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._base import checks


class Units(NamedTuple):
    """A convention: its name, the value of a unit that is down (`lo`) and of one that is up (`hi`)."""

    name: str
    lo: int
    hi: int

    @property
    def span(self) -> int:
        """Difference hi - lo: 2 for spins, 1 for binary units."""
        return self.hi - self.lo

    def values(self, up: np.ndarray, dtype: type = np.int8) -> np.ndarray:
        """Turn bits into values."""
        values: np.ndarray = np.asarray(up).astype(dtype)
        if self.lo:
            values *= dtype(self.span)
            values += dtype(self.lo)
        return values

    def bits(self, argument: str, states: object) -> np.ndarray:
        """Turn checked values into bits (uint8); `argument` names them in the error."""
        values = np.asarray(states)
        if values.dtype.kind not in "biuf":
            raise TypeError(f"{argument} must be numbers, {self.lo} or {self.hi}; got dtype {values.dtype}.")
        up = values == self.hi
        known = values == self.lo
        known |= up
        if not known.all():
            wrong = np.argwhere(~known)
            place = tuple(int(k) for k in wrong[0])
            raise ValueError(
                f"{argument} must be {self.lo} or {self.hi} ({self.name} units); got {values[place]} at {place}, "
                f"{len(wrong)} such entries in all.{self._hint(values)}"
            )
        found: np.ndarray = up.astype(np.uint8)
        return found

    def _hint(self, values: np.ndarray) -> str:
        other = BINARY if self.name == "spin" else SPIN
        if not np.isin(values, (other.lo, other.hi)).all():
            return " Binarise the data first, for instance with a threshold."
        change = "2 * x - 1" if self.name == "spin" else "(s + 1) // 2"
        return f' They look like {other.name} units: pass {change}, or a model with units="{other.name}".'


SPIN = Units("spin", -1, 1)
BINARY = Units("binary", 0, 1)


def units(name: str) -> Units:
    """Return the convention called `name`, "spin" or "binary"."""
    return SPIN if checks.choice("units", name, ("spin", "binary")) == "spin" else BINARY
