"""The verb `compare_rules`: many rules of learning on rows of planted machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from ..._base import checks, rng
from ..._base.workers import check_executor
from ...learning.planted.comparison import RuleComparison
from ...learning.planted.rules import read_rules
from ...machine.machine import BoltzmannMachine, check_machine
from ..begin import begin
from ..infer.verb import plain
from ..loop import Progress
from ..spec import Given, describe, model_inputs
from ..stop import Stop
from .run import RulesRun


def compare_rules(
    models: BoltzmannMachine | Mapping[str, BoltzmannMachine],
    rules: Sequence[str | Mapping[str, Any]],
    *,
    beta: float | Sequence[float] = 1.0,
    n_rows: int | Sequence[int] = 1000,
    seed: int | Sequence[int] | None = 0,
    budget: float | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    max_seconds: float | None = None,
    progress: bool | Progress | None = None,
    stop: Stop | None = None,
    executor: Executor | None = None,
    **storage: Any,
) -> RuleComparison:
    """Learn planted machines again from rows drawn from them, by many rules: how close each comes, at which cost.

    Each combination of a machine, a beta, a number of rows and a seed gives one set of rows, which all rules learn from
    and as many that none sees. Rows of a smaller set are the first ones of a larger set. They are drawn exactly where
    tables for that can be made in short time, else by parallel tempering; the table says which. Machines are learned at
    beta = 1, so that their couplings are to be those of the planted machine times its beta.

    Parameters
    ----------
    models : BoltzmannMachine, or dict of name to BoltzmannMachine
        What is planted.
    rules : list of str or dict
        Methods of `fit`, by name or with options: ``{"method": "rise", "l1": 0.02, "label": "sparse"}``. Where the
        planted machine has hidden units, rules with phases ("pcd", "exact", ...) learn as many, unless "n_hidden" says
        otherwise, and the others a machine of the visible units.
    beta : float or list of float
        Of the planted machines.
    n_rows : int or list of int
    seed : int, list of int, or None
        Of the rows, and of what is random in a rule.
    budget : float, optional
        Seconds that a rule may learn on one set of rows; what takes longer is broken off and told.
    options : dict of method to dict, optional
        Options of all rules with that method, for instance from a file.
    threads, out, overwrite, max_seconds, progress, stop, **storage
        As for `sample`.
    executor : concurrent.futures.Executor, optional
        Does the cells, each worker on one thread unless `threads` says more: all rules on one set of rows as one piece,
        or each rule as one where there are fewer than 16 sets. The table has the numbers of one had without.

    Returns
    -------
    RuleComparison
        `.table` has one row for each rule on each set of rows, with errors of couplings and moments, the held-out
        log-likelihood, seconds, and why a rule was skipped; `.summary()` one for many; printed, it is a table.

    Raises
    ------
    ValueError, TypeError
        For a rule or option that is unknown, before anything is computed.
    StorageError
        If `out` exists or cannot be written.

    Examples
    --------
    >>> import fastbm as bm
    >>> planted = bm.models.sherrington_kirkpatrick(8, seed=1)
    >>> found = bm.compare_rules(planted, ["exact", "pseudolikelihood"], n_rows=[1000, 4000], beta=0.5)
    >>> [row["gamma"] < 0.5 for row in found.table]
    [True, True, True, True]

    References
    ----------
    Nguyen, Zecchina and Berg, Adv. Phys. 66, 197 (2017). doi:10.1080/00018732.2017.1341604.
    """
    named = {"model": models} if not isinstance(models, Mapping) else dict(models)
    for one in named.values():
        check_machine(one)
    if not named:
        raise ValueError("compare_rules needs at least one model.")
    chosen = read_rules(rules, options)
    betas = [checks.real("beta", value, least=0.0) for value in _several("beta", beta)]
    sizes = [checks.whole("n_rows", value, least=2) for value in _several("n_rows", n_rows)]
    seeds = [rng.resolve(value) for value in _several("seed", seed)]
    budget = None if budget is None else checks.real("budget", budget, above=0.0)
    check_executor(executor)
    spec = {
        "kind": "rules",
        "models": [{"name": name, **describe(one)} for name, one in named.items()],
        "cells": [
            {
                "model": name,
                "beta": b,
                "n_rows": n,
                "seed": s,
                "rule": label,
                "method": method,
                "options": plain(given),
                "budget": budget,
            }
            for name in named
            for b in betas
            for n in sizes
            for s in seeds
            for label, (method, given) in chosen.items()
        ],
    }
    inputs: dict[str, np.ndarray] = {}
    for k, one in enumerate(named.values()):
        inputs |= model_inputs(one, f"models/{k}")
    run = begin(
        spec, inputs, threads, out, overwrite, max_seconds, progress, stop, storage,
        compare_rules.__kwdefaults__ or (), Given(executor=executor, worker_threads=1 if threads is None else threads),
    )  # fmt: skip
    assert isinstance(run, RulesRun)
    return run.rules


def _several(argument: str, value: Any) -> list[Any]:
    """Return the values of an argument: itself, or the entries of a list."""
    found = list(value) if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) else [value]
    if not found:
        raise ValueError(f"{argument} must list at least one value; got {value!r}.")
    return found
