"""The verbs of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from .._base.shown import printable
from .shared import (
    BAD_INPUT,
    FAILED,
    Data,
    Extend,
    File,
    Holdout,
    Inexact,
    MaxSeconds,
    Mpi,
    Out,
    OutOption,
    OutOrFolder,
    Overwrite,
    Part,
    Quiet,
    Scheduler,
    Set,
    Stopped,
    Threads,
    Trust,
    Workers,
    app,
    is_campaign,
    path_of,
    stoppable,
    who,
)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"fastbm {__version__}")
        raise typer.Exit


@app.command()
def run(
    file: File,
    changes: Set = None,
    out: OutOption = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    max_seconds: MaxSeconds = None,
    quiet: Quiet = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    mpi: Mpi = False,
    part: Part = None,
    inexact: Inexact = False,
) -> None:
    """Run what a TOML file names: sample, fit, infer or compare; with a grid table a campaign of them."""
    stoppable(
        "run_file", file, changes or [], out=out, overwrite=overwrite, threads=threads, quiet=quiet,
        max_seconds=max_seconds, campaign=who(workers, scheduler, mpi, part), exact=not inexact,
    )  # fmt: skip


@app.command()
def compare(
    file: File,
    changes: Set = None,
    out: OutOption = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    max_seconds: MaxSeconds = None,
    quiet: Quiet = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    mpi: Mpi = False,
) -> None:
    """Run a comparison of methods, or of rules of learning: a file with a compare table."""
    stoppable(
        "run_file", file, changes or [], out=out, overwrite=overwrite, threads=threads, quiet=quiet,
        max_seconds=max_seconds, only="compare", campaign=who(workers, scheduler, mpi, None),
    )  # fmt: skip


@app.command()
def resume(
    out: OutOrFolder,
    extend: Extend = None,
    data: Data = None,
    holdout: Holdout = None,
    threads: Threads = None,
    max_seconds: MaxSeconds = None,
    quiet: Quiet = False,
    inexact: Inexact = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    mpi: Mpi = False,
    part: Part = None,
) -> None:
    """Resume a run or a campaign that was stopped; it ends as if it had never been stopped."""
    common = {"threads": threads, "quiet": quiet, "max_seconds": max_seconds, "exact": not inexact}
    campaign = who(workers, scheduler, mpi, part)
    if is_campaign(out):
        if extend or data or holdout:
            raise Stopped("--extend, --data and --holdout are of a single run; see fastbm extend.", BAD_INPUT)
        stoppable("resume_campaign", out, **common, campaign=campaign)
    else:
        stoppable("resume_run", out, extend_by=extend, data=data, holdout=holdout, **common, campaign=campaign)


@app.command()
def examples(
    copy: Annotated[
        Path | None, typer.Option("--copy", parser=path_of, metavar="FOLDER", help="Copy them there, to be changed.")
    ] = None,
) -> None:
    """List the ready files that `run` takes by name."""
    from ..report import tables

    tables.list_ready(copy)


@app.command()
def verify(
    out: Annotated[Path, typer.Argument(parser=path_of, metavar="OUT", help="The file, or the folder of a campaign.")],
    sha256: Annotated[
        bool, typer.Option("--sha256", help="Print the run's sha256, to compare with the sender's.")
    ] = False,
) -> None:
    """Check every byte of a run, a campaign, a machine or a classifier; leave with 1 if anything is damaged."""
    from ..report import verification

    if sha256 and is_campaign(out):
        raise Stopped("--sha256 is of a single run: name a file in the campaign's folder.", BAD_INPUT)
    if not verification.verify(out):
        raise Stopped(f"{out} is damaged.", FAILED)
    if sha256:
        from ..store.digest import digest_of

        typer.echo(f"sha256 {digest_of(out)}")


@app.command()
def merge(out: Out) -> None:
    """Merge the parts of a finished run into one file."""
    from ..report import tables

    tables.merge_run(out)


@app.command()
def show(out: OutOrFolder, trust: Trust = False) -> None:
    """Show the settings, results and status of a run or a campaign; leave with 1 if it is damaged."""
    if is_campaign(out):
        from ..report import campaigns  # and with it all verbs

        campaigns.show(out)
        return
    from ..report import tables

    if not tables.show(out, trust=trust):
        raise Stopped(f"{out} is damaged; this is what is whole.", FAILED)


@app.command()
def watch(
    out: Out,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.05, help="Between looks.")] = 1.0,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0.0, help="For a run that is not there yet.")
    ] = 0.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and leave.")] = False,
    trust: Trust = False,
) -> None:
    """Follow a run from another terminal or host; leave when it ends: 0 finished, 3 stopped, 1 damaged."""
    from ..report.watch import screen

    if code := screen.watch(out, every=every, wait=wait, once=once, trust=trust):
        raise typer.Exit(code)


@app.command()
def plot(
    out: OutOrFolder,
    picture: Annotated[
        Path | None,
        typer.Option("--png", parser=path_of, metavar="FILE.png", help="Where to draw; beside the run unless given."),
    ] = None,
    x: Annotated[str | None, typer.Option("--x", metavar="KEY", help="Of a campaign: what it is drawn over.")] = None,
    y: Annotated[str | None, typer.Option("--y", metavar="COLUMN", help="Of a campaign: what is drawn.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="KEY", help="Of a campaign: a curve for each.")
    ] = None,
    trust: Trust = False,
) -> None:
    """Draw a run, or a column of a campaign over a key of its grid."""
    if is_campaign(out):
        from ..report import campaigns

        campaigns.draw(out, picture, x, y, group)
    elif x or y or group:
        raise Stopped("--x, --y and --group are of campaigns; this is a single run.", BAD_INPUT)
    else:
        from ..report import tables

        tables.draw(out, picture, trust=trust)


@app.command()
def report(
    out: Out,
    page: Annotated[
        Path | None,
        typer.Option(
            "--html", parser=path_of, metavar="FILE.html", help="Where to write; beside the run unless given."
        ),
    ] = None,
    trust: Trust = False,
) -> None:
    """Write a run as one page of HTML: verdict, results, pictures, and how to repeat it."""
    from ..report.page import write_page

    place, whole = write_page(out, page, trust=trust)
    typer.echo(f"page     {printable(place)}")
    if not whole:
        raise Stopped(f"{out} is damaged; the page shows what is whole.", FAILED)


@app.command("help")
def help_(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Of a sampler, a method or a rule; without it, they are listed."),
    ] = None,
) -> None:
    """Say what a sampler, a method of inference or a rule of learning does, and what its options mean."""
    from ..report.options import describe

    typer.echo(describe(name))


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A study; without it, they are listed.")] = None,
    data: Annotated[str | None, typer.Option(metavar="PATH", help="Data that the study needs.")] = None,
    threads: Threads = None,
) -> None:
    """Find published figures again, beside what was published; leave with 1 if one does not hold."""
    from rich.console import Console

    from ..report.reproduce.studies import show, show_list

    if name is None:
        show_list(Console())
    elif not show(Console(), name, data=data, threads=threads):
        raise typer.Exit(FAILED)


@app.command()
def warmup() -> None:
    """Compile the kernels of the usual calls now: a minute or two, once on a machine."""
    from ..report.warmup import warm_up

    warm_up()


@app.command()
def doctor() -> None:
    """Look at what this machine has: processor, vectors, BLAS, threads, kernels, disk; with a line of advice each."""
    from ..report.doctor import describe

    typer.echo(describe(Path.cwd()))
