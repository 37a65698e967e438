"""What is shown of a campaign where nothing is said, and how it is printed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fastbm.campaigns.table import Table
from fastbm.campaigns.view import panels, view, with_error

SHAPES = ([4, 4], [6, 6])


def of(keys: list[dict[str, Any]], row: Any) -> Table:
    return Table.of(keys, [row(key) for key in keys])


TEMPERATURES = [f"{name}@{beta}" for name in ("energy", "q2", "q4") for beta in (0.5, 0.9)]
GLASS = of(
    [{"model.shape": shape, "model.seed": k} for shape in SHAPES for k in range(3)],
    lambda key: dict.fromkeys(TEMPERATURES, 1.0 + key["model.seed"]) | {"m2": 1.0, "m2_error": 0.1},
)
FOLDS = of(
    [{"fit.l2": l2, "fit.n_hidden": n, "data.fold": k} for l2 in (0.1, 0.2, 0.3) for n in (8, 16) for k in range(5)],
    lambda key: {"holdout": -key["fit.l2"] * key["fit.n_hidden"] + key["data.fold"]},
)
METHODS = of(
    [{"model.n": n, "compare.beta": b, "model.seed": k} for n in (8, 9) for b in (0.5, 1.0, 2.0) for k in range(2)],
    lambda key: {f"log_z_off@{name}": key["compare.beta"] * scale for name, scale in (("tap", 0.1), ("ais", 0.01))},
)


def test_what_is_not_named_is_chosen() -> None:
    """Temperatures of ladders or the key with the most numbers, methods or the next key, and panels of a third."""
    glass = view(GLASS)
    assert (glass.x, glass.y, glass.group, glass.n) == ("beta", "overlap_binder_cumulant", "shape", 3)
    assert [curve.label for curve in glass.curves] == [(4, 4), (6, 6)] and glass.curves[0].x.tolist() == [0.5, 0.9]
    folds = view(FOLDS)
    assert (folds.x, folds.y, folds.group, folds.n) == ("l2", "holdout", "n_hidden", 5)
    assert folds.curves[1].y.tolist() == pytest.approx([0.4, -1.2, -2.8])
    found = panels(METHODS)
    assert [title for title, _ in found] == ["n = 8", "n = 9"]
    for _, one in found:
        assert (one.x, one.y, one.group, one.n) == ("beta", "log_z_off", "method", 2)
        assert [curve.label for curve in one.curves] == ["tap", "ais"]
    over_n = view(METHODS, x="n", group="beta", y="log_z_off@tap")
    assert [curve.label for curve in over_n.curves] == [0.5, 1.0, 2.0] and over_n.curves[2].x.tolist() == [8, 9]
    assert [curve.y.tolist() for curve in over_n.curves] == [[0.05] * 2, [0.1] * 2, [0.2] * 2]


def test_what_was_measured_at_the_target_alone_is_not_told_of_other_temperatures() -> None:
    assert "m2" in GLASS and "m2" not in GLASS.long("beta")


def test_a_column_whose_errors_nobody_knows_is_printed_without_them() -> None:
    known = of([{"sample.beta": beta} for beta in (0.4, 0.5)], lambda key: {"gamma": 0.25, "gamma_error": None})
    assert view(known).printed()[1] == [["0.4", "0.25"], ["0.5", "0.25"]]
    assert known["gamma_error"].dtype == float


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match=r"say over which key it is drawn: x \(--x\), one of model.shape"):
        view(of([{"model.shape": shape} for shape in SHAPES], lambda key: {"energy": 1.0}))
    with pytest.raises(KeyError, match=r"no column 'btea'\. Did you mean 'beta'"):
        view(METHODS, x="btea")
    with pytest.raises(ValueError, match="no cell yet that is done"):
        view(Table.of([], []), x="beta")


def test_a_table_is_printed_in_eighty_columns() -> None:
    head, lines = panels(METHODS)[0][1].printed()
    assert head == ["beta \\ method", "tap", "ais"] and lines[0] == ["0.5", "0.05", "0.005"]
    many = of([{"fit.l2": l2 / 7.0, "fit.seed": k} for l2 in range(1, 40) for k in range(9)],
              lambda key: {"holdout": key["fit.l2"] + key["fit.seed"] / 70.0})  # fmt: skip
    head, lines = view(many).printed()
    assert head == ["l2", "holdout"] and len(lines) == 20 and lines[0] == ["0.142857", "0.200(15)"]
    wide = of(
        [{"fit.l2": l2, "fit.n_hidden": n} for l2 in range(30) for n in range(20)], lambda key: {"holdout": 1e-9 / 7.0}
    )
    head, lines = view(wide).printed()
    assert head[0] == "l2 \\ n_hidden" and head[1] == "0" and head[-1] == "19"
    assert max(sum(map(len, line)) + len(line) - 1 for line in (head, *lines)) <= 80


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.6523, 0.0312, "0.65(3)"), (0.6523, 0.0142, "0.652(14)"), (12.34, 1.6, "12.3(1.6)"), (12.34, 4.6, "12(5)"),
        (1234.0, 52.0, "1234(52)"), (0.5, 0.0, "0.5"), (0.5, math.nan, "0.5"), (math.nan, 1.0, "-"),
        (2.0, 0.996, "2.0(1.0)"), (0.2, 0.0996, "0.20(10)"), (1e-9, 1e-10, "1e-09"),
    ],
)  # fmt: skip
def test_errors_stand_in_the_last_digits(value: float, error: float, text: str) -> None:
    assert with_error(value, error) == text
