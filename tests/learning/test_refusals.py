"""What learning refuses, by name and before it begins, and that it warns of nothing else."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from tests.support.machines import machine

ROWS = [[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]]


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (ValueError, "method must be one of .*Did you mean 'exact'", {"method": "exakt"}),
        (TypeError, "fit has no argument 'n_hiden'. Did you mean 'n_hidden'", {"n_hiden": 3}),
        (TypeError, "fit has no argument 'learningrate'. Did you mean 'learning_rate'", {"learningrate": 3}),
        (ValueError, "n_hidden must be at least 0", {"n_hidden": -1}),
        (TypeError, "n_hidden must be a whole number", {"n_hidden": 2.0}),
        (ValueError, "layout must be one of 'restricted', 'general', 'deep'", {"n_hidden": 2, "layout": "deeper"}),
        (ValueError, 'layout="deep" and n_hidden with several layers', {"n_hidden": 2, "layout": "deep"}),
        (ValueError, "got layout='general' with 2 hidden layers", {"n_hidden": [2, 3], "layout": "general"}),
        (ValueError, "n_hidden must hold the size of at least one layer", {"n_hidden": []}),
        (ValueError, r"n_hidden\[1\] must be at least 1; got 0", {"n_hidden": [2, 0]}),
        (TypeError, r"n_hidden\[0\] must be a whole number", {"n_hidden": ["2", 3]}),
        (ValueError, r"init has 2 \+ 2 hidden units", {"n_hidden": [3, 1], "init": machine("layers", "binary")}),
        (ValueError, "pretrain_epochs goes with machines of several hidden layers", {"pretrain_epochs": 1}),
        (ValueError, "which leaves none of epochs=4", {"pretrain_epochs": 2, "n_hidden": [2, 2], "epochs": 4}),
        (ValueError, "method='rise' needs all units visible", {"method": "rise", "n_hidden": [2, 2]}),
        (ValueError, "layout='restricted' says how hidden units are coupled", {"layout": "restricted"}),
        (ValueError, "layout='general' says how hidden units are coupled", {"layout": "general"}),
        (ValueError, "samples_every goes with free chains that persist", {"method": "exact", "samples_every": 1}),
        (ValueError, "samples_every goes with free .* free is 'contrastive'", {"method": "cd", "samples_every": 1}),
        (ValueError, "units must be one of 'spin', 'binary'", {"units": "bits"}),
        (ValueError, "clamped must be one of", {"clamped": "gibs"}),
        (ValueError, "free must be one of", {"free": "bethe"}),
        (ValueError, "optimizer must be one of .*Did you mean 'adam'", {"optimizer": "adm"}),
        (ValueError, 'optimizer="l-bfgs" needs exact phases', {"optimizer": "l-bfgs"}),
        (ValueError, 'optimizer="l-bfgs" needs all 4 rows', {"method": "exact", "batch_size": 2}),
        (ValueError, "beta must be above 0", {"beta": 0.0}),
        (ValueError, r"beta must be from 1e-100 to 1e\+100; got 1e-200. Measure energies in", {"beta": 1e-200}),
        (ValueError, "epochs must be at least 1; got 0", {"epochs": 0}),
        (ValueError, "learning_rate must be above 0", {"learning_rate": 0.0}),
        (ValueError, "momentum must be at least 0", {"momentum": -0.1}),
        (ValueError, "momentum must be below 1", {"momentum": 1.0}),
        (ValueError, "batch_size must be at least 1", {"batch_size": 0}),
        (ValueError, "n_chains must be at least 1", {"n_chains": 0}),
        (ValueError, "n_sweeps must be at least 1; got -3", {"n_sweeps": -3}),
        (ValueError, "clamped_sweeps must be at least 1", {"clamped_sweeps": 0}),
        (ValueError, "l2 must be at least 0", {"l2": -1e-3}),
        (ValueError, "l2_bias must be at least 0", {"l2_bias": -1e-3}),
        (ValueError, "l2 must be finite", {"l2": np.inf}),
        (ValueError, "tolerance must be above 0", {"tolerance": 0.0}),
        (ValueError, "weights_every must be at least 0", {"weights_every": -1}),
        (ValueError, "monitor_every must be at least 1", {"monitor_every": 0}),
        (ValueError, "evaluate must be one of .*Did you mean 'exact'", {"evaluate": "exakt"}),
        (ValueError, "holdout must have 3 units a row, as data; got 2", {"holdout": [[0, 1]]}),
        (ValueError, "holdout must be 0 or 1", {"holdout": [[-1, 1, 1]]}),
        (ValueError, "holdout is empty", {"holdout": np.zeros((0, 3))}),
        (ValueError, "init has 5 visible units; data has 3", {"init": machine("visible", "binary")}),
        (TypeError, "init must be a BoltzmannMachine; got int", {"init": 3}),
        (ValueError, "seed must be at least 0", {"seed": -1}),
        (ValueError, "threads must be at least 1", {"threads": 0}),
        (ValueError, "max_seconds must be at least 0", {"max_seconds": -1}),
    ],
)
def test_bad_arguments_are_named(error: type[Exception], text: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(error, match=text):
        bm.fit(ROWS, **{"epochs": 1, **arguments})


def test_contrastive_divergence_is_refused_where_hidden_units_are_coupled() -> None:
    for options in (
        {"method": "cd", "n_hidden": [2, 2]},
        {"method": "cd", "n_hidden": 2, "layout": "general"},
        {"method": "pcd", "free": "contrastive", "init": machine("layers", "binary")},
    ):
        with pytest.raises(ValueError, match=r'free="contrastive".*not coupled to one another.*method="monte-carlo"'):
            bm.fit(ROWS, epochs=1, **options)


@pytest.mark.filterwarnings("ignore:data")
@pytest.mark.parametrize(
    "options", [{"method": "exact"}, {"method": "pcd", "evaluate": "exact"}], ids=["method", "evaluate"]
)
def test_sums_that_cannot_be_done_are_refused_before_learning_begins(options: dict[str, Any], tmp_path) -> None:
    rows, seen = np.random.default_rng(0).integers(0, 2, (20, 60)), []
    with pytest.raises(ValueError, match=r"2\^60 states"):
        bm.fit(
            rows,
            epochs=2,
            batch_size=20,
            out=tmp_path / "run.h5",
            progress=lambda task, rows: seen.append(rows),
            **options,
        )
    assert not seen
    assert not list(tmp_path.iterdir()), "a refused call leaves nothing behind"


def test_nothing_warns_along_the_way() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bm.fit(ROWS, method="mean-field", n_hidden=2, epochs=3)
        bm.fit(ROWS, method="exact", l2=0.1)
