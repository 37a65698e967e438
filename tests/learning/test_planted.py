"""Rules of learning side by side: what is measured, how it is stored, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.learning.planted import machines, rules as inverse_rules
from fastbm.learning.planted.comparison import RuleCell
from fastbm.learning.planted.ranking import rank
from fastbm.report import tables as report
from fastbm.runs.toml import file as config
from tests.support import machines as helpers
from tests.support.machines import SURE, g_test, machine, parameters
from tests.twins import planted as slow

PLANTED = bm.models.sherrington_kirkpatrick(6, seed=1, field=0.2)
RULES: list[Any] = ["exact", {"method": "rise", "l1": 0.02}, "bethe"]
NUMBERS = ("gamma", "coupling_off", "bias_off", "mean_off", "pair_off", "likelihood_off")


def without_seconds(found: bm.RuleComparison) -> list[dict[str, Any]]:
    return [row | {"seconds": 0.0} for row in found.table]


def test_errors_fall_as_the_root_of_the_number_of_rows() -> None:
    found = bm.compare_rules(PLANTED, ["exact"], beta=0.6, n_rows=[500, 8000], seed=list(range(12)))
    few, many = found.summary(("n_rows",))
    for name in ("gamma", "coupling_off", "bias_off", "mean_off", "pair_off"):
        assert 3.0 < few[name] / many[name] < 5.3, name  # 4, and 4 standard errors of a ratio of 12 seeds and 15 pairs
    assert 10.0 < few["likelihood_off"] / many["likelihood_off"] < 25.0  # 16: losses go as 1 / n_rows
    n_parameters = 6 + 15
    assert many["likelihood_off"] == pytest.approx(-n_parameters / (2 * 8000), rel=0.35)


@pytest.mark.parametrize("units", ["spin", "binary"])
@pytest.mark.parametrize("kind", ["visible", "sparse", "restricted"])
def test_what_is_measured_is_what_enumeration_says(kind: str, units: str) -> None:
    planted, beta, n_rows, seed = machine(kind, units, scale=0.4), 0.7, 300, 4
    row = bm.compare_rules(planted, ["pseudolikelihood"], beta=beta, n_rows=n_rows, seed=seed).table[0]
    rows = machines.draw(planted, beta, n_rows, seed, 1)
    values = planted.convention.values(rows.rows)
    learned = bm.fit(values, method="pseudolikelihood", units=units).model
    n = planted.n_visible
    ours, theirs = (parameters(one.to_units("spin")) for one in (learned, planted))
    theirs = (beta * theirs[0], beta * theirs[1])
    p, q = (slow.visible_distribution(*one, n) for one in (ours, theirs))
    (mean, pairs), (true_mean, true_pairs) = slow.moments(p), slow.moments(q)
    likelihood_off = slow.log_likelihood(p, rows.holdout) - slow.log_likelihood(q, rows.holdout)
    expected = {
        "mean_off": slow.root_mean_square(mean, true_mean),
        "pair_off": slow.root_mean_square(pairs, true_pairs),
        "likelihood_off": likelihood_off,
        "likelihood_error": 0.0,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-6, abs=1e-9)
    if planted.n_hidden:
        assert row["gamma"] is row["coupling_off"] is row["bias_off"] is None
    else:
        assert row["gamma"] == pytest.approx(slow.gamma(ours[0], theirs[0]), rel=1e-6)
        assert row["bias_off"] == pytest.approx(slow.root_mean_square(list(ours[1]), list(theirs[1])), rel=1e-6)
    assert (row["rows_by"], row["moments_by"], row["converged"], row["skipped"]) == ("exact", "exact", True, None)


@pytest.mark.parametrize("kind", ["visible", "restricted"])
def test_rows_are_of_the_planted_machine(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted, beta = machine(kind, "binary"), 0.8
    weights, bias = parameters(planted.to_units("spin"))
    p = slow.visible_distribution(beta * weights, beta * bias, planted.n_visible)
    ordered = [p[tuple(int(s) for s in 2 * state - 1)] for state in helpers.patterns(planted.n_visible, "binary")]
    found = machines.draw(planted, beta, 20_000, 3, 2)
    assert found.sampler == "exact"
    for half in (found.rows, found.holdout):
        assert half.shape == (20_000, planted.n_visible) and g_test(half, np.array(ordered)) > SURE
    fewer = machines.draw(planted, beta, 777, 3, 1)
    assert np.array_equal(fewer.rows, found.rows[:777]) and np.array_equal(fewer.holdout, found.holdout[:777])
    monkeypatch.setattr(machines, "draw_exactly", _refuse)
    tempered = machines.draw(planted, beta, 20_000, 3, 1)
    assert tempered.sampler == "tempering"
    again = machines.draw(planted, beta, 777, 3, 2)
    assert np.array_equal(again.rows, tempered.rows[:777])
    counts = np.bincount(helpers.codes(tempered.rows), minlength=len(ordered)) / 20_000
    scatter = np.sqrt(np.array(ordered) / 20_000)
    assert np.abs((counts - ordered) / scatter).max() < 7.0  # samples of a chain resemble one another a little


def _refuse(*arguments: Any, **options: Any) -> np.ndarray:
    raise ValueError("no tables")


def test_what_cannot_be_summed_is_tempered(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = bm.compare_rules(PLANTED, ["exact"], n_rows=2000).table[0]
    monkeypatch.setattr(machines, "N_SWEEPS", 500)
    monkeypatch.setattr(machines, "forecast_seconds", lambda *given, **known: np.inf)
    row = bm.compare_rules(PLANTED, ["exact"], n_rows=2000).table[0]
    assert (row["moments_by"], exact["moments_by"]) == ("tempering", "exact")
    assert row["gamma"] == exact["gamma"] and 0.0 < row["likelihood_error"] < 0.05
    assert abs(row["likelihood_off"] - exact["likelihood_off"]) < 5 * row["likelihood_error"]
    assert abs(row["pair_off"] - exact["pair_off"]) < 0.02


def test_a_table_has_a_row_for_every_cell_and_is_printed_in_80_columns() -> None:
    models = {"one": PLANTED, "two": machine("restricted")}
    rules = ["tap", *RULES[1:]]
    found = bm.compare_rules(models, rules, beta=[0.3, 0.6], n_rows=[200, 400])
    assert [(r["model"], r["beta"], r["n_rows"], r["rule"]) for r in found.table] == [
        (m, b, n, r)
        for m in models
        for b in (0.3, 0.6)
        for n in (200, 400)
        for r in ("tap", "rise, l1 = 0.02", "bethe")
    ]
    assert all(set(row) == set(RuleCell.__dataclass_fields__) for row in found.table)
    assert all(row["seconds"] > 0 and row["skipped"] is None for row in found.table)
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("Ranked over the 4 of 4 sets") for line in lines) == 2
    assert sum("yes" in line for line in lines) == len(found) / 3  # formulas cannot tell
    many = bm.RuleComparison(found.cells * 3)
    text = str(many)
    assert "one, 200 rows: error of couplings" in text and "two, 400 rows: held-out log-likelihood" in text
    assert max(map(len, text.splitlines())) <= 80
    for row in found.summary(("model", "rule")):
        chosen = [r for r in found.table if (r["model"], r["rule"]) == (row["model"], row["rule"])]
        assert row["n"] == 4 and row["skipped"] == 0
        assert row["converged"] == (1.0 if row["rule"].startswith("rise") else None)
        assert row["pair_off"] == pytest.approx(np.sqrt(np.mean([r["pair_off"] ** 2 for r in chosen])))


def made(rule: str, beta: float, seed: int, gamma: float | None) -> RuleCell:
    blank: dict[str, Any] = dict.fromkeys(RuleCell.__dataclass_fields__)
    about = {"model": "m", "beta": beta, "n_rows": 100, "seed": seed, "rule": rule, "method": rule, "seconds": 1.0}
    return RuleCell(**blank | about | {"gamma": gamma, "skipped": None if gamma is not None else "it failed"})


def test_a_rule_gains_nothing_by_failing_where_it_is_hard() -> None:
    betas = [k / 10 for k in range(1, 11)]
    honest = [made("honest", beta, seed, beta) for beta in betas for seed in range(2)]
    coward = [made("coward", beta, seed, 1.1 * beta if beta < 0.8 else None) for beta in betas for seed in range(2)]
    hopeless = [made("hopeless", beta, seed, 0.01 if beta < 0.3 else None) for beta in betas for seed in range(2)]
    found = bm.RuleComparison(tuple(honest + coward + hopeless))
    rows = {row["rule"]: row for row in found.summary(("model", "rule"))}
    assert rows["coward"]["gamma"] == pytest.approx(1.1 * rows["honest"]["gamma"])
    assert rows["hopeless"]["gamma"] is None
    assert [rows[rule]["skipped"] for rule in ("honest", "coward", "hopeless")] == [0, 6, 16]
    assert rows["honest"]["common"] == rows["coward"]["common"] == 14
    text = str(found)
    told = " ".join(text.split())
    assert "Ranked over the 14 of 20 sets of rows that all of them were measured on: honest 0." in told
    assert told.index("honest 0.") < told.index("coward 0.") < told.index("half: hopeless (16 of 20 failed)")
    for beta in betas:  # none is left out
        assert f" {beta:g} " in text
    assert max(map(len, text.splitlines())) <= 80
    off = {"better": 0.01, "worse": -0.005}  # of the held-out likelihood, which a rule may have more of than the truth
    judged = [vars(made(rule, 1.0, 0, None)) | {"likelihood_off": one, "skipped": None} for rule, one in off.items()]
    assert "better 0.01, worse -0.005" in rank(judged, "likelihood_off")
    alone = bm.RuleComparison(tuple(coward)).summary(("beta",))
    assert [row["gamma"] is None for row in alone] == [beta > 0.7 for beta in betas]


def test_hidden_units_are_learned_by_rules_that_can() -> None:
    planted = machine("restricted", scale=1.0)
    up = machines.draw(planted, 1.0, 200, 0, 1).rows
    about: dict[str, Any] = {"seed": 0, "threads": 1, "budget": None}
    with_hidden = inverse_rules.learn(up, planted, "pcd", {"epochs": 3}, **about)
    assert with_hidden.machine.n_hidden == planted.n_hidden and with_hidden.converged is None
    assert inverse_rules.learn(up, planted, "pcd", {"epochs": 3, "n_hidden": 0}, **about).machine.n_hidden == 0
    assert inverse_rules.learn(up, planted, "rise", {"l2": 0.01}, **about).machine.n_hidden == 0
    rules = [{"method": "pcd", "epochs": 3}, {"method": "exact", "n_hidden": 0}]
    found = bm.compare_rules(planted, rules, n_rows=200)
    assert [row["gamma"] for row in found.table] == [None, None]
    assert [row["skipped"] for row in found.table] == [None, None]


def test_stopped_and_resumed_as_if_it_had_never_been(tmp_path: Path) -> None:
    about: dict[str, Any] = {"beta": [0.4, 0.8], "n_rows": [150], "seed": 2}
    rules = [*RULES, {"method": "pcd", "epochs": 3}]
    whole = bm.compare_rules(PLANTED, rules, threads=1, **about)
    path = tmp_path / "rules.h5"
    begun = bm.compare_rules(PLANTED, rules, out=path, max_seconds=0.0, threads=2, **about)
    assert len(begun) == 1 and not bm.open(path).finished
    run = bm.resume(path, max_seconds=0.0)
    assert len(run.rules) == 2
    run = bm.resume(path, threads=2)
    assert run.finished and run.kind == "rules" and run.converged is True
    assert without_seconds(run.rules) == without_seconds(whole)
    assert without_seconds(bm.open(path).rules) == without_seconds(whole)
    assert run.summary()["cells"] == "8 of 8"


def test_rules_that_fail_are_told_and_the_others_go_on() -> None:
    stiff = bm.BoltzmannMachine(4.0 * (1 - np.eye(4)), np.full(4, 2.0), units="spin")
    found = bm.compare_rules(stiff, ["bethe", {"method": "rise", "l2": 0.1}, "minimum-probability-flow"], n_rows=50)
    told = {row["rule"]: row["skipped"] for row in found.table}
    assert "units that never change" in str(told["bethe"]) and told["rise, l2 = 0.1"] is None
    assert "no finite optimum" in str(found.table[2]["warning"])
    assert found.table[0]["gamma"] is None and found.table[0]["seconds"] == 0.0
    assert "bethe: moments have units" in str(found)
    (slow_one,) = bm.compare_rules(PLANTED, ["pcd"], n_rows=50, budget=1e-9).table
    assert slow_one["skipped"] == "not learned within budget = 1e-09 s." and slow_one["pair_off"] is None


def test_at_infinite_temperature_there_are_no_couplings_to_be_off_by() -> None:
    (row,) = bm.compare_rules(PLANTED, ["exact"], beta=0.0, n_rows=500).table
    assert row["gamma"] is None and 0.0 < row["coupling_off"] < 0.1 and row["pair_off"] < 0.1


@pytest.mark.parametrize(
    ("error", "text", "call"),
    [
        (ValueError, "rules must be one of .*Did you mean 'pseudolikelihood'", lambda: _go(["pseudo-likelihood"])),
        (TypeError, "rule 'rise, l3 = 1' has no option 'l3'", lambda: _go([{"method": "rise", "l3": 1}])),
        (TypeError, "has no option 'beta'", lambda: _go([{"method": "rise", "beta": 2.0}])),
        (ValueError, "rule 'exact, l1 = 0.1': l1 goes with", lambda: _go([{"method": "exact", "l1": 0.1}])),
        (ValueError, "rules name 'rise' twice", lambda: _go(["rise", "rise"])),
        (TypeError, "rules must list names of methods", lambda: _go([])),
        (TypeError, "rules must be names of methods", lambda: _go([{"l1": 0.1}])),
        (ValueError, "options names 'tap'", lambda: _go(["rise"], options={"tap": {}})),
        (ValueError, "n_rows must be at least 2", lambda: _go(["rise"], n_rows=[100, 1])),
        (ValueError, "beta must list at least one", lambda: _go(["rise"], beta=[])),
        (TypeError, "rules has no argument 'epochs'", lambda: _go(["rise"], epochs=3)),
        (TypeError, "model must be a BoltzmannMachine", lambda: bm.compare_rules({"a": 3}, ["rise"])),  # type: ignore[dict-item]
    ],
)
def test_bad_comparisons_are_refused(error: type[Exception], text: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=text):
        call()


def _go(rules: Any, **options: Any) -> object:
    return bm.compare_rules(PLANTED, rules, **options)


FILE = """
[[model]]
label = "glass"
name = "sherrington_kirkpatrick"
n = 5

[[model]]
name = "restricted"
n_visible = 4
n_hidden = 2
scale = 0.5

[compare]
rules = ["bethe", "tap", { method = "rise", label = "sparse" }]
beta = [0.3, 0.6]
n_rows = [200, 500]
options.rise.l1 = 0.05

[store]
max_seconds = 100.0
"""


def test_a_file_names_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file.toml"
    file.write_text(FILE)
    out = tmp_path / "r.h5"
    report.run_file(file, [], out=out, overwrite=False, threads=1, quiet=True, only="compare")
    run = bm.open(out)
    assert len(run.rules) == 2 * 2 * 2 * 3
    assert {row["rule"] for row in run.rules.table} == {"bethe", "tap", "sparse"}
    assert run.config["cells"][2]["options"] == {"l1": 0.05}
    assert "24 of 24" in capsys.readouterr().out
    assert (tmp_path / "r.png").stat().st_size > 10_000


@pytest.mark.parametrize("change", ["beta = [0.6]", pytest.param("n_rows = [200]", marks=pytest.mark.slow)])
def test_pictures_of_one_temperature_or_size(change: str, tmp_path: Path) -> None:
    name = change.split(" ", maxsplit=1)[0]
    lines = [change if line.startswith(f"{name} =") else line for line in FILE.splitlines()]
    tables = config.read(_write(tmp_path, "\n".join(lines)), [])
    config.call(tables, config.check(tables))(out=tmp_path / "r.h5")
    assert report.draw_picture(bm.open(tmp_path / "r.h5"), tmp_path / "r.png").stat().st_size > 10_000


def _write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "file.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FILE.replace("[compare]", '[compare]\nmethods = ["exact"]'), "methods of inference or rules of learning"),
        (FILE.replace('"tap"', '"tab"'), "rules must be one of .*'tap'"),
        (FILE.replace("n_rows = [200, 500]", "n_rows = [0.5]"), "compare.n_rows"),
        (FILE.replace("n_rows = [200, 500]", "rows = 3"), "unknown key 'rows' in .compare."),
        (FILE.replace("options.rise.l1", "options.pcd.epochs"), "options names 'pcd'"),
        (FILE.replace("l1 = 0.05", "l5 = 0.05"), "rule 'sparse' has no option 'l5'"),
        (FILE.replace('rules = ["bethe", "tap", { method = "rise", label = "sparse" }]', ""), "unknown key 'n_rows'"),
    ],
)
def test_bad_files(text: str, said: str, tmp_path: Path) -> None:
    tables = config.read(_write(tmp_path, text), [])
    with pytest.raises((ValueError, TypeError), match=said):
        config.call(tables, config.check(tables))
