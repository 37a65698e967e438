"""What the command line shows of campaigns, and what it does with them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._base import checks
from .._base.checks import DamagedRun, StorageError
from .._base.files import refuse_foreign
from .._base.shown import printable
from ..campaigns import verb
from ..campaigns.averages import RATIOS
from ..campaigns.campaign import Campaign, open_campaign
from ..campaigns.columns import text_of
from ..campaigns.export import is_table
from ..campaigns.view import View, panels, with_error
from ..runs.stop import SIGNALS, Stop
from .workers import check_one, hired

SIZES = ("shape", "n")  # keys whose values are sizes
MOST_TEXTS = 5  # of cells that failed


def run_campaign(tables: Mapping[str, Any], folder: Path, **options: Any) -> str | None:
    """Run the campaign that a file describes; return what is to be said of cells that failed, if any did."""
    seconds = tables.get("store", {}).get("max_seconds") if options["max_seconds"] is None else options["max_seconds"]
    return _finish(lambda **given: verb.campaign(tables, out=folder, **given), **{**options, "max_seconds": seconds})


def resume_campaign(folder: Path, **options: Any) -> str | None:
    """Go on with a campaign."""
    return _finish(lambda **given: open_campaign(folder).resume(**given), **options)


def retry_campaign(folder: Path, **options: Any) -> str | None:
    """Compute failed cells again."""
    return _finish(lambda **given: open_campaign(folder).retry(**given), **options)


def extend_campaign(folder: Path, factor: float, **options: Any) -> str | None:
    """Go on with cells that have not converged."""
    return _finish(lambda **given: open_campaign(folder).extend(factor, **given), **options)


def _finish(
    go_on: Callable[..., Campaign], *, campaign: Mapping[str, Any], threads: int | None, max_seconds: float | None,
    quiet: bool, exact: bool, stop: Stop | None = None,
) -> str | None:  # fmt: skip
    """Let a campaign go on, and show how it stands then."""
    stop = Stop(SIGNALS) if stop is None else stop
    if max_seconds is not None:
        stop.limit(checks.real("max_seconds", max_seconds, least=0.0), of_process=True)
    verb.check_part(campaign.get("part"))
    check_one(campaign)
    told = {name: campaign[name] for name in ("part", "workers") if name in campaign}  # a campaign has its own pool
    others = {name: campaign[name] for name in ("scheduler", "mpi") if name in campaign}
    with hired(others, exact=exact) as executor, stop.breaking(False):
        found = go_on(threads=threads, exact=exact, progress=not quiet, stop=stop, **told, **executor)
    show_status(found.path)
    show_results(Console(highlight=False), found)
    if not found.failed:
        return None
    texts = list(dict.fromkeys(found.failed.values()))
    more = f" And {len(texts) - MOST_TEXTS} more." if len(texts) > MOST_TEXTS else ""
    return f"{len(found.failed)} of {len(found)} cells failed: {' '.join(texts[:MOST_TEXTS])}{more}"


def show_status(folder: Path) -> None:
    """Print how a campaign stands."""
    console = Console(highlight=False)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("campaign", escape(printable(folder)))
    found = open_campaign(folder).status
    for name, value in found.rows():
        table.add_row(name, value)
    console.print(table)
    if found.damaged:
        names = ", ".join(str(folder / "shards" / name) for name in found.damaged)
        raise DamagedRun(f"damaged: {names}. Remove that, then resume: its cells are computed again.")


def show(folder: Path) -> None:
    """Print what a campaign is made of, how it stands, and why cells failed."""
    console, found = Console(highlight=False), open_campaign(folder)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("campaign", escape(printable(folder)))
    table.add_row("cells are", f"runs of {found.verb}; kept: {found.keep}")
    for one in found.generations:
        factor = f", {one.factor:g} times as long" if one.factor != 1 else ""
        table.add_row(f"{one.why} {one.number}", f"{one.n_cells} cells in {len(one.shards)} shards{factor}")
    for one in (found.tables["grid"], *found.tables.get("zip", ())):
        for key, values in one.items():
            table.add_row(escape(key), escape(_short(values)))
    for name, value in found.status.rows():
        table.add_row(name, value)
    for id, text in list(found.failed.items())[:MOST_TEXTS]:
        table.add_row(f"failed {id}", escape(f"{found.keys_of(id)}: {text}"))
    console.print(table)
    show_results(console, found)


def show_results(console: Console, campaign: Campaign) -> None:
    """Print what its picture would show: a column over a key of the grid; the best settings; where curves cross."""
    try:
        found = panels(campaign.table)
    except (ValueError, KeyError):  # nothing is done, or there is nothing that is told of all
        return
    for title, shown in found:
        head, lines = shown.printed()
        table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 1))
        for k, name in enumerate(head):
            table.add_column(escape(name), justify="left" if k == 0 else "right", no_wrap=True)
        for line in lines:
            table.add_row(*map(escape, line))
        texts = [f"{shown.y} over {shown.x}", title, f"averages of {shown.n}" if shown.n > 1 else ""]
        console.print(f"\n{', '.join(filter(None, texts))}", markup=False)
        console.print(table)
        for text in _crossings(shown):
            console.print(text, markup=False, soft_wrap=True)
    for text in _best(campaign):
        console.print(f"\n{text}", markup=False, soft_wrap=True)


def _crossings(shown: View) -> Iterator[str]:
    """Yield where curves of sizes cross, of what crosses at a transition."""
    if shown.y not in RATIOS or shown.group not in SIZES or len(shown.curves) < 2:
        return
    with suppress(ValueError):
        for one in shown.table.crossing(shown.y, x=shown.x, group=shown.group, pairs="all")[:MOST_TEXTS]:
            names = " and ".join(map(text_of, one.groups))
            yield f"{names} cross at {shown.x} = {with_error(one.x, one.error)}"


def _best(campaign: Campaign) -> Iterator[str]:
    """Yield the settings that are best by the holdout, of learning."""
    table = campaign.table
    if campaign.verb != "fit" or "holdout" not in table:
        return
    with suppress(ValueError):
        best = table.best()
        settings = [f"{key} = {best[key]}" for key in table.keys if key in best]
        error = best.get("holdout_error", 0.0)
        yield f"best by holdout: {', '.join(settings)}: {with_error(best['holdout'], error)}"


def _short(values: Any) -> str:
    text = str(values)
    return text if len(text) <= 70 else f"{text[:67]}..."


def write_table(folder: Path, out: Path | None) -> None:
    """Write the table of a campaign as CSV, to a file or to be read on."""
    found = open_campaign(folder).table
    if out is None:
        found.to_csv(sys.stdout)
        return
    if os.path.lexists(out) and not out.is_file():
        raise StorageError(f"{out} is no file. Leave --out out to print the table.")
    found.to_csv(refuse_foreign(out, "table", is_table))
    Console(highlight=False).print(f"table    {printable(out)}", soft_wrap=True, markup=False)


def draw(folder: Path, picture: Path | None, x: str | None, y: str | None, group: str | None) -> None:
    """Draw a column of a campaign over a key of its grid, and say where."""
    found = open_campaign(folder)
    try:
        from .pictures.campaign import plot_campaign
    except ImportError:
        raise ImportError('pictures need Matplotlib: pip install "fastbm[plot]"') from None
    try:
        place = plot_campaign(found.table, picture or folder / "campaign.png", x, y, group)
    except KeyError as error:
        raise ValueError(str(error.args[0])) from None
    Console(highlight=False).print(f"picture  {printable(place)}", soft_wrap=True, markup=False)
