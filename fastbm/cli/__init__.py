"""The verbs on the command line.

Exit codes: 0 done, 2 bad input, 3 stopped and resumable, 128 and a signal's number stopped by it with nothing left to
resume, 1 anything else.
"""

from __future__ import annotations

import ast
import errno
import gc
import re
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from typing import Any

import typer

from .._base.checks import ConvergenceWarning, DamagedRun, StorageError
from .._base.shown import printable, shell_word
from . import campaigns as campaigns, runs as runs, shared
from .shared import BAD_INPUT, DONE, FAILED, STOPPED, Stopped, app

INTERRUPTED = shared.BY_SIGNAL + signal.SIGINT
COLLECT_FROM = 500_000  # objects
_CALL = re.compile(r"""fastbm\.(resume|open)\(('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)""")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Without `arguments` it is the process itself: time counts from its start, and signals may end it.
    """
    shared.alone = arguments is None
    if shared.alone:  # a tenth of a second, as imports make nothing that could be collected
        gc.set_threshold(COLLECT_FROM, 20, 50)
    code = _code(arguments)
    if shared.alone and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is told; Python would add where it was as it left
    if shared.alone:
        gc.freeze()  # half a second after a first verb, as Python looks through all objects that are left
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
    except MemoryError as error:
        return _print_error(f"out of memory: {error or 'no more is left'}.", FAILED)
    except OSError as error:
        return _of_the_system(error)
    except Exception as error:
        if hasattr(error, "exit_code") and hasattr(error, "format_message"):  # a usage error of click's
            return _print_error(error.format_message(), BAD_INPUT)
        raise
    return result if isinstance(result, int) else DONE


def _of_the_system(error: OSError) -> int:
    if _is_of_output(error):
        return _print_error(f"the output cannot be written: {error.strerror}.", FAILED)
    if error.errno == errno.ENAMETOOLONG:
        return _print_error(f"{error.filename}: {error.strerror}. Take a shorter name.", BAD_INPUT)
    if isinstance(error, PermissionError) and error.filename is not None:
        return _print_error(f"{error.filename}: {error.strerror}. Change that, or name another.", BAD_INPUT)
    raise error


def _code_of(error: Exception) -> int:
    if isinstance(error, DamagedRun):
        return FAILED
    return STOPPED if getattr(error, "resumable", False) else BAD_INPUT


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
    text = _CALL.sub(lambda call: f"fastbm {call[1]} {shell_word(ast.literal_eval(call[2]))}", text)
    text = text.replace("trust=True (on the command line --trust)", "--trust of show, plot and watch")
    return text.replace("pass overwrite=True", "pass --overwrite").replace("fastbm open", "fastbm show")


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning as one line, without the place in the code where it was raised."""
    with suppress(OSError):
        ours = category.__module__.startswith("fastbm")
        text = str(message) if ours else re.sub(r"\s*\n\s*", " ", str(message))  # other packages break lines
        typer.echo(f"fastbm: warning: {printable(text)}", err=True)


def _print_error(text: str, code: int) -> int:
    with suppress(OSError):
        typer.echo(f"fastbm: {printable(text)}", err=True)
    return code
