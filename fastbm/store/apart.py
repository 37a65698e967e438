"""Calls in a process of its own, which has little memory and time.

HDF5 may crash on a file whose tables are damaged, or made by a stranger, or believe in rows without end.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import hdf

LARGEST_MEMORY = 8 << 30  # addresses: libraries reserve far more than they use
SECONDS = 60.0  # for the start of a process, and small files


class Lost(Exception):
    """The process did not come to its end; the text says what became of it."""


def call(function: Callable[[str], Any], argument: str, seconds: float) -> Any:
    """Return what a function of a module of fastbm returns, which JSON must take.

    Raises
    ------
    Lost
        If the process crashes, or needs more than `LARGEST_MEMORY` or `seconds`.
    """
    command = command_of(function, argument, seconds)
    # each thread of a BLAS reserves memory, of which there is little
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    try:
        done = subprocess.run(command, env=environment, timeout=seconds, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        raise Lost(f"took more than {seconds:.0f} s and was ended") from None
    except OSError as error:
        raise Lost(f"could not be begun ({error})") from error
    if done.returncode < 0:
        raise Lost(f"crashed ({signal.Signals(-done.returncode).name})")
    if done.returncode:
        raise Lost(f"failed ({(done.stderr.strip().splitlines() or ['no word'])[-1][:200]})")
    return json.loads(done.stdout)


def command_of(function: Callable[[str], Any], argument: str, seconds: float) -> list[str]:
    """Return what begins the process."""
    limit = math.ceil(seconds) + 1  # of processor time: nobody else ends it whose parent was killed
    names = [function.__module__, function.__name__]
    return [sys.executable, "-P", "-c", f"from {__name__} import main; main()", str(limit), *names, argument]


def main() -> None:
    """Print what the function that the command line names returns for its argument."""
    import resource

    limit, module, name, argument = sys.argv[1:]
    _limit(resource.RLIMIT_AS, LARGEST_MEMORY)
    _limit(resource.RLIMIT_CPU, int(limit))
    _limit(resource.RLIMIT_CORE, 0)
    with suppress(ImportError):  # where it is missing, rows that need it cannot be read
        hdf.zstd()
    json.dump(getattr(importlib.import_module(module), name)(argument), sys.stdout)


def _limit(kind: int, most: int) -> None:
    """Limit what this process may use; where the system allows less, that stays."""
    import resource

    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))
