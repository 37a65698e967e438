"""The table of studies, and how they are shown."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from ..._base import checks
from . import glass, importance, inverse, ising, neurons
from .found import Found


@dataclass(frozen=True)
class Study:
    """A study: what it is about, its function, and what data it needs that fastbm does not bring.

    The function takes `threads`, `data` and `effort`, which scales its samples.
    """

    about: str
    run: Callable[..., list[Found]]
    needs: str = ""


STUDIES = {
    "ising-scaling": Study("exponents of the square lattice at its critical point, by sizes 8 to 64", ising.scaling),
    "sk-ground-states": Study("ground states of the Sherrington-Kirkpatrick glass, by sizes 31 to 127", glass.sk),
    "inverse-ising": Study("errors of couplings by four rules, from the paramagnet into the glass", inverse.errors),
    "ais": Study("log Z of machines taught by CD-1, CD-3 and PCD, annealed and exact", importance.ais),
    "mnist-classifier": Study(
        "ten visible machines classify MNIST in one shot", importance.mnist, "mnist.npz (--data PATH)"
    ),
    "neurons-pairs": Study(
        "what pairs explain of groups of ten recorded cells", neurons.pairs, "a recording (--data FILE.mat:VARIABLE)"
    ),
    "neurons-entropy": Study(
        "entropies of 50 recorded cells and of their pairwise machine", neurons.entropies, "example50.mat (--data PATH)"
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
    if data is not None and not study.needs:
        raise ValueError(f"{name} needs no data; leave --data out.")
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
