"""Who does the work of a command: processes of our own, the workers of a Dask scheduler, those that MPI has started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from typing import Any

from ..runs import workers

PRELOADED = ("fastbm.runs.begin",)  # what processes of our own share from before they are forked


def check_one(said: Mapping[str, Any]) -> None:
    """Refuse several who would do the same work."""
    if len(several := sorted(set(said) - {"part"})) > 1:
        raise ValueError(f"say one of --{' and --'.join(several)}.")


@contextmanager
def hired(said: Mapping[str, Any], *, exact: bool = True) -> Iterator[dict[str, Executor]]:
    """Give an executor as the argument that a verb takes, none where nobody was named; leave it in the end."""
    check_one(said)
    if "scheduler" in said:
        executor = workers.connect(said["scheduler"], exact=exact)
    elif "mpi" in said:
        executor = workers.mpi()
    elif "workers" in said:
        from ..runs.workers.processes import Pool

        executor = Pool(said["workers"], PRELOADED)
    else:
        yield {}
        return
    try:
        yield {"executor": executor}
    finally:
        ours = "workers" in said  # their runs are to be committed; others leave in whatever state they are
        with suppress(Exception):
            executor.shutdown(wait=ours, cancel_futures=True)


def check_single(said: Mapping[str, Any], takes: bool, what: str) -> None:
    """Refuse what does not go with a single run; `what` names it, and `takes` says whether it has an executor."""
    if "part" in said:
        raise ValueError("--part goes with campaigns, files with a table [grid]; this is a single run.")
    if said and not takes:
        raise ValueError(f"--{min(said)}: a run of {what} is done by one process. Leave it out.")
