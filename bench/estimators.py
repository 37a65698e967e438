"""Turn the run of runs/estimators.toml into a Markdown table: how far each method is off, and whether to trust it.

fastbm compare runs/estimators.toml
python bench/estimators.py runs/out/estimators.h5 [--readme docs/methods.md]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import fastbm as bm

if __package__:
    from .report import replace_block
else:
    from report import replace_block

BEGIN, END = "<!-- estimators:begin -->", "<!-- estimators:end -->"


def table(comparison: bm.Comparison) -> str:
    """One row for each method: medians of the errors on each kind of machine, then what all cells say together."""
    rows = comparison.table
    kinds = list(dict.fromkeys(_kind(row["model"]) for row in rows))
    together = {row["method"]: row for row in comparison.summary(("method",))}
    head = ["method", *kinds, "z", "covered", "bounds", "means", "covariances", "seconds"]
    lines = [head, ["---", *["--:"] * (len(head) - 1)]]
    for method, row in together.items():
        off = [_median(rows, method, kind) for kind in kinds]
        rest = [_number(row["z"]), *(_part(row[name]) for name in ("covered", "bounds_kept"))]
        rest += [_number(row[name]) for name in ("mean_off", "covariance_off", "seconds")]
        lines.append([f"`{method}`", *off, *rest])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _kind(model: str) -> str:
    return model.partition(",")[0]


def _median(rows: list[dict[str, Any]], method: str, kind: str) -> str:
    found = [row for row in rows if row["method"] == method and _kind(row["model"]) == kind]
    off = [row["log_z_off"] if row["corrected_off"] is None else row["corrected_off"] for row in found]
    known = [abs(value) for value in off if value is not None]
    return _number(float(np.median(known))) if known else "–"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return "0" if value < 1e-9 else f"{value:.2g}"


def _part(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or write it into a file that has a place for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--readme", type=Path, help="replace the block between the markers of this file")
    options = parser.parse_args(arguments)
    block = table(bm.open(options.run).comparison)
    if options.readme is None:
        print(block)
    else:
        options.readme.write_text(replace_block(options.readme.read_text(), block, BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(main())
