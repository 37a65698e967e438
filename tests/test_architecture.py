"""The house: packages on floors, imports that point down, no circles, one door to the compiler, short files.

    pytest tests/test_architecture.py -s

prints its figures, so that a change can be compared with the last.
"""

from __future__ import annotations

import ast
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fastbm"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))

# packages of one row do not import each other
FLOORS = [
    ("_base",),
    ("kernels",),
    ("machine", "store", "diagnostics"),
    ("data", "models", "exact"),
    ("sampling",),
    ("inference",),
    ("learning",),
    ("runs",),
    ("campaigns",),
    ("report", "dimod", "sklearn.py"),
    ("cli",),
    ("__init__.py", "__main__.py"),
]
FLOOR = {name: k for k, row in enumerate(FLOORS) for name in row}
LONGEST = 400  # lines
LONGEST_CHAIN = 50  # files, each importing the next
MOST_AT_THE_TOP = 19  # the last two are doors to other packages
BY_NAME = {  # files that import by a name that is no literal, and what for
    "__init__.py": "public names, when they are used",
    "_base/late.py": "public names that methods of results reach, when they are drawn",
    "data/__init__.py": "public names, when they are used",
    "exact/choice.py": "engines, when one is needed",
    "inference/ais/path.py": "engines, when one is needed",
    "inference/tempering/log_ratios.py": "pymbar, which is optional",
    "runs/spec.py": "kinds of runs, when a spec names one",
    "sampling/exact.py": "engines, when one is needed",
    "store/apart.py": "what a process of its own is to call",
}
GENERATORS = {"Generator", "PCG64", "SeedSequence", "default_rng"}  # of numpy.random: none shares a global state
DOORS = {"kernels/jit.py", "kernels/passes.py", "kernels/spared.py"}  # to the compiler
COMPILED = {"apart", "apart_borrowing", "borrowing", "inlined", "kernel"}  # decorators of `fastbm.kernels.jit`


@cache
def parse(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text())


@cache
def nodes(file: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parse(file)))


@cache
def imported_modules(tree: ast.AST, file: str) -> list[str]:
    """Dotted names of what a file imports, wherever it does so: in functions, and for type checkers alone, too.

    `from a import b` gives a.b where that is a module, else a.
    """
    package = ["fastbm", *file.split("/")[:-1]]
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                names.append(inner if file_of(inner) else source)
    return names


@cache
def file_of(module: str) -> str | None:
    """The file of a module of fastbm, None for anything else (a name inside a module, or another package)."""
    inner = module.split(".")
    if inner[0] != "fastbm":
        return None
    path = "/".join(inner[1:])
    for candidate in (f"{path}.py", f"{path}/__init__.py".lstrip("/")):
        if candidate in FILES:
            return candidate
    return None


@cache
def imports_of(file: str) -> frozenset[str]:
    """Files of fastbm that a file imports."""
    found = {file_of(module) for module in imported_modules(parse(file), file)}
    return frozenset(path for path in found if path is not None and path != file)


def floor_of(file: str) -> int:
    """The floor of a file, given relative to the package."""
    top = file.split("/")[0]
    if top not in FLOOR:
        raise LookupError(f"fastbm/{top} stands on no floor: add it to FLOORS in tests/test_architecture.py.")
    return FLOOR[top]


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Sets of nodes that can be come to from each other."""
    reach = {node: descend(arrows, node) for node in arrows}
    found: list[set[str]] = []
    for node in arrows:
        circle = {other for other in reach[node] if node in reach[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def descend(arrows: dict[str, set[str]], start: str) -> set[str]:
    """All that can be come to from a node."""
    seen: set[str] = set()
    waiting = list(arrows[start])
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += arrows[node]
    return seen


def arrows_of_files() -> dict[str, set[str]]:
    return {file: set(imports_of(file)) for file in FILES}


def arrows_of_folders(package: str) -> dict[str, set[str]]:
    """The folders and files at the top of a package, and which of them import which."""
    found: dict[str, set[str]] = {}
    for file in FILES:
        if not file.startswith(package + "/") or file.endswith("__init__.py"):
            continue
        here = file.split("/")[1]
        others = {other.split("/")[1] for other in imports_of(file) if other.startswith(package + "/")}
        found.setdefault(here, set()).update(others - {here, "__init__.py"})
    for other in {name for names in found.values() for name in names} - set(found):
        found[other] = set()
    return found


def chain_lengths(arrows: dict[str, set[str]]) -> dict[str, int]:
    """How many files stand below each in the longest chain, itself included."""

    @cache
    def length(file: str) -> int:
        return 1 + max((length(other) for other in arrows[file]), default=0)

    return {file: length(file) for file in arrows}


def test_imports_point_down() -> None:
    wrong = []
    for file in FILES:
        top, floor = file.split("/")[0], floor_of(file)
        for other in imports_of(file) - {"__init__.py"}:  # where the version stands
            if floor_of(other) > floor or (floor_of(other) == floor and other.split("/")[0] != top):
                wrong.append(f"fastbm/{file} imports fastbm/{other}, which does not stand below it")
    assert not wrong, "\n".join(wrong)


def test_there_are_no_circles() -> None:
    assert not circles(arrows_of_files())
    packages = {file.split("/")[0] for file in FILES if "/" in file}
    assert not {package: found for package in packages if (found := circles(arrows_of_folders(package)))}


def test_circles_are_found() -> None:
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}
    assert circles(arrows) == [{"a", "b", "c"}]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_imports_are_read_wherever_they_stand() -> None:
    source = """
import fastbm._base.rng
from .engine import layered, fixed_point
from ..machine.couplings import Dense as D
if TYPE_CHECKING:
    from ..cli import main
def late():
    from ..store.schema import names
"""
    found = {file_of(module) for module in imported_modules(ast.parse(source), "sampling/chains.py")}
    assert found == {
        "_base/rng.py", "sampling/engine/layered.py", "sampling/engine/fixed_point.py",
        "machine/couplings/__init__.py", "cli/__init__.py", "store/schema.py",
    }  # fmt: skip


def test_a_file_on_no_floor_is_told_to_be_added() -> None:
    with pytest.raises(LookupError, match=r"fastbm/elsewhere\.py stands on no floor: add it to FLOORS"):
        floor_of("elsewhere.py")


def test_nothing_below_runs_knows_the_store_or_a_run() -> None:
    lower = [file for file in FILES if floor_of(file) < FLOOR["runs"] and not file.startswith("store/")]
    assert not {file: found for file in lower if (found := {f for f in imports_of(file) if f.startswith("store/")})}


def test_imports_by_name_are_few() -> None:
    found = {file for file in FILES if "importlib" in {m.split(".")[0] for m in imported_modules(parse(file), file)}}
    by_metadata = {file for file in found if "importlib.import_module" not in (PACKAGE / file).read_text()}
    assert found - by_metadata == set(BY_NAME)


def test_only_one_door_to_the_compiler() -> None:
    for file in set(FILES) - DOORS:
        compiler = [m for m in imported_modules(parse(file), file) if m.split(".")[0] in ("numba", "llvmlite")]
        assert not compiler, f"fastbm/{file} imports {compiler[0]}"


def test_warnings_go_through_the_helper_that_finds_the_users_line() -> None:
    for file in FILES:
        attributes = [node for node in nodes(file) if isinstance(node, ast.Attribute) and node.attr == "warn"]
        warned = [node for node in attributes if ast.unparse(node) == "warnings.warn"]
        assert file == "_base/checks.py" or not warned, f"fastbm/{file} warns by itself"


def test_files_are_short_and_few_stand_at_the_top() -> None:
    assert {file: n for file in FILES if (n := n_lines(file)) > LONGEST} == {}
    assert len({file.split("/")[0] for file in FILES}) <= MOST_AT_THE_TOP


def n_lines(file: str) -> int:
    return len((PACKAGE / file).read_text().splitlines())


def test_no_fast_math_and_no_global_random_numbers() -> None:
    for file in FILES:
        for node in nodes(file):
            assert not (isinstance(node, ast.keyword) and node.arg == "fastmath"), f"{file}: {node.value.lineno}"
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random"):
                assert node.attr in GENERATORS, f"{file}: {node.lineno}: numpy.random.{node.attr} has a global state"


def test_the_compiler_is_asked_for_no_threads_of_its_own() -> None:
    for door in DOORS:
        assert not [node for node in nodes(door) if isinstance(node, ast.keyword) and node.arg == "parallel"]


def test_kernels_whose_names_begin_with_an_underscore_are_called_by_kernels_alone() -> None:
    """They have no wrapper through which Python could call them (`fastbm.kernels.jit`)."""
    for file in FILES:
        if file.startswith("kernels/"):
            compiled = [
                node
                for node in nodes(file)
                if isinstance(node, ast.FunctionDef)
                and COMPILED & {getattr(one, "id", "") for one in node.decorator_list}
            ]
            private = {node.name for node in compiled if node.name.startswith("_")}
            inside = {id(part) for node in compiled for part in ast.walk(node)}
            named = [node for node in nodes(file) if isinstance(node, ast.Name) and node.id in private]
            assert not [f"{file}:{node.lineno} {node.id}" for node in named if id(node) not in inside]
        else:
            assert not re.search(r"from [\w.]*kernels[\w.]* import [^\n]*\b_[a-z]", (PACKAGE / file).read_text()), file


def test_kernels_import_nothing_but_numpy_and_kernels() -> None:
    names = ("ahead", "barrier", "cache", "groups", "listeners", "patterns", "stopwatch", "vectors")
    tools = {*DOORS, *(f"kernels/{name}.py" for name in names)}
    for file in FILES:
        if not file.startswith("kernels/") or file in tools:
            continue
        foreign = {name.split(".")[0] for name in imported_modules(parse(file), file)}
        assert foreign <= {"numpy", "math", "fastbm", "__future__", "collections", "typing"}, file
        assert all(other.startswith("kernels/") for other in imports_of(file)), file


def test_import_loads_nothing_heavy() -> None:
    code = "import sys, fastbm; print(*sorted({'numba', 'llvmlite', 'h5py', 'scipy', 'matplotlib'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == ""


def parameters(files: Iterable[str]) -> dict[str, int]:
    """How many parameters each function has."""
    found = {}
    for file in files:
        for node in nodes(file):
            if isinstance(node, ast.FunctionDef):
                arguments = node.args
                found[f"{file}: {node.name}"] = len(arguments.args + arguments.kwonlyargs + arguments.posonlyargs)
    return found


def test_the_figures() -> None:
    """The longest chain is bounded; the rest is printed, not aimed at."""
    files = [file for file in FILES if not file.endswith("__init__.py")]
    lines, chains, wide = [n_lines(file) for file in files], chain_lengths(arrows_of_files()), parameters(FILES)
    widest = max(wide, key=wide.__getitem__)
    print(
        f"\nfiles {len(files)}, lines {sum(lines)}, median {statistics.median(lines):.0f}, largest {max(lines)}, "
        f"below 60 lines {sum(n < 60 for n in lines)}"
        f"\nat the top {len({file.split('/')[0] for file in FILES})}, floors {len(FLOORS)}, circles 0"
        f"\nlongest chain of imports {max(chains.values())}"
        f"\nwidest function {widest}, {wide[widest]} parameters"
    )
    assert max(chains.values()) <= LONGEST_CHAIN


def test_modules_that_docstrings_name_are_there() -> None:
    """`fastbm.a.b` is a module, or a name of one."""
    wrong = []
    for file in FILES:
        for name in set(re.findall(r"`(fastbm(?:\.\w+)+)`", (PACKAGE / file).read_text())):
            module, _, last = name.rpartition(".")
            holder = file_of(module)
            if not file_of(name) and (holder is None or not re.search(rf"\b{last}\b", (PACKAGE / holder).read_text())):
                wrong.append(f"fastbm/{file} names {name}")
    assert not wrong, "\n".join(wrong)


PATH_OF_A_SAMPLE = """
import sys, traceback
import fastbm as bm
from fastbm.sampling.engine import dense
machine = bm.models.curie_weiss(100)
bm.sample(machine, n_sweeps=2, n_chains=16)
print(sum(name.startswith("fastbm") for name in sys.modules))
for table in [vars(dense), *(one for one in vars(dense).values() if isinstance(one, dict))]:
    for name, kernel in list(table.items()):
        if getattr(kernel, "__name__", "").startswith("record_"):
            def spy(*arguments, kernel=kernel):
                print(sum("fastbm" in frame.filename for frame in traceback.extract_stack()))
                return kernel(*arguments)
            table[name] = spy
bm.sample(machine, n_sweeps=1, n_chains=16, burn_in=0, threads=1)
"""


def test_a_sample_is_few_modules_and_few_frames_away() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PATH_OF_A_SAMPLE], capture_output=True, text=True, env=environment, check=True
    )
    n_modules, n_frames = map(int, done.stdout.split())
    print(f"\nmodules that sample loads {n_modules}, frames from sample to its kernel {n_frames}")
    assert n_modules <= 182 and n_frames <= 11
