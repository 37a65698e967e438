"""What [grid], [zip] and [campaign] mean, and what is refused of them."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from typing import Any

import numpy as np
import pytest

from fastbm._base import rng
from fastbm.campaigns import grid
from fastbm.runs.toml import file

GLASS: dict[str, Any] = {
    "model": {"name": "edwards_anderson"},
    "sample": {"sampler": "tempering"},
    "grid": {"model.seed": {"range": 3}, "sample.beta": [0.5, 0.9]},
    "zip": {"model.shape": [[4, 4], [6, 6]], "sample.n_sweeps": [10, 20]},
    "campaign": {"out": "runs/out/glass"},
}


def test_cells_are_all_combinations_and_lists_of_zip_go_together() -> None:
    plan = grid.read(GLASS)
    keys = [
        {"model.shape": shape, "sample.n_sweeps": n, "model.seed": seed, "sample.beta": beta}
        for (shape, n), seed, beta in itertools.product([([4, 4], 10), ([6, 6], 20)], range(3), [0.5, 0.9])
    ]
    assert [cell.keys for cell in plan.cells] == keys and len(plan.cells) == 12
    assert plan.verb == "sample" and plan.axes == (
        ("model.shape", "sample.n_sweeps"),
        ("model.seed",),
        ("sample.beta",),
    )
    assert plan.settings == grid.Settings(out="runs/out/glass")
    assert plan.cells[-1] == list(plan.cells)[-1] == plan.cells[10:][1] and plan.cells[-1].keys == keys[-1]
    cell = plan.cells[3]
    assert file.check(cell.tables) == "sample"
    assert cell.tables["model"] == {"name": "edwards_anderson", "shape": [4, 4], "seed": 1}
    assert GLASS["model"] == {"name": "edwards_anderson"}


def test_an_id_is_the_hash_of_the_tables_as_written_and_the_seed_comes_from_it() -> None:
    plan = grid.read(GLASS)
    cell = plan.cells[5]
    written = {name: dict(table) for name, table in cell.tables.items()}
    seed = written["sample"].pop("seed")
    text = json.dumps(written, sort_keys=True, separators=(",", ":"))
    assert cell.id == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert seed == rng.derive(0, int(cell.id, 16)) >> 11
    assert plan.cells.ids == [one.id for one in plan.cells] and len(set(plan.cells.ids)) == 12


def test_a_grid_that_grows_changes_no_other_cell() -> None:
    small = list(grid.read(GLASS).cells)
    more = {"grid": {"sample.beta": [0.9, 0.7, 0.5], "model.seed": {"range": [0, 5]}}, "store": {"commit_seconds": 3.0}}
    grown = {cell.id: cell for cell in grid.read(GLASS | more | {"campaign": {"keep": "runs"}}).cells}
    assert len(grown) == 30
    assert all(grown[cell.id].tables["sample"] == cell.tables["sample"] for cell in small)


@pytest.mark.parametrize(
    "written",
    [
        {"grid": {"model.seed": {"range": [0, 3, 1]}, "sample.beta": {"linspace": [0.5, 0.9, 2]}}},
        {"grid": {"model": {"seed": [0, 1, 2]}, "sample": {"beta": (0.5, 0.9)}}},
        {"grid": {"model.seed": range(3), "sample.beta": np.array([0.5, 0.9])}},
        {"zip": [GLASS["zip"]]},
    ],
)
def test_other_ways_to_write_the_same(written: dict[str, Any]) -> None:
    assert grid.read(GLASS | written).cells.ids == grid.read(GLASS).cells.ids


def test_seeds_are_those_given_or_common_or_of_each_cell() -> None:
    def seeds(**more: Any) -> list[Any]:
        return [cell.tables["sample"]["seed"] for cell in grid.read(GLASS | more).cells]

    assert len(set(seeds())) == 12 and not set(seeds()) & set(seeds(campaign={"seed": 1}))
    assert seeds(campaign={"seed": "common"}) == [0] * 12
    assert seeds(sample={"sampler": "tempering", "seed": 7}) == [7] * 12
    assert seeds(grid={"sample.seed": [5, 6]}) == [5, 6, 5, 6]


NO_ZIP: dict[str, Any] = {"zip": []}
REFUSED = [
    (NO_ZIP | {"grid": {}}, r"\[grid\] is empty: .* for instance \"model.seed\" = \{ range = 100 \}"),
    ({"grid": {"sample.bta": [1.0]}}, r"unknown key 'bta' in \[sample\]. Did you mean 'beta'\?"),
    ({"grid": {"modle.seed": [1]}}, r"unknown table \[modle\]. Did you mean 'model'\?"),
    ({"grid": {"model.sed": [1]}}, r"unknown key 'sed' in \[model\]. Did you mean 'seed'\?"),
    (NO_ZIP | {"grid": {"model.shape": [4, 5.0]}}, r"one value: write model.shape = \[\[...\], \[...\]\]"),
    (NO_ZIP | {"grid": {"sample.beta": [0.5]}}, r"\[model\] needs shape for 'edwards_anderson'"),
    ({"grid": {"sample.beta": {"rnge": 3}}}, r"\{ linspace = \[first, last, n\] \}.* Did you mean 'range'\?"),
    ({"grid": {"sample.beta": {"range": [0.1, 0.5]}}}, r"whole numbers.*got 0.1. Others: \{ linspace"),
    ({"grid": {"sample.beta": {"linspace": [0.1, 0.5]}}}, r"linspace takes \[first, last, n\]; got \[0.1, 0.5\]"),
    ({"grid": {"model.seed": {"range": [1, 2, 0]}}}, "step of a range must not be 0"),
    ({"grid": {"model.seed": {"range": 0}}}, "model.seed has no values"),
    ({"grid": {"model.seed": {"range": 10**9}}}, "at most 10000000 values"),
    ({"grid": {"model.seed": {"range": 10**4}, "sample.thin": {"range": [1, 10**4]}}}, "at most 10000000 cells"),
    ({"grid": {"sample.beta": 0.5}}, "must be a list of values"),
    ({"grid": {"sample.beta": [0.5, 0.5]}}, "has 0.5 twice"),
    ({"grid": {"sample.beta": [1, 1.0]}}, "has 1.0 twice"),
    ({"grid": {"beta": [0.5]}}, "written \"table.key\", as \"sample.beta\"; got 'beta'"),
    ({"grid": {"sample.n_sweeps": [10]}}, r"sample.n_sweeps stands in \[grid\] and \[zip\]"),
    ({"grid": {"sample.until": [{"ess": 1.0}], "sample.until.ess": [2.0]}}, "both sample.until and sample.until.ess"),
    ({"grid": {"store.merge": [True]}}, r"no keys of \[store\], which decides no number"),
    ({"zip": {"model.shape": [[4, 4]], "sample.n_sweeps": [1, 2]}}, "model.shape has 1, sample.n_sweeps has 2"),
    ({"zip": {"model.shape": [[4, 4]]}}, "two or more; got model.shape"),
    ({"store": {"out": "a.h5"}}, "store.out is of a single run.* campaign.out"),
    ({"campaign": {"kep": "runs"}}, r"unknown key 'kep' in \[campaign\]. Did you mean 'keep'\?"),
    ({"campaign": {"keep": "all"}}, "campaign.keep must be one of 'summary', 'runs'; got 'all'"),
    ({"campaign": {"seed": "comon"}}, "campaign.seed must be a whole number, or \"common\"; got 'comon'"),
    ({"grid": {"sample.beta": [0.5, math.inf]}}, r"\[grid\] sample.beta takes finite numbers.*; got inf"),
    ({"zip": {"sample.beta": [math.nan, 1.0], "sample.thin": [1, 2]}}, r"\[zip\] sample.beta takes finite .*; got nan"),
    ({"sample": {"beta": math.nan}}, "sample.beta takes finite numbers.*; got nan"),
    ({"grid": {"sample.sampler": ["tempering", "temperng"]}}, "sample.sampler must be one of .*; got 'temperng'"),
    ({"grid": {"model.seed": [3j]}}, "model.seed takes finite numbers.*; got 3j"),
    ({"campaign": {"n_shards": 0}}, "n_shards must be at least 1"),
    ({"campaign": 3}, r"\[campaign\] must be a table"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(written: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        grid.read(GLASS | written)


METHODS = [
    ({"fit": {"method": "pcdd"}, "data": {}}, "fit.method must be one of .*; got 'pcdd'"),
    ({"fit": {}, "classify": {"method": "pcdd"}, "data": {}}, "classify.method must be one of .*; got 'pcdd'"),
    ({"compare": {"methods": ["exakt"]}, "model": [{}]}, "method must be one of .*; got 'exakt'"),
    ({"compare": {"methods": ["ais"], "options": {"ais": {"n_chain": 1}}}, "model": [{}]}, "no option 'n_chain'"),
    ({"compare": {"rules": ["rise", "pcdd"]}, "model": [{}]}, "rules must be one of .*; got 'pcdd'"),
    ({"compare": {"methods": ["exact"]}, "model": {"name": "curie_weiss", "n_units": [3, 4]}}, "unknown key 'n_units'"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "text"), METHODS, ids=range(len(METHODS)))
def test_methods_that_there_are_none_of_are_refused_before_a_cell_is_settled(
    written: dict[str, Any], text: str
) -> None:
    verb = next(iter(written))
    with pytest.raises((ValueError, TypeError), match=f"a cell of the grid is refused: .*{text}"):
        grid.read(written | {"grid": {f"{verb}.seed": {"range": 3}}})


def test_several_machines_of_a_comparison_are_no_place_for_a_key() -> None:
    tables = {"model": [{"name": "random_machine", "n": 8}], "compare": {"methods": ["exact"]}}
    with pytest.raises(ValueError, match=r"\[\[model\]\] are several tables"):
        grid.read(tables | {"grid": {"model.seed": [1, 2]}})
    assert len(grid.read(tables | {"grid": {"compare.budget": [0.1, 0.2]}}).cells) == 2
