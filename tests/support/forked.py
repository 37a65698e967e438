"""Calls apart in a child that is forked from the warm process of the tests, where fastbm starts a new interpreter."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import threading
import warnings
from collections.abc import Callable
from typing import Any

from fastbm.store import apart
from tests.support import crash, machines

BY_INTERPRETER = apart.call


def call(function: Callable[[str], Any], argument: str, seconds: float) -> Any:
    """What `apart.call` is, with the same limits; beside a thread that itself."""
    if threading.active_count() > 1:
        machines.close_pools()
    if threading.active_count() > 1:
        return BY_INTERPRETER(function, argument, seconds)
    readable, writable = os.pipe()

    def act() -> None:
        faulthandler.disable()
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        resource.setrlimit(resource.RLIMIT_AS, (apart.LARGEST_MEMORY, apart.LARGEST_MEMORY))
        with open(writable, "w") as file:
            json.dump(function(argument), file)

    child = crash.start_child(act)
    os.close(writable)
    with open(readable) as file:
        told = file.read()
    code = crash.ended(child)
    if code == -signal.SIGALRM:
        raise apart.Lost(f"took more than {seconds:.0f} s and was ended")
    if code:
        raise apart.Lost(f"crashed ({signal.Signals(-code).name})" if code < 0 else "failed")
    return json.loads(told)
