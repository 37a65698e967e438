"""What the command line shows: progress, tables, where the files are."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._base import checks
from .._base.checks import StorageError
from .._base.shown import printable, shell_word
from ..runs.begin import merge, open as open_run, resume, run_of
from ..runs.extend import extend
from ..runs.run import Run
from ..runs.sample.samples import Samples
from ..runs.status import status_of
from ..runs.stop import SIGNALS, Stop, Unshown
from ..runs.summary import format_value
from ..runs.toml import ready
from ..runs.toml.text import is_of_campaign, output, output_folder
from ..store import Reader, open_reader
from .workers import check_single, hired


def run_file(
    file: Path,
    changes: list[str],
    *,
    out: Path | None,
    overwrite: bool,
    threads: int | None,
    quiet: bool,
    max_seconds: float | None = None,
    stop: Stop | None = None,
    only: str | None = None,
    campaign: Mapping[str, Any] | None = None,
    exact: bool = True,
) -> str | None:
    """Read, check and run a file; then show and draw what it found. `max_seconds` goes before what the file says.

    `campaign` says who does it; of files with a grid `report.campaigns` takes care, and what is returned says that some
    cells have failed.
    """
    from ..runs.toml import file as config

    file = ready.find(file)
    tables = config.read(file, changes)
    ready.beside(tables, file)
    if is_of_campaign(tables) and only is None:
        from .campaigns import run_campaign

        if overwrite:
            raise ValueError("--overwrite is of a single run: a campaign goes on. Name another folder: campaign.out.")
        common = {"threads": threads, "quiet": quiet, "max_seconds": max_seconds, "stop": stop, "exact": exact}
        return run_campaign(tables, output_folder(tables, file, out), campaign=campaign or {}, **common)
    if is_of_campaign(tables):
        raise ValueError(f"{file} describes a campaign of many runs. Run it with: fastbm run {shell_word(file)}")
    said = campaign or {}
    verb = config.check(tables)
    if only not in (None, verb):
        raise ValueError(f"{file} has a table [{verb}]; this command takes files with [{only}].")
    settings = config.storage(tables)
    settings["out"] = output(tables, file, out)
    settings["overwrite"] = overwrite or settings.get("overwrite", False)
    stop = Stop(SIGNALS) if stop is None else stop
    _limit(stop, settings.pop("max_seconds", None), max_seconds)
    begin = config.call(tables, verb)
    check_single(said, config.takes_executor(tables, verb), f"[{verb}]")
    started = time.perf_counter()
    with stop.breaking(False):
        about = {"toml": json.dumps(tables, default=str)}
        with hired(said, exact=exact) as executor:
            begin(**settings, **executor, about=about, threads=threads, progress=not quiet, stop=stop)
        finish(Path(settings["out"]), time.perf_counter() - started, stop)
    return None


def _limit(stop: Stop, stored: float | None, given: float | None) -> None:
    seconds = stored if given is None else given
    if seconds is not None:
        stop.limit(checks.real("max_seconds", seconds, least=0.0), of_process=True)


def resume_run(
    out: Path,
    *,
    extend_by: int | None,
    data: str | None,
    holdout: str | None,
    threads: int | None,
    quiet: bool,
    max_seconds: float | None = None,
    exact: bool = True,
    stop: Stop | None = None,
    campaign: Mapping[str, Any] | None = None,
) -> None:
    """Resume a run to its end, or past it by `extend_by`, and show it.

    `data` and `holdout` name files that were moved.
    """
    said = campaign or {}
    started = time.perf_counter()
    stop = Stop(SIGNALS) if stop is None else stop
    _limit(stop, None, max_seconds)
    run = open_run(out)
    continue_run: Callable[..., Run] = resume
    if extend_by is not None and said:
        raise ValueError(f"--{min(said)}: to go on past its end is done by one process. Leave it out.")
    check_single(said, "executor" in run.takes, run.kind)
    if extend_by is not None:
        more: dict[str, Any] = {run.counted or "n_sweeps": checks.whole("--extend", extend_by, least=1)}
        continue_run = partial(extend, **more)
    with stop.breaking(False):
        done = run.finished and extend_by is None
        with hired(said, exact=exact) as executor:
            common = {"threads": threads, "exact": exact, "data": data, "holdout": holdout, "stop": stop}
            continue_run(out, progress=not quiet, **common, **executor)
        if done:
            text = f"{printable(out)} is finished; there was nothing left to do."
            Console(highlight=False).print(text, markup=False)
        finish(out, time.perf_counter() - started, stop)


def list_ready(folder: Path | None) -> None:
    """Print the ready files to run, or copy them into a folder."""
    console = Console(highlight=False)
    if folder is not None:
        places = ready.copy_to(folder)
        console.print(f"{len(places)} files in {printable(folder)}", markup=False)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, path in ready.files().items():
        table.add_row(name, escape(ready.about(path)))
    console.print(table)
    console.print("\nRun one with: fastbm run NAME, copy all with: fastbm examples --copy FOLDER", style="dim")


def merge_run(out: Path) -> None:
    """Merge the parts of a run, and say so."""
    parts = Path(str(out).removesuffix(".parts") + ".parts")
    there = parts.exists()
    run = merge(out)
    text = f"{printable(run.path)} is {'merged' if there else 'one file already'}."
    Console(highlight=False).print(text, markup=False)


def finish(out: Path, seconds: float, stop: Stop) -> None:
    """Show a run that is done, draw it if Matplotlib is there, and say where the files are."""
    run = open_run(out)
    out = run.path or out  # a home is written out there
    try:
        with stop.breaking():
            if run.finished:
                _show_finished(run, out, seconds)
            else:
                show(out)
    except KeyboardInterrupt:
        if run.finished:
            message = f"{out} is finished; only its table and picture were cut short."
            raise Unshown(f"{message} See: fastbm plot {shell_word(out)}") from None
    except OSError:  # where the table of a stopped run cannot be shown, its exit code still tells that it can go on
        if run.finished:
            raise
    if not run.finished:
        if not stop.requested:  # nothing has stopped ours
            raise StorageError(f"{out} was replaced: another process has begun a run there. Write elsewhere: --out.")
        raise checks.Interrupted(f"{stop.message} nothing is lost.", run)


def _show_finished(run: Run, out: Path, seconds: float) -> None:
    console = Console(highlight=False)
    show(out)
    files = {"run": str(out)}
    try:
        files["picture"] = str(draw_picture(run, out.with_suffix(".png")))
    except (ImportError, ValueError) as error:  # of no Matplotlib, or no samples
        files["picture"] = f"none: {error}"
    except StorageError as error:  # the run is done all the same
        checks.warn(str(error), UserWarning)
        files["picture"] = "none"
    for name, place in files.items():
        console.print(f"{name:<8} {printable(place)}", soft_wrap=True, markup=False)
    console.print(f"{'took':<8} {seconds:.1f} s")


def show(out: Path, *, trust: bool = False) -> bool:
    """Print how a run stands, its summary, and its table where it has one; return whether it is whole.

    Of a damaged run what is whole is shown. Parts are checked also where no rows are read, as of a burn-in.
    """
    console = Console(highlight=False)
    try:
        (reader := open_reader(out, trust=trust)).verify_parts()
        _show(console, reader)
    except StorageError:
        if not (whole := open_reader(out, cut=True, trust=trust)).damage:
            raise
        _show(console, whole)
        return False
    return True


def _show(console: Console, reader: Reader) -> None:
    run: Any = run_of(reader)
    status = status_of(reader)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in run.summary().items():
        table.add_row(escape(printable(name)), escape(printable(format_value(value))))
        if name == "finished":
            table.add_row("state", escape(f"{status.state}: {status.text}"))
            if status.command:
                table.add_row("go on with", escape(status.command))
    console.print(table)
    if run.kind in ("infer", "compare"):
        from .comparisons import print_comparison, print_inference

        (print_inference if run.kind == "infer" else print_comparison)(console, run.comparison)
    elif run.kind == "rules":
        console.print()
        console.print(str(run.rules), markup=False)
    elif (rows := temperatures(run)) is not None:
        console.print()
        console.print(rows)


def temperatures(run: Run) -> Table | None:
    """Tabulate energy and magnetisation at each temperature of a sampling run.

    Exact values for the square lattice stand beside them.
    """
    if not isinstance(run, Samples) or not run.has_states or run.at_log_times or len(np.unique(run.beta)) < 2:
        return None
    from ..runs.sample.physics import by_temperature

    rows = by_temperature(run)
    table = Table(box=None, pad_edge=False)
    clamped = any(row.pattern is not None for row in rows)
    for title in ("beta", *(["pattern"] if clamped else []), "energy / unit", "exact", "|m|", "infinite", "r_hat"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            f"{row.beta:g}",
            *([str(row.pattern)] if clamped else []),
            f"{row.energy:.5f} +- {row.energy_error:.5f}",
            _fixed(row.exact_energy),
            f"{row.magnetisation:.4f} +- {row.magnetisation_error:.4f}",
            _fixed(row.exact_magnetisation),
            "-" if row.r_hat is None else f"{row.r_hat:.3f}",
        )
    return table


def _fixed(value: float | None) -> str:
    return "-" if value is None else f"{value:.5f}"


def draw(out: Path, picture: Path | None, *, trust: bool = False) -> None:
    """Draw a run and say where."""
    console, run = Console(highlight=False), open_run(out, trust=trust)
    place = draw_picture(run, picture or out.with_suffix(".png"))
    console.print(f"picture  {printable(place)}", soft_wrap=True, markup=False)
    if run.unchecked:
        console.print(f"seal     {run.summary()['seal']}", soft_wrap=True, markup=False)


def draw_picture(run: Run, path: Path) -> Path:
    """Draw a run to a PNG file."""
    try:
        from .pictures.run import plot_run
    except ImportError:
        raise ImportError('pictures need Matplotlib: pip install "fastbm[plot]"') from None
    return plot_run(run, path)
