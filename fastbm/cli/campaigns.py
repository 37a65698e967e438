"""The verbs of campaigns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .shared import (
    BAD_INPUT,
    Inexact,
    MaxSeconds,
    Mpi,
    Part,
    Quiet,
    Scheduler,
    Stopped,
    Threads,
    Workers,
    app,
    path_of,
    stoppable,
    who,
)

CAMPAIGNS = "Campaigns"  # what help says above the verbs here
Folder = Annotated[Path, typer.Argument(parser=path_of, metavar="FOLDER", help="The folder of a campaign.")]


@app.command(rich_help_panel=CAMPAIGNS)
def status(folder: Folder) -> None:
    """Tell how a campaign stands: cells done, failed and left, shards that run, time left, core hours."""
    from ..report import campaigns

    campaigns.show_status(folder)


@app.command(rich_help_panel=CAMPAIGNS)
def table(
    folder: Folder,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=path_of, metavar="FILE.csv", help="Where to write; else it is printed."),
    ] = None,
) -> None:
    """Write the results of a campaign as CSV: a row for each cell."""
    from ..report import campaigns

    campaigns.write_table(folder, out)


@app.command(rich_help_panel=CAMPAIGNS)
def retry(
    folder: Folder,
    threads: Threads = None,
    max_seconds: MaxSeconds = None,
    quiet: Quiet = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    mpi: Mpi = False,
    part: Part = None,
    inexact: Inexact = False,
) -> None:
    """Compute the failed cells of a campaign again."""
    stoppable(
        "retry_campaign", folder, threads=threads, max_seconds=max_seconds, quiet=quiet, exact=not inexact,
        campaign=who(workers, scheduler, mpi, part),
    )  # fmt: skip


@app.command(rich_help_panel=CAMPAIGNS)
def extend(
    folder: Folder,
    unconverged: Annotated[
        bool, typer.Option("--unconverged", help="The cells that say that they have not converged.")
    ] = False,
    factor: Annotated[float, typer.Option("--factor", help="How much longer they become.")] = 2.0,
    threads: Threads = None,
    max_seconds: MaxSeconds = None,
    quiet: Quiet = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    mpi: Mpi = False,
    part: Part = None,
    inexact: Inexact = False,
) -> None:
    """Go on with cells of a campaign that need more sweeps or epochs."""
    if not unconverged:
        raise Stopped("say which cells are to become longer: --unconverged.", BAD_INPUT)
    stoppable(
        "extend_campaign", folder, factor, threads=threads, max_seconds=max_seconds, quiet=quiet, exact=not inexact,
        campaign=who(workers, scheduler, mpi, part),
    )  # fmt: skip
