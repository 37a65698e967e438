"""What studies return: a number beside the published one; and the slope of a line through such numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SURE = 3.0  # standard errors by which a number may differ beyond its tolerance


@dataclass(frozen=True)
class Found:
    """One number beside the published one.

    Attributes
    ----------
    what : str
    value, error : float
        As it was found, with its standard error.
    published : float
    tolerance : float
        By which the two may differ beyond three standard errors: what the published number leaves open, and what
        small sizes cost.
    source : str
    at_least : bool
        Whether what was published is that the number is no smaller.
    """

    what: str
    value: float
    error: float
    published: float
    tolerance: float
    source: str
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the number that was found is the published one."""
        off = self.published - self.value
        return bool((off if self.at_least else abs(off)) <= self.tolerance + SURE * self.error)


def slope(x: Iterable[float], y: Iterable[float], error: Iterable[float]) -> tuple[float, float, float, float]:
    """Return slope and value at x = 0, each with its standard error, by weighted least squares."""
    points = list(zip(x, y, error, strict=True))
    weight = [1.0 / e**2 for *_, e in points]
    total = sum(weight)
    x0 = sum(w * a for w, (a, *_) in zip(weight, points, strict=True)) / total
    y0 = sum(w * b for w, (_, b, _) in zip(weight, points, strict=True)) / total
    square = sum(w * (a - x0) ** 2 for w, (a, *_) in zip(weight, points, strict=True))
    rise = sum(w * (a - x0) * (b - y0) for w, (a, b, _) in zip(weight, points, strict=True)) / square
    return rise, square**-0.5, y0 - rise * x0, (1.0 / total + x0**2 / square) ** 0.5
