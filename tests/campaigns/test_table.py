"""Tables of campaigns: columns, averages over disorder and their errors, crossings, and other forms."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fastbm.campaigns.table import Table
from tests.support.campaigns import table_of

RNG = np.random.default_rng(0)


def student(n: int) -> float:
    """What makes 1.96 errors from n samples hold 95 % of normal values."""
    return float(stats.t.ppf(0.975, n - 1) / stats.norm.ppf(0.975))


def glass(n_seeds: int = 12, *, noise: float = 0.1) -> Table:
    """Moments of overlaps of made-up samples at two shapes and two temperatures."""
    keys, rows = [], []
    for shape in ([4, 4], [6, 6]):
        for seed in range(n_seeds):
            for beta in (0.5, 0.9):
                q2 = 0.3 + noise * RNG.random()
                keys.append({"model.shape": shape, "model.seed": seed, "sample.beta": beta})
                rows.append({"q2": q2, "q2_error": 0.01, "q4": 1.5 * q2**2 + 0.01 * RNG.random(), "r_hat": 1.0 + q2,
                             "ess": 100.0 * q2, "converged": seed % 4 != 0, "doubt": None})  # fmt: skip
    return Table.of(keys, rows)


def test_columns_are_found_by_the_end_of_their_names() -> None:
    table = glass(2)
    assert table.columns[:4] == ["model.shape", "model.seed", "sample.beta", "q2"] and len(table) == 8
    assert table["shape"][0] == (4, 4) and table["seed"].dtype == np.int64 and table["converged"].dtype == bool
    assert len(table.where(shape=[6, 6], beta=0.9)) == 2 and "shape" in table and "size" not in table
    for value in ("0.9", [0.9]):
        with pytest.raises(TypeError, match="beta must be a number; got"):
            table.where(beta=value)
    assert len(table.where(beta=None)) == 0
    assert table.rows[3]["q4"] == table["q4"][3] and table.rows[0]["model.shape"] == (4, 4)
    assert repr(table) == "<Table: 8 rows over model.shape, model.seed, sample.beta; 10 columns>"
    with pytest.raises(KeyError, match=r"no column 'shap'. Did you mean 'shape'"):
        table["shap"]
    assert list(table) == table.rows
    with pytest.raises(TypeError, match="columns are found by name; got 0"):
        table[0]  # type: ignore[index]
    for seeds in ([2**63 - 1, 2**63, 2**63 + 1], [2**53, 2**53 + 1, None]):
        large = Table.of([{"model.seed": seed} for seed in seeds], [{"energy": 0.0}] * 3)
        assert large["seed"].tolist() == seeds and len(large.where(seed=seeds[1])) == 1
    both = Table.of([{"model.seed": 1, "sample.seed": 2}], [{"energy": 0.0}])
    with pytest.raises(KeyError, match=r"It may be model.seed or sample.seed"):
        both["seed"]


def test_cells_that_failed_or_are_not_done_are_no_numbers() -> None:
    keys = [{"model.seed": k} for k in range(4)]
    table = Table.of(keys, [{"energy": 1.0}, {"failed": "out of memory"}, None, {"energy": 3.0}])
    assert len(table) == 3 and math.isnan(table["energy"][1]) and table["failed"].tolist()[1] == "out of memory"
    (row,) = table.average("seed").rows
    assert row == {"n": 2, "energy": 2.0, "energy_error": pytest.approx(student(2))}
    assert table.best("energy")["model.seed"] == 3 and table.best("energy", lowest=True)["model.seed"] == 0


def test_averages_over_disorder_are_those_of_a_jackknife_over_samples() -> None:
    table = glass()
    found = table.average("seed", of={"ratio": lambda q2, q4: q4 / q2**2, "twice": lambda q2: 2.0 * q2})
    assert found.keys == ("model.shape", "sample.beta") and len(found) == 4
    for row in found.rows:
        some = table.where(shape=row["model.shape"], beta=row["sample.beta"])
        q2, q4, n = some["q2"], some["q4"], len(some)
        assert row["n"] == n == 12
        assert row["q2"] == pytest.approx(q2.mean())
        assert row["q2_error"] == pytest.approx(student(n) * q2.std(ddof=1) / n**0.5)
        left_out = [[np.delete(values, k).mean() for k in range(n)] for values in (q2, q4)]
        ratio = np.array([b / a**2 for a, b in zip(*left_out, strict=True)])
        error = student(n) * math.sqrt((n - 1) / n * ((ratio - ratio.mean()) ** 2).sum())
        assert row["ratio"] == pytest.approx(q4.mean() / q2.mean() ** 2)
        assert row["ratio_error"] == pytest.approx(error, rel=1e-6)
        assert row["overlap_binder_cumulant"] == pytest.approx(1.0 - row["ratio"] / 3.0)
        assert row["overlap_binder_cumulant_error"] == pytest.approx(error / 3.0, rel=1e-6)
        assert row["twice"] == pytest.approx(2.0 * row["q2"])
        assert row["r_hat"] == some["r_hat"].max() and row["ess"] == some["ess"].min() and row["converged"] == 0.75
    assert not {"doubt", "q2_error_error", "r_hat_error", "converged_error"} & set(found.columns)


def test_rows_from_before_a_grid_had_a_key_are_a_group_of_their_own() -> None:
    keys = [{"model.seed": k} for k in range(3)] + [{"model.seed": k, "sample.thin": 2} for k in range(2)]
    table = Table.of(keys, [{"energy": float(k)} for k in range(5)], [("model.seed",), ("sample.thin",)])
    mean = table.average("seed")
    assert mean["n"].tolist() == [3, 2] and mean["energy"].tolist() == [1.0, 3.5]
    assert table.to_xarray().sizes == {"seed": 3, "thin": 2}


def test_ratios_are_of_averages_and_not_averages_of_ratios() -> None:
    rows = [
        {"q2": 0.1, "q4": 0.03, "overlap_binder_cumulant": 0.0},
        {"q2": 0.5, "q4": 0.3, "overlap_binder_cumulant": 0.6},
    ]
    (row,) = Table.of([{"model.seed": k} for k in range(2)], rows).average().rows
    assert row["overlap_binder_cumulant"] == pytest.approx(1.0 - 0.165 / (3.0 * 0.09))


def test_one_sample_has_no_error_and_equal_samples_have_none_to_tell() -> None:
    (one,) = Table.of([{"model.seed": 0}], [{"energy": -1.3, "m2": 0.5, "m4": 0.3}]).average().rows
    assert one["energy"] == -1.3 and math.isnan(one["energy_error"]) and math.isnan(one["binder_cumulant_error"])
    (same,) = Table.of([{"model.seed": k} for k in range(7)], [{"energy": -1.3}] * 7).average().rows
    assert same["energy"] == -1.3 and same["energy_error"] == 0.0


def test_averages_that_cannot_be_had_are_refused() -> None:
    table = glass(2)
    with pytest.raises(ValueError, match=r"keys of the grid, some of model.shape, model.seed"):
        table.average("q2")
    with pytest.raises(TypeError, match="over must be the name of a key of the grid, or a list of names; got 3"):
        table.average(3)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="no column 'q6'"):
        table.average("seed", of={"x": lambda q6: q6})
    with pytest.raises(TypeError, match=r"of\['x'\] must be a function"):
        table.average("seed", of={"x": 3})  # type: ignore[dict-item]


@pytest.mark.parametrize(("n", "low"), [(100, 0.88), (8, 0.73)])
def test_errors_of_averages_hold_the_truth(n: int, low: float) -> None:
    """Of 100 samples 1.96 errors hold a mean in 95 %, this ratio, a variance, in 93 %; of 8 in 95 % and 80 %.

    400 trials are outside the limits by chance once in 5,000.
    """
    keys = [{"model.seed": k, "sample.thin": t} for t in range(400) for k in range(n)]
    moments = 1.0 + 0.2 * np.random.default_rng(1).standard_normal(len(keys))
    table = Table.of(keys, [{"q2": x, "q4": 2.0 * x**2} for x in moments.tolist()]).average("seed")
    for name, truth in {"q2": 1.0, "q4": 2.08, "overlap_binder_cumulant": 1.0 - 2.08 / 3.0}.items():
        covered = np.abs(table[name] - truth) < 1.96 * table[f"{name}_error"]
        assert (low if "binder" in name else 0.88) < covered.mean() < 0.985


def test_temperatures_of_a_ladder_become_rows() -> None:
    rows = [{"q2@0.5": 0.1 * k, "q2@0.9": 0.2 * k, "q2": 0.2 * k, "r_hat": 1.0} for k in range(1, 4)]
    table = Table.of([{"model.seed": k} for k in range(3)], [*rows[:2], rows[2] | {"q2@0.5": None}]).long("beta")
    assert table["beta"].tolist() == [0.5, 0.9, 0.5, 0.9, 0.9] and table.keys == ("model.seed", "beta")
    assert table["q2"].tolist() == pytest.approx([0.1, 0.2, 0.2, 0.4, 0.6]) and table["r_hat"].tolist() == [1.0] * 5
    assert table.average("seed")["n"].tolist() == [2, 3]
    methods = Table.of([{"model.seed": 0}], [{"log_z@ais": 1.0, "log_z@tap": 2.0}]).long("method")
    assert methods["method"].tolist() == ["ais", "tap"]
    with pytest.raises(ValueError, match="no columns NAME@LABEL"):
        methods.long("beta")


def test_the_best_settings_are_those_best_over_all_folds() -> None:
    keys = [{"data.fold": fold, "fit.l2": l2} for fold in range(3) for l2 in (0.1, 0.01)]
    held = [-3.0, -1.0, -3.0, -3.5, -3.0, -8.0]
    table = Table.of(keys, [{"holdout": value, "holdout_by": "pseudo"} for value in held])
    assert table.best() == {"fit.l2": 0.1, "n": 3, "holdout": -3.0, "holdout_error": 0.0}
    assert table.best(over=[])["holdout"] == -1.0
    failed = Table.of(keys, [{"holdout": value} for value in held[:5]] + [{"failed": "diverged"}])
    with pytest.warns(UserWarning, match="1 of 2 settings lack some of data.fold that others have, as cells failed or"):
        assert failed.best("holdout")["fit.l2"] == 0.1
    with pytest.raises(ValueError, match=r"2 of 2 settings lack some of data.fold .* choose rows by `where` first"):
        Table.of(keys[1:5], [{"holdout": -1.0}] * 4).best()
    with pytest.raises(ValueError, match="best takes columns of numbers; 'holdout_by' holds texts"):
        table.best("holdout_by", over=[])


def crossing_table(slopes: dict[int, float], at: float, error: float) -> Table:
    x = np.linspace(-1.0, 1.0, 7)
    keys = [{"model.n": n, "sample.beta": 2.0 + b} for n in slopes for b in x.tolist()]
    y = np.concatenate([0.5 + k * (x - at) + 0.1 * (x - at) ** 3 for k in slopes.values()])
    noise = error * RNG.standard_normal(y.size)
    return Table.of(keys, [{"u": v, "u_error": error} for v in (y + noise).tolist()])


def test_curves_cross_where_they_were_made_to() -> None:
    """Pulls of 300 crossings have a spread of 1 within 5 of its errors."""
    found = [crossing_table({8: 0.3, 4: 0.1, 16: 0.9}, 0.2, 0.004).crossing("u", group="n") for _ in range(150)]
    assert [one.groups for one in found[0]] == [(4, 8), (8, 16)]
    pulls = np.array([[(one.x - 2.2) / one.error for one in pair] for pair in found])
    assert abs(pulls.std() - 1.0) < 5.0 / math.sqrt(2 * pulls.size) and abs(pulls.mean()) < 5.0 / math.sqrt(pulls.size)
    assert 0.6 < np.mean([one.chi2 for pair in found for one in pair]) < 1.4
    assert abs(found[0][0].y - 0.5) < 0.02


def disorder_table(at: float, n_samples: int) -> Table:
    """Moments at several temperatures of the same samples, whose cumulants cross at `at`."""
    x = np.linspace(-1.0, 1.0, 11)
    keys, rows = [], []
    for n, slope in ((4, 0.1), (8, 0.3)):
        off = 0.3 * RNG.standard_normal(n_samples)  # of a sample, at all temperatures
        for k in range(n_samples):
            keys.append({"model.n": n, "model.seed": k})
            u = 0.4 + slope * (x - at) + 0.1 * off[k] + 0.01 * RNG.standard_normal(x.size)
            names = [f"q4@{b!r}" for b in x.tolist()] + [f"q2@{b!r}" for b in x.tolist()]
            rows.append(dict(zip(names, [*(3.0 - 3.0 * u).tolist(), *np.ones(x.size).tolist()], strict=True)))
    return Table.of(keys, rows)


def test_crossings_know_what_temperatures_of_the_same_samples_have_in_common() -> None:
    """Pulls of 60 crossings have a spread of 1 within 5 of its errors; as if independent they would have 2.4."""
    pulls = []
    for _ in range(60):
        (one,) = disorder_table(0.2, 40).crossing("overlap_binder_cumulant", group="n", degree=1)
        pulls.append((one.x - 0.2) / one.error)
    assert abs(np.std(pulls) * student(40) - 1.0) < 5.0 / math.sqrt(120) and abs(np.mean(pulls)) < 5.0 / math.sqrt(60)
    table = disorder_table(0.2, 40).long("beta")
    curves = table.average("seed").curves("overlap_binder_cumulant", x="beta", group="model.n")
    for known, (label, x, y, error) in zip(
        table._over_samples("overlap_binder_cumulant", "beta", "n", ["model.seed"]), curves, strict=True
    ):
        assert known.label == label and known.x.tolist() == x.tolist()
        np.testing.assert_allclose(known.y, y, rtol=1e-9)
        np.testing.assert_allclose(known.errors, error, rtol=1e-6)


def test_crossings_that_cannot_be_found() -> None:
    table = crossing_table({4: 0.1, 8: 0.3}, 3.0, 1e-6)
    assert table.crossing("u", group="n") == []
    with pytest.raises(ValueError, match="two or more; got 1"):
        table.where(n=4).crossing("u", group="n")
    texts = Table.of([{k: r[k] for k in table.keys} for r in table.rows], [{"u": 0.1, "doubt": "few"}] * len(table))
    for wrong, error, text in (
        ({"of": "doubt"}, ValueError, "crossing takes columns of numbers; 'doubt' holds texts"),
        ({"x": "doubt"}, ValueError, "crossing takes columns of numbers; 'doubt' holds texts"),
        ({"degree": 1.5}, TypeError, r"degree must be a whole number; got 1\.5"),
        ({"degree": 0}, ValueError, "degree must be at least 1; got 0"),
    ):
        with pytest.raises(error, match=text):
            texts.crossing(**{"of": "u", "group": "n", **wrong})
    with pytest.raises(ValueError, match="7 points, too few for a polynomial of degree 7"):
        table.crossing("u", group="n", degree=7)
    with pytest.raises(ValueError, match="value or error is not known"):
        Table.of([{k: r[k] for k in table.keys} for r in table.rows], [{"u": 0.1}] * len(table)).crossing(
            "u", x="sample.beta", group="model.n"
        )


def test_csv_has_every_number_to_the_last_bit(tmp_path: Path) -> None:
    rows = [
        {"energy": 0.1 + 0.2, "converged": True, "doubt": None},
        {"energy": None, "converged": None, "doubt": "a, b"},
    ]
    table = Table.of([{"model.shape": [4, 4]}, {"model.shape": [6, 6]}], rows)
    table.to_csv(tmp_path / "table.csv")
    text = io.StringIO()
    table.to_csv(text)
    assert (tmp_path / "table.csv").read_text() == text.getvalue()
    head, *found = list(csv.reader(io.StringIO(text.getvalue())))
    assert head == table.columns
    assert found == [["[4, 4]", repr(0.1 + 0.2), "true", ""], ["[6, 6]", "", "", "a, b"]]


def test_as_arrays_by_the_keys_of_the_grid() -> None:
    keys = [{"model.shape": [n, n], "sample.n_sweeps": 10 * n, "model.seed": s} for n in (4, 6) for s in range(3)]
    rows: list[Any] = [{"energy": float(k), "n_samples": k, "doubt": None} for k in range(6)]
    axes = [("model.shape", "sample.n_sweeps"), ("model.seed",)]
    found = Table.of(keys, rows, axes).to_xarray()
    assert found["energy"].dims == ("shape", "seed") and found["n_samples"].dtype == np.int64
    assert float(found["energy"].sel(shape="6x6", seed=1)) == 4.0
    assert found["sample.n_sweeps"].values.tolist() == [40, 60]
    lacking = Table.of(keys, [*rows[:4], None, rows[5]], axes).to_xarray()
    assert math.isnan(lacking["energy"].sel(shape="6x6", seed=1)) and math.isnan(lacking["n_samples"][1, 1])
    methods = [{"method": name} for name in ("exact", "tap")]  # a result of the same name
    asked = Table.of(
        [{f"infer.{key}": one for key, one in row.items()} for row in methods], methods, [("infer.method",)]
    )
    assert asked.to_xarray()["method"].dims == ("infer.method",)
    frame = Table.of(keys, rows, axes).to_dataframe()
    assert frame["model.shape"][0] == (4, 4) and frame["energy"].tolist() == list(range(6))


def test_a_small_campaign_end_to_end() -> None:
    sample = {"n_sweeps": 50, "n_chains": 8, "beta": 0.5, "observables": ["overlap"]}
    table = table_of(
        {"model": {"name": "edwards_anderson"}, "sample": sample,
         "grid": {"model.shape": [[3, 3], [4, 4]], "model.seed": {"range": 5}}}
    )  # fmt: skip
    found = table.average("seed")
    assert found["n"].tolist() == [5, 5] and (found["overlap_binder_cumulant_error"] > 0.0).all()
    assert found["spin_glass_susceptibility"] == pytest.approx(np.array([9, 16]) * found["q2"])
