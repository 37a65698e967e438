"""What the verbs on the command line share: their options, and how they are stopped."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .._base.checks import Interrupted, place
from .._base.shown import shell_word
from ..runs.stop import SIGNALS, Broken, Stop, Unshown, process_age

DONE, FAILED, BAD_INPUT, STOPPED = 0, 1, 2, 3
BY_SIGNAL = 128  # and its number, as shells have it: nothing is left to go on with

alone = False  # whether the process is this command and nothing else

app = typer.Typer(
    name="fastbm",
    help="Simulate, measure and train Boltzmann machines; every run streams into one HDF5 file.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def path_of(text: str) -> Path:
    """Return a path with its home folder filled in; shells leave ``--out=~/run.h5`` as it is."""
    try:
        return place("a path", text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


File = Annotated[
    Path, typer.Argument(parser=path_of, metavar="FILE.toml", help="What to run, or the name of a ready one.")
]
Out = Annotated[Path, typer.Argument(parser=path_of, metavar="OUT.h5", help="The file of a run.")]
OutOrFolder = Annotated[
    Path, typer.Argument(parser=path_of, metavar="OUT", help="The file of a run, or the folder of a campaign.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change a setting of the file.")
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", parser=path_of, metavar="OUT", help="Where to write: a file; of a campaign a folder."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run of that name.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads; all processors unless given.")]
MaxSeconds = Annotated[
    float | None,
    typer.Option("--max-seconds", min=0.0, help="Stop so long after the command began, to be resumed (exit code 3)."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Extend = Annotated[
    int | None,
    typer.Option(metavar="N", help="Go on past the end of a finished run: sweeps of sample, epochs of fit, more."),
]
Trust = Annotated[bool, typer.Option("--trust", help="Open also a file without a seal, of which nothing is checked.")]
Data = Annotated[
    str | None, typer.Option(metavar="FILE:DATASET", help="Where the rows are now, if their file was moved.")
]
Holdout = Annotated[
    str | None, typer.Option(metavar="FILE:DATASET", help="Where the rows held out are now, if their file was moved.")
]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="So many processes do it.")]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", metavar="tcp://HOST:PORT", help="The workers of a Dask scheduler do it.")
]
Mpi = Annotated[bool, typer.Option("--mpi", help="The processes that MPI has started do it.")]
Part = Annotated[
    str | None,
    typer.Option("--part", metavar="K/N", help="Of a campaign: do a part of it, as one job of an array; K from 1."),
]
Inexact = Annotated[
    bool, typer.Option("--inexact", help="Go on with other versions or another processor, and other bits.")
]


def who(workers: int | None, scheduler: str | None, mpi: bool, part: str | None) -> dict[str, Any]:
    """Return who does a run or a campaign, as far as it was said."""
    found = {"workers": workers, "scheduler": scheduler, "mpi": mpi or None, "part": part}
    return {name: value for name, value in found.items() if value is not None}


def is_campaign(path: Path) -> bool:
    """Return whether a path is the folder of a campaign, and not a run."""
    from .._base.files import is_campaign as is_one  # a look at the help does without

    return is_one(path)


class Stopped(Exception):
    """Raised where a signal stopped a command; unlike KeyboardInterrupt it passes through the argument parser."""

    def __init__(self, text: str, code: int = STOPPED) -> None:
        super().__init__(text)
        self.code = code


def stoppable(name: str, what: Path, *arguments: Any, **options: Any) -> None:
    """Call a function of the report on a file to run or a run; if it is stopped, name the command that continues."""
    stop = Stop(SIGNALS, alone=alone, began=time.monotonic() - process_age() if alone else None)
    try:
        with stop, stop.breaking():
            if name == "run_file" and not options["overwrite"]:
                _refuse_existing(what, arguments[0], options["out"], options.get("only"))
            if text := _function(name)(what, *arguments, stop=stop, **options):
                raise Stopped(text, FAILED)
    except Interrupted as stopped:
        path = None if stopped.run is None else stopped.run.path
        raise Stopped(stopped.reason + _way_on(path), _code_of(stop) if path is None else STOPPED) from None
    except Unshown as stopped:
        raise Stopped(str(stopped), FAILED) from None
    except Broken:
        resuming = name != "run_file"
        shown = "before it went on; nothing is lost." if resuming else "before anything was begun."
        more = f" --extend {n}" if (n := options.get("extend_by")) else ""  # nothing of it is in the file yet
        text = f"stopped by {stop.requested} {shown}{_way_on(what if resuming else None)}{more}"
        raise Stopped(text, STOPPED if resuming else _code_of(stop)) from None
    except KeyboardInterrupt:
        raise Stopped("stopped at once; what was committed is kept.") from None


def _function(name: str) -> Any:
    """Return a function of the report by its name."""
    if name.endswith("_campaign"):
        from ..report import campaigns

        return getattr(campaigns, name)
    from ..report import tables

    return getattr(tables, name)


def _refuse_existing(file: Path, changes: list[str], out: Path | None, only: str | None) -> None:
    """Refuse what would be refused in any case, before a second goes by with imports."""
    from ..runs.toml import ready, text

    text.refuse_existing(ready.find(file), changes, out, only)


def _code_of(stop: Stop) -> int:
    """Return the exit code of a command that was stopped and has left nothing to go on with."""
    number = signal.Signals.__members__.get(stop.requested)
    return FAILED if number is None else BY_SIGNAL + number


def _way_on(path: Any) -> str:
    return "" if path is None else f" Go on with: fastbm resume {shell_word(path)}"
