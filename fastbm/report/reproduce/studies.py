"""The table of studies, what they return, and how that is shown."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from ..._base import checks

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


@dataclass(frozen=True)
class Study:
    """A study: what it is about, where its function is, and whether it needs data that fastbm does not bring."""

    about: str
    place: str
    needs: str = ""

    def run(self, *, threads: int | None, data: str | None, effort: float) -> list[Found]:
        """Do the study; `effort` scales its samples."""
        module, _, name = self.place.partition(":")
        found: list[Found] = getattr(importlib.import_module(f".{module}", __package__), name)(
            threads=threads, data=data, effort=effort
        )
        return found


STUDIES = {
    "ising-scaling": Study("exponents of the square lattice at its critical point, by sizes 8 to 64", "ising:scaling"),
    "sk-ground-states": Study("ground states of the Sherrington-Kirkpatrick glass, by sizes 31 to 127", "glass:sk"),
    "inverse-ising": Study("errors of couplings by five rules, from the paramagnet into the glass", "inverse:errors"),
    "ais": Study("log Z of machines taught by CD-1, CD-3 and PCD, annealed and exact", "importance:ais"),
    "mnist-classifier": Study(
        "ten visible machines classify MNIST in one shot", "importance:mnist", "mnist.npz (--data PATH)"
    ),
}


def reproduce(name: str, *, data: str | None = None, threads: int | None = None, effort: float = 1.0) -> list[Found]:
    """Do a study by name.

    Raises
    ------
    ValueError
        For a name that is not known, or data that are not given.
    """
    study = STUDIES[checks.choice("name", name, STUDIES)]
    if study.needs and data is None:
        raise ValueError(f"{name} needs {study.needs}, which fastbm does not bring.")
    return study.run(threads=threads, data=data, effort=checks.real("effort", effort, above=0.0))


def show_list(console: Console) -> None:
    """Print the studies."""
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what")
    for name, study in STUDIES.items():
        table.add_row(name, study.about + (f"; needs {study.needs}" if study.needs else ""))
    console.print(table, highlight=False)


def show(console: Console, name: str, *, data: str | None, threads: int | None) -> bool:
    """Do a study and print it; return whether all of it holds."""
    started = time.perf_counter()
    found = reproduce(name, data=data, threads=threads)
    table = Table(box=None, pad_edge=False, title=STUDIES[name].about, title_justify="left", title_style="")
    for column in ("", "found", "published", "may differ", "holds"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=bool(column))
    for one in found:
        table.add_row(
            one.what, _with_error(one.value, one.error), f"{'>= ' * one.at_least}{one.published:.6g}",
            f"{one.tolerance:.2g}",
            "yes" if one.holds else "NO",
        )  # fmt: skip
    console.print(table, highlight=False)
    for source in dict.fromkeys(one.source for one in found):
        console.print(f"  {source}", highlight=False, style="dim")
    console.print(f"{time.perf_counter() - started:.0f} s", highlight=False)
    return all(one.holds for one in found)


def _with_error(value: float, error: float) -> str:
    if not error or not math.isfinite(error):
        return f"{value:.6g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} +- {error:.{digits}f}"


def slope(x: Iterable[float], y: Iterable[float], error: Iterable[float]) -> tuple[float, float, float]:
    """Return slope, its standard error and the value at x = 0, by weighted least squares."""
    points = list(zip(x, y, error, strict=True))
    weight = [1.0 / e**2 for *_, e in points]
    total = sum(weight)
    x0 = sum(w * a for w, (a, *_) in zip(weight, points, strict=True)) / total
    y0 = sum(w * b for w, (_, b, _) in zip(weight, points, strict=True)) / total
    square = sum(w * (a - x0) ** 2 for w, (a, *_) in zip(weight, points, strict=True))
    rise = sum(w * (a - x0) * (b - y0) for w, (a, b, _) in zip(weight, points, strict=True)) / square
    return rise, square**-0.5, y0 - rise * x0
