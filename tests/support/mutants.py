"""Package with one random change each, and whether the mirrored tests of the changed file turn red.

``python -m tests.support.mutants --n 200 --seed 0 --out before.csv`` draws mutants and judges them;
``--again before.csv --out after.csv`` judges the same ones with the tests of today. The work tree is never touched.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLOORS = ("kernels", "inference", "learning", "store", "sampling")
SECONDS = 600.0  # for the tests of a mutant; what hangs is caught
BROAD = {  # for files that have no tests of their name
    "store": ("round_trip", "resume", "commits", "merge", "verify", "places"),
    "inference": ("methods", "auto", "witness", "comparison"),
    "learning": ("runs", "gradients", "phases", "outcomes", "options"),
    "sampling": ("settings", "rules", "tempering", "annealing", "observables", "best"),
    "kernels": ("dense", "sparse", "random", "functions"),
}
OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Pow: ast.Mult,
    ast.BitXor: ast.BitOr, ast.And: ast.Or, ast.Or: ast.And, ast.USub: ast.UAdd,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    file: str  # below the package
    line: int
    column: int
    kind: str  # operator, comparison, constant or statement
    was: str
    now: str


def sites(file: str, source: str) -> list[Mutant]:
    """List every change that can be made to a file, in the order of its lines."""
    found, code = [], source.encode()
    starts = [0, *itertools.accumulate(len(line) for line in code.splitlines(keepends=True))]
    for node in _code(ast.parse(source)):
        for kind, other in _changes(node):
            was = code[starts[node.lineno - 1] + node.col_offset : starts[node.end_lineno - 1] + node.end_col_offset]
            now = "pass" if other is None else f"({ast.unparse(other)})"
            found.append(Mutant(file, node.lineno, node.col_offset, kind, was.decode(), now))
    return sorted(found, key=lambda one: (one.line, one.column, one.kind, one.now))


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """What runs: no annotations, imports, docstrings, texts with values, or what is raised."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.JoinedStr | ast.Raise):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Import | ast.ImportFrom):
                yield from _code(child)


def _changes(node: ast.AST) -> list[tuple[str, ast.AST | None]]:
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.AugAssign) and type(node.op) in OPERATORS:
        other = copy.copy(node)
        other.op = OPERATORS[type(node.op)]()
        return [("statement", None)] if isinstance(node, ast.AugAssign) else [("operator", other)]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        other = copy.copy(node)
        other.ops = [OPERATORS[type(node.ops[0])](), *node.ops[1:]]
        return [("comparison", other)]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        return [("constant", ast.Constant(value))]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return [("statement", None)]
    return []


def drawn(n: int, seed: int) -> list[Mutant]:
    """Draw mutants, as many from each floor, any change of a floor as likely as any other."""
    chance = random.Random(seed)
    all_of = {}
    for floor in FLOORS:
        files = sorted((ROOT / "fastbm" / floor).rglob("*.py"))
        all_of[floor] = [
            one for file in files for one in sites(str(file.relative_to(ROOT / "fastbm")), file.read_text())
        ]
    picked = [chance.sample(all_of[floor], -(-n // len(FLOORS))) for floor in FLOORS]
    return [one for row in zip(*picked, strict=True) for one in row][:n]


def mirrored(file: str) -> list[str]:
    """Find the tests of a file: those named after it, its first word or its folders, or what a kernel serves.

    Where there are none, these are broad ones.
    """
    floor, *parts = Path(file).with_suffix("").parts
    folders = [ROOT / "tests" / name for name in (floor, parts[0])]
    names = {f"test_{part}*.py" for part in parts} | {f"test_{parts[-1].split('_')[0]}.py"}
    found = {path for folder in folders for name in names for path in folder.rglob(name)}
    deeper = folders[0].joinpath(*parts[:-1])
    if deeper != folders[0] and deeper.is_dir():
        found |= set(deeper.glob("test_*.py"))
    found = found or {folders[0] / f"test_{name}.py" for name in BROAD[floor]}
    return sorted(str(path.relative_to(ROOT)) for path in found)


def judge(mutant: Mutant, scratch: Path) -> tuple[str, str]:
    """Return killed, timeout or survived, and the test that was red."""
    path = scratch / "fastbm" / mutant.file
    source = path.read_text()
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: mutant.line - 1])) + mutant.column
    was, whole = mutant.was.encode(), source.encode()
    assert whole[start : start + len(was)] == was, f"{mutant.file}:{mutant.line} is no longer {mutant.was}"
    path.write_bytes(whole[:start] + mutant.now.encode() + whole[start + len(was) :])
    try:
        return _outcome(mirrored(mutant.file), scratch)
    finally:
        path.write_text(source)


def _outcome(tests: list[str], scratch: Path) -> tuple[str, str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(scratch), "NUMBA_CACHE_DIR": str(scratch / "kernels")}
    with open(scratch / "told.txt", "wb") as told:
        child = subprocess.Popen(
            command, cwd=scratch, env=environment, stdout=told, stderr=told, start_new_session=True
        )
        try:
            code = child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return "timeout", ""
    red = [line for line in (scratch / "told.txt").read_text().splitlines() if line.startswith(("FAILED", "ERROR"))]
    return ("killed", (red or [f"exit code {code}"])[0].split(" - ")[0]) if code else ("survived", "")


def make_scratch(folder: Path) -> None:
    """Copy what tests need, and the kernels that are compiled already."""
    for name in ("fastbm", "tests", "docs", "bench"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*ROOT.glob("*.md"), ROOT / "pyproject.toml"]:
        shutil.copy(path, folder)
    warm = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "fastbm", "kernels")
    if warm.is_dir():
        shutil.copytree(warm, folder / "kernels" / "kernels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    mutants = drawn(options.n, options.seed)
    if options.again:
        with options.again.open(newline="") as file:
            rows = list(csv.DictReader(file))
        mutants = [Mutant(r["file"], int(r["line"]), int(r["column"]), r["kind"], r["was"], r["now"]) for r in rows]
    with tempfile.TemporaryDirectory() as folder, options.out.open("w", newline="") as file:
        make_scratch(Path(folder))
        table = csv.DictWriter(file, [*Mutant.__dataclass_fields__, "outcome", "by", "seconds"])
        table.writeheader()
        for mutant in mutants:
            since = time.monotonic()
            outcome, by = judge(mutant, Path(folder))
            seconds = round(time.monotonic() - since)
            table.writerow({**asdict(mutant), "outcome": outcome, "by": by, "seconds": seconds})
            file.flush()


if __name__ == "__main__":
    main()
