"""The house: imports point down, one door to the compiler, short files."""

from __future__ import annotations

import ast
import fnmatch
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fastbm"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))

FLOORS = [
    ["_jit.py", "_vectors.py", "_checks.py", "aligned.py", "units.py", "threads.py", "halting.py", "stopwatch.py"],
    ["kernels/*", "rng.py", "rows.py", "spool.py"],
    ["couplings/*", "clamping.py", "model.py", "model_checks.py", "modelfile.py", "magnitude.py"],
    ["store/*", "diagnostics/*", "models/*", "data.py", "gathering.py", "sources.py", "moments*.py", "lattice.py"],
    ["exact/*"],
    ["sampling/*"],
    ["inference/*", "learning/*"],
    ["run*"],
    ["config*.py", "plots*", "report*.py", "interop/*", "scale.py"],
    ["cli.py"],
]
EXEMPT = ["__init__.py", "__main__.py"]  # the public names of all floors, and the door to the command line
LONGEST = 400  # lines
GENERATORS = {"Generator", "PCG64", "SeedSequence", "default_rng"}  # of numpy.random: none shares a global state


def floor_of(file: str) -> int:
    """The floor of a file, given relative to the package."""
    for floor, patterns in enumerate(FLOORS):
        if any(fnmatch.fnmatchcase(file, pattern) for pattern in patterns):
            return floor
    raise LookupError(
        f"fastbm/{file} stands on no floor: add it to FLOORS in tests/test_architecture.py and to the design."
    )


def parse(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text())


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes, functions' bodies too, but for what is imported for type checkers alone."""
    yield node
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            for other in child.orelse:
                yield from walk(other)
        else:
            yield from walk(child)


def imported_modules(tree: ast.AST, file: str) -> list[str]:
    """Dotted names of what a file imports; `from a import b` gives a and a.b, as b may be a module."""
    package = ["fastbm", *file.split("/")[:-1]]
    names = []
    for node in walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            names += [source, *(f"{source}.{alias.name}" for alias in node.names)]
    return names


def file_of(module: str) -> str | None:
    """The file of a module of fastbm, None for anything else (a name inside a module, or another package)."""
    inner = module.split(".")
    if inner[0] != "fastbm":
        return None
    path = "/".join(inner[1:])
    for candidate in (f"{path}.py", f"{path}/__init__.py".lstrip("/")):
        if (PACKAGE / candidate).is_file():
            return candidate
    return None


def imports_of(file: str) -> set[str]:
    """Files of fastbm that a file imports."""
    found = {file_of(module) for module in imported_modules(parse(file), file)}
    return {path for path in found if path is not None and path not in EXEMPT}


@pytest.mark.parametrize("file", [file for file in FILES if file not in EXEMPT])
def test_imports_point_down(file):
    floor = floor_of(file)
    above = {path: floor_of(path) for path in imports_of(file) if floor_of(path) > floor}
    assert not above, f"fastbm/{file} (floor {floor}) imports from higher floors: {above}"


def test_imports_are_read_wherever_they_stand():
    source = """
import fastbm._base.rng
from . import threads, _checks
from ..couplings import Dense as D
from fastbm.kernels.sampling import dense
if TYPE_CHECKING:
    from .cli import main
def late():
    from ..store.schema import names
"""
    found = {file_of(module) for module in imported_modules(ast.parse(source), "sampling/chains.py")}
    assert {"rng.py", "couplings/__init__.py", "kernels/dense.py"} <= found
    names = imported_modules(ast.parse(source), "sampling/chains.py")
    assert {"fastbm.sampling.threads", "fastbm.machine.couplings.Dense", "fastbm.store.schema"} <= set(names)
    assert not any("cli" in name for name in names)


def test_a_file_on_no_floor_is_told_to_be_added():
    with pytest.raises(LookupError, match=r"fastbm/elsewhere\.py stands on no floor: add it to FLOORS"):
        floor_of("elsewhere.py")


@pytest.mark.parametrize("file", [file for file in FILES if file != "_jit.py"])
def test_only_one_door_to_the_compiler(file):
    assert not [name for name in imported_modules(parse(file), file) if name.split(".")[0] in ("numba", "llvmlite")]


@pytest.mark.parametrize("file", [file for file in FILES if file != "_checks.py"])
def test_warnings_go_through_the_helper_that_finds_the_users_line(file):
    assert not [node for node in ast.walk(parse(file)) if ast.unparse(node) == "warnings.warn"]


@pytest.mark.parametrize("file", FILES)
def test_files_are_short(file):
    assert len((PACKAGE / file).read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("file", FILES)
def test_no_fast_math_and_no_global_random_numbers(file):
    for node in ast.walk(parse(file)):
        assert not (isinstance(node, ast.keyword) and node.arg == "fastmath"), f"line {node.value.lineno}"
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random"):
            assert node.attr in GENERATORS, f"line {node.lineno}: numpy.random.{node.attr} uses a global state"


def test_the_compiler_is_asked_for_no_threads_of_its_own():
    assert not [node for node in ast.walk(parse("_jit.py")) if isinstance(node, ast.keyword) and node.arg == "parallel"]


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("kernels/")])
def test_kernels_import_nothing_but_numpy_and_kernels(file):
    foreign = {name.split(".")[0] for name in imported_modules(parse(file), file)} - {
        "numpy",
        "math",
        "fastbm",
        "__future__",
    }
    assert not foreign
    assert all(path in ("_jit.py", "_vectors.py") or path.startswith("kernels/") for path in imports_of(file))


@pytest.mark.skipif(not (PACKAGE / "__init__.py").exists(), reason="fastbm has no __init__.py")
def test_import_loads_nothing_heavy():
    code = "import sys, fastbm; print(*sorted({'numba', 'llvmlite', 'h5py', 'scipy', 'matplotlib'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == ""
