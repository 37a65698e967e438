"""The verb `extend`: continue a finished run past its end, as if it had been longer from the start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import store
from .._base import checks, threads as threads_module
from .._base.files import is_campaign
from .._base.options import flag
from ..kernels.cache import silent
from ..sampling.observables import Function
from ..store import Extension
from ..store.names import of_campaign
from .bar import check_progress
from .begin import _go, _stop, no_going_on
from .loop import Progress, Task
from .run import Run
from .spec import Given, build, kind_of
from .stop import Stop

Arrays = dict[str, np.ndarray]


def longer_spec(spec: Mapping[str, Any], more: int) -> dict[str, Any]:
    """Return the spec of a run that is longer by `more`.

    Raises
    ------
    ValueError
        If a longer run would be another one from its start.
    """
    name, run = spec["kind"], kind_of(spec)
    if not run.counted:
        raise ValueError(
            f"extend goes with runs of sample and fit; this is one of {run.verb}, which has an end of its own. Begin "
            f"another with {run.verb}."
        )
    settings = dict(spec[name])
    total = checks.whole(run.counted, settings[run.counted] + more)
    longer = {**spec, name: {**settings, run.counted: total}}
    if why := run.why_another(settings):
        way = f"{name}(..., {run.counted}={longer[name][run.counted]})"
        raise ValueError(f"cannot extend: {why}. Begin a longer one: {way}.")
    return longer


@checks.named
def extend(
    run: str | Path | Run,
    *,
    n_sweeps: int | None = None,
    epochs: int | None = None,
    threads: int | None = None,
    max_seconds: float | None = None,
    exact: bool = True,
    observables: Mapping[str, Function] | None = None,
    data: Any = None,
    holdout: Any = None,
    progress: bool | Progress | None = None,
    stop: Stop | None = None,
) -> Run:
    """Continue a finished run of `sample` or `fit` past its end, as if it had been longer from the start.

    What comes out is, bit for bit, the run that would have been begun with more sweeps or epochs. What only the end of
    the run brought, such as the last look of `fit`, is left out, and made again at the end that is later.

    Parameters
    ----------
    run : path or Run
        A run in a file goes on in that file; one in memory stays as it is, and a longer one is returned.
    n_sweeps : int, optional
        Sweeps more, for runs of `sample`. A burn-in stays what it was; say `burn_in` to compare with a run that was
        longer from the start.
    epochs : int, optional
        Epochs more, for runs of `fit`; the last one is done again.
    threads, max_seconds, progress, stop
        As for `sample`. An extension that was stopped goes on by `resume`.
    exact, observables, data, holdout
        As for `resume`.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If a longer run would not have begun as this one did (schedules, annealing), if it stopped by itself (`until`,
        `patience`, a gradient that vanished), or if functions or rows are not given again. Nothing is changed then.
    StorageError
        If there is no such run, it is not finished, is being written, or is damaged.

    Examples
    --------
    >>> import fastbm as bm
    >>> run = bm.sample(bm.models.curie_weiss(8), n_chains=16, n_sweeps=100, seed=1)
    >>> bm.extend(run, n_sweeps=50).states.shape
    (150, 16, 8)
    """
    place: Any = getattr(run, "path", run)  # of a campaign too, which is no Run
    if isinstance(place, (str, os.PathLike)) and is_campaign(place):
        raise checks.StorageError(of_campaign("run", place))
    if not isinstance(run, (str, os.PathLike, Run)):
        raise TypeError(f"run must be a path or a Run; got {run!r} ({type(run).__name__}).")
    given = {name: rows for name, rows in (("rows", data), ("holdout", holdout)) if rows is not None}
    if max_seconds is not None:
        max_seconds = checks.real("max_seconds", max_seconds, least=0.0)
    check_progress(progress)
    flag("exact", exact)
    more = _More(n_sweeps, epochs, threads_module.resolve(threads), observables, given)
    path: Any = run._reader.place if isinstance(run, Run) else run
    stop = _stop(stop, path, max_seconds)
    with silent(progress is False), stop, stop.breaking(False):
        writer: Any
        if path is None:
            assert isinstance(run, Run)
            writer = _in_memory(run, more)
        else:
            writer = store.resume(path, extend_spec=more, exact=exact)
        assert more.task is not None
        return _go(more.task, writer, progress, stop, None, threads)


class _More:
    """The request for a longer run: how much longer, and what its task needs.

    Attributes
    ----------
    task : Task or None
        The work of the longer run, ready to go on, once its extension was asked for.
    """

    def __init__(
        self,
        n_sweeps: int | None,
        epochs: int | None,
        threads: int,
        observables: Mapping[str, Function] | None,
        rows: Mapping[str, Any],
    ) -> None:
        counts = {"n_sweeps": n_sweeps, "epochs": epochs}
        self._counts = {name: checks.whole(name, n, least=1) for name, n in counts.items() if n is not None}
        if not self._counts:
            raise ValueError("say how much longer: n_sweeps=... for a run of sample, epochs=... for one of fit.")
        self._threads, self._observables, self._rows = threads, observables, rows
        self.task: Task | None = None

    def __call__(self, spec: dict[str, Any], inputs: dict[str, np.ndarray], state: dict[str, np.ndarray]) -> Extension:
        """Return where a finished run continues; refuse one that cannot, before anything is changed."""
        longer = longer_spec(spec, self._of(spec["kind"], kind_of(spec).counted))
        kind = kind_of(spec)
        given = Given(self._observables, data=kind.read_again(spec, self._rows))
        finished = build(spec, inputs, self._threads, given)
        finished.restore(dict(state))
        extension: Extension = kind.before_its_end(finished, longer, state)
        self.task = build(longer, inputs, self._threads, given)
        self.task.restore(dict(state if extension.state is None else extension.state))
        return extension

    def _of(self, kind: str, name: str) -> int:
        """Return how many more of what is called `name`, sweeps or epochs, were asked for."""
        if wrong := [other for other in self._counts if name and other != name]:
            raise ValueError(
                f"{wrong[0]} goes with another kind of run; this is one of {kind}. Say {name}=... instead."
            )
        return next(iter(self._counts.values()))


def _in_memory(run: Run, more: _More) -> store.Memory:
    """Return a longer run in memory, ready to continue."""
    memory = run._reader
    assert isinstance(memory, store.Memory)
    if not memory.finished:
        raise no_going_on(run)
    extension = more(memory.spec, memory.inputs, memory.state)
    kind_of(memory.spec).check_room(more.task)
    return memory.extended(extension)
