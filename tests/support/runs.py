"""What the tests of runs share: a small run of every kind, and what makes two of them the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastbm as bm
from tests.support.machines import machine

MODEL = machine("general", "spin", offset=0.5)
ROWS = bm.data.bars_and_stripes(3)


def sample(out: Path | None = None, **options: Any) -> bm.Run:
    return bm.sample(MODEL, **{"n_chains": 5, "n_sweeps": 40, "thin": 3, "out": out, **options})


def fit(out: Path | None = None, **options: Any) -> bm.Run:
    return bm.fit(
        ROWS, **{"n_hidden": 4, "epochs": 5, "batch_size": 7, "n_chains": 9, "samples_every": 2, "out": out, **options}
    )


def l_bfgs(out: Path | None = None, **options: Any) -> bm.Run:
    return bm.fit(ROWS, **{"method": "exact", "l2": 1e-3, "epochs": 30, "holdout": ROWS[:3], "out": out, **options})


def general(out: Path | None = None, **options: Any) -> bm.Run:
    more = {
        "method": "monte-carlo",
        "n_hidden": 3,
        "layout": "general",
        "epochs": 4,
        "n_chains": 8,
        "optimizer": "adam",
    }
    return bm.fit(ROWS, **{**more, "out": out, **options})


def contrastive(out: Path | None = None, **options: Any) -> bm.Run:
    more = {
        "method": "cd",
        "n_hidden": 3,
        "epochs": 4,
        "batch_size": 5,
        "momentum": 0.5,
        "units": "spin",
    }
    return bm.fit(2 * ROWS.astype(int) - 1, **{**more, "out": out, **options})


def some_of_the_data(out: Path | None = None, **options: Any) -> bm.Run:
    """One mini-batch an epoch that is not all of the data."""
    return bm.fit(ROWS, **{"method": "pcd", "epochs": 6, "batch_size": 10, "n_chains": 9, "out": out, **options})


LEARNING = (fit, l_bfgs, general, contrastive, some_of_the_data)
ALL = (sample, *LEARNING)


def all_arrays(run: bm.Run) -> dict[str, np.ndarray]:
    """Everything that a run holds but times."""
    found = {
        f"{group}/{name}": array
        for group in ("metrics", "weights", "evaluation")
        for name, array in getattr(run, group).items()
    }
    for name in ("states", "energy", "sweep", "magnetisation"):
        try:
            found[name] = np.asarray(getattr(run, name))
        except AttributeError:
            continue
    return found | {f"model/{k}": array for k, array in run.model.to_arrays().items()}


def assert_same(first: bm.Run, second: bm.Run) -> None:
    one, other = all_arrays(first), all_arrays(second)
    assert sorted(one) == sorted(other)
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        assert one[name].tobytes() == other[name].tobytes(), name


def begin_and_stop(begin: Callable[..., bm.Run], path: Path, **options: Any) -> bm.Run:
    """Begin a run and stop it after its first block."""
    return begin(path, max_seconds=0.0, **options)
