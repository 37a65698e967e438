"""Begin, open and resume runs: a run is a task, a place for its rows, and the loop between them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from .. import store
from .._base import checks, threads as threads_module
from .._base.arithmetic import arithmetic
from .._base.files import is_campaign
from .._base.halting import Halted
from .._base.options import flag
from ..kernels.cache import silent
from ..machine.machine import BoltzmannMachine
from ..sampling.observables import Function
from .bar import check_progress, drawing
from .belief import understanding
from .loop import Progress, execute
from .run import Run
from .spec import APART, KINDS, NOTHING, Given, build, kind_of, read_model
from .stop import SIGNALS, Broken, Stop, stop_of

STORAGE = ("about", "commit_seconds", "commit_bytes", "compression", "merge")


def begin(
    spec: dict[str, Any],
    inputs: dict[str, np.ndarray],
    threads: int | None,
    out: Any,
    overwrite: bool,
    max_seconds: Any,
    progress: bool | Progress | None,
    stop: Stop | None,
    storage: dict[str, Any],
    arguments: Iterable[str] = (),
    given: Given = NOTHING,
) -> Run:
    """Make a task and the storage of its rows, and start the run."""
    if max_seconds is not None:
        max_seconds = checks.real("max_seconds", max_seconds, least=0.0)
    check_progress(progress)
    part(spec["kind"], storage, (), arguments)
    _check_storage(out, **storage)
    flag("overwrite", overwrite)
    stop = _stop(stop, out, max_seconds)
    with silent(progress is False), stop:
        with _breaking(stop):
            task = build(spec, inputs, given.threads or threads_module.resolve(threads), given)
        with stop.breaking(False):
            writer = make_storage(task, spec, inputs, out, overwrite, storage)
            try:
                return _go(task, writer, progress, stop, given.model, threads)
            except (ValueError, TypeError):
                if isinstance(writer, store.Writer) and not overwrite and not writer.n_blocks:
                    store.discard(writer.names)  # it was refused before anything was computed
                raise


def part(
    kind: str, options: Mapping[str, Any], own: Collection[str], arguments: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options of a call into those of a method, whose names are `own`, and those of the storage.

    Raises
    ------
    TypeError
        For others; `arguments` are the names that `kind` takes besides, one of which may have been meant.
    """
    for name in options:
        if name not in own and name not in STORAGE:
            raise checks.no_argument(kind, name, [*arguments, *own, *STORAGE])
    found = {name: value for name, value in options.items() if name in own}
    return found, {name: value for name, value in options.items() if name in STORAGE}


def make_storage(
    task: Any, spec: dict[str, Any], inputs: dict[str, np.ndarray], out: Any, overwrite: bool, storage: dict[str, Any]
) -> Any:
    """Make the storage for the rows of a task, in memory or in a file."""
    common: dict[str, Any] = {"spec": spec, "inputs": inputs, "streams": task.streams, "state": task.state()}
    if out is not None:
        from .axes import described  # runs in memory have no names of axes

        common["streams"], along = described(spec, task.streams, inputs)
        common["inputs"] = inputs | along
    storage = dict(storage)
    about = {**getattr(task, "detail", {}), **(storage.pop("about", None) or {})}
    if out is not None and spec["kind"] != "sample":  # whose bits are the same everywhere
        about["arithmetic"] = arithmetic()
    common["meta"] = {key: str(value) for key, value in about.items()}
    return store.Memory(**common) if out is None else store.create(out, **common, overwrite=overwrite, **storage)


def _stop(stop: Stop | None, out: Any, max_seconds: float | None) -> Stop:
    """Make the stop of a run: by time from here on, and by signals, all of them only where there is a file."""
    stop = stop_of(stop, SIGNALS if out is not None else SIGNALS[:1])
    stop.limit(max_seconds)
    return stop


@contextmanager
def _breaking(stop: Stop, path: Any = None) -> Iterator[None]:
    """Allow a stop to interrupt what comes before a run's first block; `path` is that of a run that exists already."""
    try:
        with stop.breaking():
            yield
    except Broken:
        message = "before anything was begun." if path is None else "before it went on; nothing is lost."
        run = None if path is None else open(path)
        raise checks.Interrupted(f"stopped by {stop.requested} {message}", run) from None


def _check_storage(
    out: Any,
    about: Mapping[str, str] | None = None,
    commit_seconds: float = 60.0,
    commit_bytes: int = 0,
    compression: str | None = None,
    merge: bool = True,
) -> None:
    """Check how a run is to be written, also where it stays in memory."""
    if out is not None and not isinstance(out, (str, os.PathLike)):
        raise TypeError(f"out must be a path; got {out!r} ({type(out).__name__}).")
    _check_about({} if about is None else about)
    checks.real("commit_seconds", commit_seconds, least=0.0)
    checks.whole("commit_bytes", commit_bytes)
    if compression is not None:
        checks.choice("compression", compression, ("gzip", "zstd"))
    flag("merge", merge)


def _check_about(about: Any) -> None:
    """Refuse what cannot be kept with a run as texts by name."""
    if not isinstance(about, Mapping):
        raise TypeError(f'about must be a dict of texts, such as {{"tissue": "retina 4"}}; got {about!r}.')
    for name, text in about.items():
        if not isinstance(name, str) or not name or "\0" in f"{name}{text}":
            raise ValueError(f"about must have names and texts without null characters; got {name!r}: {text!r}.")
    if "arithmetic" in about:
        raise ValueError("about: 'arithmetic' is written by fastbm itself; choose another name.")


def _go(
    task: Any,
    writer: Any,
    progress: bool | Progress | None,
    stop: Stop,
    model: BoltzmannMachine | None,
    threads: int | None,
) -> Run:
    try:
        with writer, drawing(progress, task) as each:
            done = execute(task, writer, stop=stop, progress=each)
    except checks.Diverged as error:
        if writer.n_blocks:
            error.run = _written(writer)
        raise
    except Halted:
        raise _unmerged(stop, writer) from None
    except BrokenExecutor as error:
        raise _without_workers(error, writer) from None
    run = _written(writer)
    if done:
        _clear(writer)
        run.start_from(model)
        run.n_threads = threads
        run.warn_at_end()
    if not done and stop.signalled:
        in_memory = "what was done is in error.run; with out=PATH it could go on later."
        raise checks.Interrupted(f"{stop.message} {'nothing is lost.' if run.path else in_memory}", run)
    if done and stop.signalled and stop.requested != "SIGINT":
        raise checks.Interrupted(f"stopped by {stop.requested} when the run was finished; nothing is lost.", run)
    return run


def _clear(writer: Any) -> None:
    """Remove the runs that a run was joined from, which is whole."""
    if isinstance(writer, store.Writer) and writer.names.beside.is_dir():
        from ..store.beside import clear  # most runs have none

        clear(writer.names)


def _without_workers(error: BrokenExecutor, writer: Any) -> checks.Interrupted:
    """Return the one line about an executor that does no more; what it lacked is seldom told, and most often memory."""
    kept = "with out=... it could be resumed." if isinstance(writer, store.Memory) else "what was committed is safe."
    text = f"stopped, as the executor does no more ({error}). Its workers may have had too little memory; {kept}"
    return checks.Interrupted(text, _written(writer))


def _unmerged(stop: Stop, writer: Any) -> checks.Interrupted:
    message = f"stopped by {stop.requested} while the run, which is finished, was merged; nothing is lost."
    return checks.Interrupted(message, _written(writer))


def run_of(reader: store.Reader | store.Memory) -> Run:
    """Return a run of the kind that its spec names."""
    spec = reader.spec
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise checks.StorageError(
            f"{reader.path} is a run of kind {kind!r}, which this version of fastbm does not know; it knows "
            f"{', '.join(KINDS)}."
        )
    found: Run = kind_of(spec)(reader)
    if found.finished:
        with nullcontext() if found.path is None else understanding(found.path, "what it recorded"):
            found.check_records()
    return found


def _written(writer: Any) -> Run:
    """Open a run that was written, for reading."""
    return run_of(writer if isinstance(writer, store.Memory) else store.open_reader(writer.names))


def open(path: str | Path, *, trust: bool = False) -> Run:
    """Open a run, live or finished, for reading; it takes no lock.

    Parameters
    ----------
    path : path
    trust : bool
        Open also a file that has no seal, as another program has rewritten it: nothing of it is checked, and HDF5
        itself may fail at what is wrong in it. `Run.unchecked` and the summary tell of it.

    Raises
    ------
    StorageError
        If there is no such run, it is damaged, or it has no seal and is not trusted.
    """
    return run_of(store.open_reader(path, trust=trust))


@checks.named
def merge(path: str | Path) -> Run:
    """Merge the parts of a finished run into one HDF5 file, as a run does at its end unless `merge` was False.

    Raises
    ------
    StorageError
        If the run is being written, is not finished, or is damaged; the parts are left as they were.
    """
    store.merge_parts(path)
    return open(path)


@checks.named
def resume(
    path: str | Path,
    *,
    threads: int | None = None,
    max_seconds: float | None = None,
    exact: bool = True,
    observables: Mapping[str, Function] | None = None,
    executor: Executor | None = None,
    data: Any = None,
    holdout: Any = None,
    progress: bool | Progress | None = None,
    stop: Stop | None = None,
) -> Run:
    """Resume a run or a campaign that was stopped; it ends with the bits of one that was never stopped.

    Parameters
    ----------
    path : path
        The file of a run, or the folder of a campaign.
    threads, max_seconds, progress, stop
        As for `sample`.
    exact : bool
        Refuse other versions of fastbm, NumPy and Numba than those that began the run, with which bits may differ; and
        but for runs of `sample`, whose bits are the same everywhere, another BLAS or other vectors of the processor.

    observables : dict, optional
        The functions that the run measures, which no file can hold, as they were given to `sample`.
    executor : Executor, optional
        Does the pieces of a run, as for the verb that began it, or the cells of a campaign.
    data, holdout : optional
        The rows that a fit learns from, or is judged by, where the run's file does not hold them: generators, which
        must be given again, and HDF5 files that have been moved.

    Raises
    ------
    StorageError
        If there is no such run, it is being written, or it is damaged from its start.
    ValueError
        If functions that the run measures, or rows that came from a generator, are not given again; or if they are
        given beside the folder of a campaign.
    """
    if isinstance(path, Run) and path.path is None and not path.finished:
        raise no_going_on(path)
    if is_campaign(path):
        single = {"observables": observables, "data": data, "holdout": holdout}
        if wrong := [name for name, value in single.items() if value is not None]:
            raise ValueError(f"{wrong[0]} is of a single run; path is the folder of a campaign, {path}. Leave it out.")
        from .._base.late import public  # runs in memory do without

        common: dict[str, Any] = {"threads": threads, "max_seconds": max_seconds, "exact": exact, "executor": executor}
        found: Run = public("open")(path).resume(**common, progress=progress, stop=stop)
        return found
    if max_seconds is not None:
        max_seconds = checks.real("max_seconds", max_seconds, least=0.0)
    check_progress(progress)
    flag("exact", exact)
    stop = _stop(stop, path, max_seconds)
    with silent(progress is False), stop, stop.breaking(False):
        writer = store.resume(path, exact=exact)
        if writer.finished:  # but for the merge
            return _finish(writer, stop)
        try:
            with _breaking(stop, path):
                given = {name: rows for name, rows in (("rows", data), ("holdout", holdout)) if rows is not None}
                with understanding(path, "its machine"):
                    model = read_model(writer.inputs, writer.spec["model"]) if "model" in writer.spec else None
                with understanding(path, "how it goes on", Exception):
                    rows = kind_of(writer.spec).read_again(writer.spec, given)
                    n_threads, apart = threads_module.resolve(threads), APART in writer.state
                    more = Given(
                        observables,
                        model,
                        executor,
                        rows,
                        worker_threads=1 if threads is None else threads,
                        apart=apart,
                    )
                    task = build(writer.spec, writer.inputs, n_threads, more)
                    task.restore(dict(writer.state))
        except BaseException:
            writer.close()
            raise
        return _go(task, writer, progress, stop, model, threads)


def no_going_on(run: Run) -> checks.StorageError:
    """Return why a run in memory that was stopped does not go on."""
    return checks.StorageError(
        f"the run is not finished ({run._reader.n_blocks} blocks), and one in memory cannot be resumed. Begin it "
        "again; with out=PATH it could be stopped and go on."
    )


def _finish(writer: Any, stop: Stop) -> Run:
    """Merge the files of a run that is done."""
    try:
        with writer:
            writer.finish(writer.state, stop.impatient)
    except Halted:
        raise _unmerged(stop, writer) from None
    _clear(writer)
    return _written(writer)
