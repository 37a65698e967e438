"""The verb `sample`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _checks
from .model import BoltzmannMachine
from .run import begin, check_model
from .run_loop import Progress, Stop
from .run_tasks import describe, model_inputs, pack_rows
from .run_view import Run
from .sampling.engine import start_bits
from .sampling.task import SampleSettings


def sample(
    model: BoltzmannMachine,
    *,
    sampler: str = "gibbs",
    order: str | None = None,
    n_chains: int = 64,
    n_sweeps: int = 1_000,
    burn_in: int | None = None,
    thin: int = 1,
    beta: float | Sequence[float] = 1.0,
    initial: Any = "random",
    seed: int | None = 0,
    first_chain: int = 0,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    max_seconds: float | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **storage: Any,
) -> Run:
    """Draw samples by single-unit updates.

    Two calls alike are the same run: the seed is 0 unless given, and results do not depend on the number of threads.

    Parameters
    ----------
    model : BoltzmannMachine
    sampler : {"gibbs", "metropolis"}
    order : {"sequential", "permuted", "random"}, optional
        How a sweep visits the units; left out, sequential for Gibbs and random (with replacement) for Metropolis, whose
        other orders may be periodic. In random order each Metropolis chain drops one proposal in 16, so that chains
        part and no model is periodic.
    n_chains : int
        Independent chains.
    n_sweeps, burn_in, thin : int
        A sweep is n_units attempts. Sample t is taken after ``burn_in + (t + 1) * thin`` sweeps, ``n_sweeps // thin``
        in all; `burn_in` is a tenth of `n_sweeps` unless given.
    beta : float or list of float
        Inverse temperature; of a list, each goes to an equal group of consecutive chains.
    initial : "random", "up", (n_units,) or (n_chains, n_units) array, or Run
        Where chains start; a Run's last samples.
    seed : int or None
        None draws one, which `run.config` tells.
    first_chain : int
        Index of the first chain, to run parts of one large set of chains apart.
    threads : int, optional
        All available processors unless given.
    out : path, optional
        Stream to this HDF5 file; without it samples stay in memory.
    overwrite : bool
        Replace a run of that name.
    max_seconds : float, optional
        Stop then; the run can be resumed.
    progress, stop
        For the command line: a callback after each block, and the signals that stop a run.
    **storage
        `commit_seconds` (60) and `commit_bytes` (64 MiB): when what there is gets committed; `compression` (None,
        "gzip", "zstd"); `merge` (True): one file at the end; `about`: a dict of texts kept with the run.

    Returns
    -------
    Run
        `run.states` (n_samples, n_chains, n_units) in the model's units, `run.energy` (n_samples, n_chains).

    Raises
    ------
    ValueError, TypeError
        For arguments out of range.
    StorageError
        If `out` exists or cannot be written.
    Interrupted
        After Ctrl-C, with what was sampled in its `run`.

    Examples
    --------
    >>> import fastbm as bm
    >>> run = bm.sample(bm.models.curie_weiss(8), n_chains=16, n_sweeps=100, seed=1)
    >>> run.states.shape
    (100, 16, 8)
    """
    check_model(model)
    settings = SampleSettings.check(
        sampler=sampler,
        order=order,
        n_chains=n_chains,
        n_sweeps=n_sweeps,
        burn_in=burn_in,
        thin=thin,
        beta=beta,
        seed=seed,
        first_chain=first_chain,
    )
    spec = {"kind": "sample", "model": describe(model), "sample": settings.as_dict(), "initial": "random"}
    inputs = model_inputs(model)
    if isinstance(initial, Run):
        if not initial.has_states:
            raise ValueError("initial is a run without samples; its last ones are where chains would start.")
        initial = initial.states[-1]
    if isinstance(initial, str):
        spec["initial"] = _checks.choice("initial", initial, ("random", "up"))
    else:
        up = start_bits(initial, model.n_units, settings.n_chains, settings.seed, first_chain, model.convention)
        inputs["initial"] = pack_rows(np.ascontiguousarray(up))
        spec["initial"] = "given"
    return begin(
        spec, inputs, threads, out, overwrite, max_seconds, progress, stop, storage, sample.__kwdefaults__ or ()
    )
