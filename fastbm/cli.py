"""The verbs on the command line. Exit codes: 0 done, 2 bad input, 3 stopped and resumable, 1 anything else."""

from __future__ import annotations

import gc
import re
import shlex
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__
from ._base.checks import ConvergenceWarning, DamagedRun, Interrupted, StorageError
from .runs.stop import SIGNALS, Broken, Stop, Unshown, process_age

DONE, FAILED, BAD_INPUT, STOPPED = 0, 1, 2, 3
INTERRUPTED = 130  # as shells have it
COLLECT_FROM = 500_000  # objects

_alone = False  # whether the process is this command and nothing else

app = typer.Typer(
    name="fastbm",
    help="Simulate, measure and train Boltzmann machines; every run streams into one HDF5 file.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _path(text: str) -> Path:
    """Return a path with its home folder filled in; shells leave ``--out=~/run.h5`` as it is."""
    return Path(text).expanduser()


File = Annotated[
    Path, typer.Argument(parser=_path, metavar="FILE.toml", help="What to run, or the name of a ready one.")
]
Out = Annotated[Path, typer.Argument(parser=_path, metavar="OUT.h5", help="The file of a run.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change a setting of the file.")
]
OutOption = Annotated[Path | None, typer.Option("--out", parser=_path, metavar="OUT.h5", help="Where to write.")]
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
Moved = Annotated[
    str | None, typer.Option(metavar="FILE:DATASET", help="Where the rows are now that the run does not hold.")
]


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
) -> None:
    """Run what a TOML file names: sample, fit, infer or compare."""
    _stoppable(
        "run_file", file, changes or [], out=out, overwrite=overwrite, threads=threads, quiet=quiet,
        max_seconds=max_seconds,
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
) -> None:
    """Run a comparison of methods, or of rules of learning: a file with a compare table."""
    _stoppable(
        "run_file", file, changes or [], out=out, overwrite=overwrite, threads=threads, quiet=quiet,
        max_seconds=max_seconds, only="compare",
    )  # fmt: skip


@app.command()
def resume(
    out: Out,
    extend: Extend = None,
    data: Moved = None,
    holdout: Moved = None,
    threads: Threads = None,
    max_seconds: MaxSeconds = None,
    quiet: Quiet = False,
    inexact: Annotated[
        bool, typer.Option("--inexact", help="Go on with other versions or another processor, and other bits.")
    ] = False,
) -> None:
    """Resume a run that was stopped; it ends as if it had never been stopped."""
    _stoppable(
        "resume_run", out, extend_by=extend, data=data, holdout=holdout, threads=threads, quiet=quiet,
        max_seconds=max_seconds, exact=not inexact,
    )  # fmt: skip


@app.command()
def examples(
    copy: Annotated[
        Path | None, typer.Option("--copy", parser=_path, metavar="FOLDER", help="Copy them there, to be changed.")
    ] = None,
) -> None:
    """List the ready files that `run` takes by name."""
    from .report import tables

    tables.list_ready(copy)


@app.command()
def verify(
    out: Out,
    sha256: Annotated[
        bool, typer.Option("--sha256", help="Print the run's sha256, to compare with the sender's.")
    ] = False,
) -> None:
    """Check every byte of a run, a machine or a classifier; leave with 1 if anything is damaged."""
    from .report import verification

    if not verification.verify_file(out):
        raise Stopped(f"{out} is damaged.", FAILED)
    if sha256:
        from .store.digest import digest_of

        typer.echo(f"sha256 {digest_of(out)}")


@app.command()
def merge(out: Out) -> None:
    """Merge the parts of a finished run into one file."""
    from .report import tables

    tables.merge_run(out)


@app.command()
def show(out: Out, trust: Trust = False) -> None:
    """Show the settings, results and status of a run; leave with 1 if it is damaged."""
    from .report import tables

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
    from .report.watch import screen

    if code := screen.watch(out, every=every, wait=wait, once=once, trust=trust):
        raise typer.Exit(code)


@app.command()
def plot(
    out: Out,
    picture: Annotated[
        Path | None,
        typer.Option("--png", parser=_path, metavar="FILE.png", help="Where to draw; beside the run unless given."),
    ] = None,
    trust: Trust = False,
) -> None:
    """Draw a run."""
    from .report import tables

    tables.draw(out, picture, trust=trust)


@app.command()
def report(
    out: Out,
    page: Annotated[
        Path | None,
        typer.Option("--html", parser=_path, metavar="FILE.html", help="Where to write; beside the run unless given."),
    ] = None,
    trust: Trust = False,
) -> None:
    """Write a run as one page of HTML: verdict, results, pictures, and how to repeat it."""
    from .report.page import write_page

    place, whole = write_page(out, page, trust=trust)
    typer.echo(f"page     {place}")
    if not whole:
        raise Stopped(f"{out} is damaged; the page shows what is whole.", FAILED)


@app.command("help")
def help_(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Of a sampler, a method or a rule.")] = None,
) -> None:
    """Say what a sampler, a method of inference or a rule of learning does, and what its options mean."""
    from .report.options import describe

    typer.echo(describe(name))


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A study; without it, they are listed.")] = None,
    data: Annotated[str | None, typer.Option(metavar="PATH", help="Data that the study needs.")] = None,
    threads: Threads = None,
) -> None:
    """Find published figures again, beside what was published; leave with 1 if one does not hold."""
    from rich.console import Console

    from .report.reproduce.studies import show, show_list

    if name is None:
        show_list(Console())
    elif not show(Console(), name, data=data, threads=threads):
        raise typer.Exit(FAILED)


@app.command()
def warmup() -> None:
    """Compile the kernels of the usual calls now: a minute or two, once on a machine."""
    from .report.warmup import warm_up

    warm_up()


@app.command()
def doctor() -> None:
    """Look at what this machine has: processor, vectors, BLAS, threads, kernels, disk; with a line of advice each."""
    from .report.doctor import describe

    typer.echo(describe(Path.cwd()))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Without `arguments` it is the process itself: time counts from its start, and signals may end it.
    """
    global _alone
    _alone = arguments is None
    if _alone:  # a tenth of a second, as imports make nothing that could be collected
        gc.set_threshold(COLLECT_FROM, 20, 50)
    code = _code(arguments)
    if _alone and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is told; Python would add where it was as it left
    sys.exit(code)


def _code(arguments: list[str] | None) -> int:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=ConvergenceWarning)
            warnings.showwarning = _show_warning
            result: Any = app(args=arguments, standalone_mode=False)
    except Stopped as stopped:
        return _print_error(str(stopped), stopped.code)
    except (ValueError, TypeError, StorageError, ImportError) as error:
        if _is_ours(error):
            return _print_error(_in_words_of_the_command_line(str(error)), _code_of(error))
        raise
    except (KeyboardInterrupt, typer.Abort):
        return _print_error("stopped.", INTERRUPTED)
    except OSError as error:
        if _is_of_output(error):
            return _print_error(f"the output cannot be written: {error.strerror}.", FAILED)
        raise
    except Exception as error:
        if hasattr(error, "exit_code") and hasattr(error, "format_message"):  # a usage error of click's
            return _print_error(error.format_message(), BAD_INPUT)
        raise
    return result if isinstance(result, int) else DONE


def _code_of(error: Exception) -> int:
    if isinstance(error, DamagedRun):
        return FAILED
    return STOPPED if getattr(error, "resumable", False) else BAD_INPUT


class Stopped(Exception):
    """Raised where a signal stopped a command; unlike KeyboardInterrupt it passes through the argument parser."""

    def __init__(self, text: str, code: int = STOPPED) -> None:
        super().__init__(text)
        self.code = code


def _stoppable(name: str, place: Path, *arguments: Any, **options: Any) -> None:
    """Call a function of the report on a file to run or a run; if it is stopped, name the command that continues."""
    stop = Stop(SIGNALS, alone=_alone, began=time.monotonic() - process_age() if _alone else None)
    try:
        with stop, stop.breaking():
            if name == "run_file" and not options["overwrite"]:
                _refuse_existing(place, arguments[0], options["out"])
            from .report import tables

            getattr(tables, name)(place, *arguments, stop=stop, **options)
    except Interrupted as stopped:
        path = None if stopped.run is None else stopped.run.path
        raise Stopped(stopped.reason + _way_on(path)) from None
    except Unshown as stopped:
        raise Stopped(str(stopped), FAILED) from None
    except Broken:
        resuming = name == "resume_run"
        shown = "before it went on; nothing is lost." if resuming else "before anything was begun."
        more = f" --extend {n}" if (n := options.get("extend_by")) else ""  # nothing of it is in the file yet
        raise Stopped(f"stopped by {stop.requested} {shown}{_way_on(place if resuming else None)}{more}") from None
    except KeyboardInterrupt:
        raise Stopped("stopped at once; what was committed is kept.") from None


def _refuse_existing(file: Path, changes: list[str], out: Path | None) -> None:
    """Refuse what would be refused in any case, before a second goes by with imports."""
    from .runs.toml import ready, text

    text.refuse_existing(ready.find(file), changes, out)


def _way_on(path: Any) -> str:
    return "" if path is None else f" Go on with: fastbm resume {shlex.quote(str(path))}"


def _is_ours(error: BaseException) -> bool:
    """Return whether fastbm itself raised the error, so that the user can mend it; anything deeper is a fault."""
    return isinstance(error, StorageError) or _raised_in(error).startswith("fastbm")


def _raised_in(error: BaseException) -> str:
    """Return the name of the module that raised an error."""
    name = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        name = frame.f_globals.get("__name__", "")
    return name


def _is_of_output(error: BaseException) -> bool:
    """Return whether the error comes from one of the packages that write to the terminal."""
    return _raised_in(error).startswith(("rich.", "typer."))


def _in_words_of_the_command_line(text: str) -> str:
    """Reword a text for the command line: commands and flags in place of calls and arguments."""
    text = re.sub(r"""fastbm\.(resume|open)\(["']([^"']+)["']\)""", r"fastbm \1 \2", text)
    text = text.replace("trust=True (on the command line --trust)", "--trust of show, plot and watch")
    return text.replace("pass overwrite=True", "pass --overwrite").replace("fastbm open", "fastbm show")


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning as one line, without the place in the code where it was raised."""
    with suppress(OSError):
        typer.echo(f"fastbm: warning: {' '.join(str(message).split())}", err=True)


def _print_error(text: str, code: int) -> int:
    with suppress(OSError):
        typer.echo(f"fastbm: {' '.join(text.split())}", err=True)
    return code
