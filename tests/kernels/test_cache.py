"""Compiled kernels on disk: what makes them compile again, what damage does, and many processes at once."""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock

from fastbm.kernels import cache, jit, spared

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np
from fastbm.kernels.bits import pack_units
packed = np.zeros((9, 2), np.uint8)
pack_units(np.eye(9, dtype=np.uint8), packed)
print(packed.tobytes().hex(), sum(pack_units.stats.cache_misses.values()))
"""


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources of all kernels, in a folder where they may be edited."""
    package = tmp_path / "fastbm" / "kernels"
    shutil.copytree(cache.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "PACKAGE", package)
    forget()
    yield package
    forget()


def forget() -> None:
    cache.called.cache_clear()
    cache._source.cache_clear()
    cache.source_hash.cache_clear()


def touched(package: Path, edited: str) -> set[str]:
    """The files whose kernels compile again after an edit."""
    files = [file for file in package.rglob("*.py") if file.name not in ("__init__.py", "jit.py", "cache.py")]
    forget()
    before = {file: cache.source_hash(file) for file in files}
    with (package / edited).open("a") as file:
        file.write("\n")
    forget()
    return {file.relative_to(package).as_posix() for file in files if cache.source_hash(file) != before[file]}


def test_an_edit_compiles_again_what_calls_it_and_no_more(copied: Path) -> None:
    assert touched(copied, "inference/bethe.py") == {"inference/bethe.py"}
    found = touched(copied, "random.py")
    assert {"random.py", "sampling/limits.py", "sampling/dense.py", "inference/annealing.py"} <= found
    assert "inference/bethe.py" not in found
    assert "inference/annealing.py" in touched(copied, "sampling/limits.py")  # in another folder


def test_all_ways_to_import_are_seen(copied: Path) -> None:
    ways = (
        "from . import leaf",
        "from .leaf import f",
        "from ..sampling.dense import f",
        "from ..sampling import dense",
        "import fastbm.kernels.sampling.dense",
        "from fastbm.kernels.sampling import dense as d",
        "def late():\n    from ..sampling.dense import f",
        "from ..sampling import (  # for )\n    a as b,  # and\n    dense as d,\n)",
        "import numpy, fastbm.kernels.sampling.dense as d",
    )
    (copied / "exact" / "leaf.py").write_text("")
    for way in ways:
        (copied / "exact" / "caller.py").write_text(way + "\n")
        forget()
        called = {file.name for file in cache.called(copied / "exact" / "caller.py")}
        assert called & {"leaf.py", "dense.py"}, way


def run(folder: Path, **environment: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder), **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], text=True, env=env, **pipes)


@pytest.mark.parametrize("numbers", [(2, 1), pytest.param((20, 20, 20), marks=pytest.mark.long)])
def test_processes_side_by_side_on_an_empty_and_on_a_damaged_cache(numbers: tuple[int, ...], tmp_path: Path) -> None:
    damages = (lambda data: data, lambda data: data[:-9] + b"x" * 9, lambda data: b"")
    for n_processes, damage in zip(numbers, damages, strict=False):
        for file in (tmp_path / "kernels").glob("*.code"):
            file.write_bytes(damage(file.read_bytes()))
        children = [run(tmp_path) for _ in range(n_processes)]
        found = [child.communicate(timeout=300) for child in children]
        assert all(child.returncode == 0 for child in children), found
        packed, n_compiled = zip(*(out.split() for out, _ in found), strict=True)
        assert len(set(packed)) == 1, found
        assert sorted(n_compiled) == ["0"] * (n_processes - 1) + ["1"], "one compiles, the others wait for it"
        (code,) = (tmp_path / "kernels").glob("bits.pack_units-*.code")
        assert code.read_bytes().startswith(cache.MAGIC)
    assert (tmp_path / "kernels").stat().st_mode & 0o777 == 0o700


def test_what_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="others own it or may write there"):
        cache.folder_for(str(tmp_path))
    folder.chmod(0o700)
    assert cache.folder_for(str(tmp_path)) == str(folder)
    folder.rmdir()
    folder.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(PermissionError):
        cache.folder_for(str(tmp_path))


class Compiled:
    """What a compiler makes, as far as the cache looks at it."""

    lifted: tuple[()] = ()
    library = type("Library", (), {"has_dynamic_globals": False})


class Target:
    """What code is compiled for."""

    features = "+avx2"

    def refresh(self) -> None:
        pass

    def codegen(self) -> Target:
        return self

    def magic_tuple(self) -> tuple[str, ...]:
        return ("x86_64", "skylake", self.features)


def made_in(folder: Path) -> cache.KernelCache:
    """The cache of a function that lies among the kernels as far as the cache can tell."""
    found = cache.KernelCache(run, str(folder), lambda compiled: pickle.dumps("code"), lambda target, one: one)
    found._source = cache.PACKAGE / "bits.py"
    return found


def test_damage_is_dropped_with_one_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made, target = made_in(tmp_path), Target()
    assert made.load_overload("(int64,)", target) is None
    made.save_overload("(int64,)", Compiled())
    assert made.load_overload("(int64,)", target) == "code"
    other = Target()
    other.features = "+avx512f"
    assert made.load_overload("(int64,)", other) is None  # another processor
    made.leave()
    (file,) = tmp_path.glob("*.code")
    data = file.read_bytes()
    for damaged in (data[:-3] + bytes([data[-3] ^ 1]) + data[-2:], b""):
        file.write_bytes(damaged)
        with caplog.at_level(logging.WARNING, "fastbm"):
            assert made.load_overload("(int64,)", target) is None
        made.leave()
        assert "is damaged" in caplog.text and not file.exists()
        caplog.clear()


def test_a_lock_is_held_until_code_is_saved_and_no_longer(tmp_path: Path) -> None:
    made = made_in(tmp_path)
    for end in (made.leave, lambda: made.save_overload("(int64,)", Compiled())):
        assert made.load_overload("(int64,)", Target()) is None
        with Path(made._lock).open("w") as file:
            with pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end()
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_compiling_is_announced_once_where_somebody_looks_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache._print_once.cache_clear()
    cache._announce()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with cache.silent(True):
        cache._announce()
    assert capsys.readouterr().err == ""
    with cache.silent(False):
        cache._announce()
    cache._announce()
    assert capsys.readouterr().err.count("compiling kernels, once: about 5 s") == 1


PARTS = """
import numpy as np, numba
from fastbm.kernels import functions, jit
from fastbm.kernels.functions import multiply_exponentials

@numba.njit
def of_a_user(x):
    return functions.exp_float64(x) + np.ones(2).sum()

def loop():
    values = np.ones((2, 3))
    multiply_exponentials(values, np.ones((2, 3)), 0.0)
    return values[0, 0]

calls = {"python": lambda: functions.exp_float64(1.0), "kernel": loop, "user": lambda: of_a_user(1.0) - 2.0}
print(*[float(calls[name]()).hex() for name in %r], jit.n_compiled() > 0)
"""


@pytest.mark.slow
def test_a_function_is_the_same_called_by_python_by_a_kernel_and_by_a_user(tmp_path: Path) -> None:
    found = set()
    for k, order in enumerate(itertools.permutations(("python", "kernel", "user"))):
        for _ in range(2):  # compiled, and from the cache
            env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / str(k))}
            program = [sys.executable, "-c", PARTS % (order,)]
            *numbers, _ = subprocess.run(program, env=env, check=True, capture_output=True, text=True).stdout.split()
            found |= set(numbers)
    assert len(found) == 1


PART = """
import numpy as np
from fastbm.kernels.exact.blocks import form_blocks, tabulate_energies
rises, fields = np.zeros((3, 3), np.int64), np.arange(3)
form_blocks(rises, fields, (1, 1, 1))
print(tabulate_energies(rises, fields, np.int64(0), 3).tolist())
"""


@pytest.mark.slow
def test_a_part_of_another_kernel_returns_arrays_to_python(tmp_path: Path) -> None:
    """What the call alone needs to know is there too where the part was compiled, or loaded, before it."""
    for _ in range(2):
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", PART], env=env, capture_output=True, text=True, timeout=240)
        assert done.stdout.split("\n")[0] == "[0, 0, -1, -1, -2, -2, -3, -3]", done.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_while_machine_code_is_made_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "CACHE_FOLDER", None)

    @jit.kernel
    def double(x):
        return 2 * x

    with monkeypatch.context() as patch:
        # what LLVM's call back sets, from which nothing gets through
        patch.setattr(JITCodeLibrary, "_compiled", property(lambda library: False, interrupt), raising=False)
        with pytest.raises(KeyboardInterrupt):
            double(3)
    assert double(3) == 6


class Stubborn:
    """Is interrupted while an attribute is set."""

    def __setattr__(self, name: str, value: object) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("owner", [Stubborn(), SimpleNamespace()])
def test_an_interrupt_leaves_numba_as_it_was(owner: object) -> None:
    usual = [getattr(of, name) for of, name, _ in spared._REPLACED]

    def compile_anew() -> None:
        assert all(getattr(of, name) is not was for (of, name, _), was in zip(spared._REPLACED, usual, strict=True))
        assert owner.own
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spared.spared(compile_anew, ((owner, "own", 1),))
    assert [getattr(of, name) for of, name, _ in spared._REPLACED] == usual
    assert not vars(owner)


def test_a_thread_that_waits_for_a_kernel_is_told_how_long_its_function_takes_to_compile() -> None:
    waits = threading.Event()
    plain = numba.njit(lambda x: x + 1)
    numba.njit(lambda x: x - 1)(1)  # Numba makes itself ready under its lock

    def compile_anew() -> None:
        thread.start()
        waits.wait(20.0)

    def compile_plain() -> None:
        with event.install_listener("numba:compiler_lock", Told(waits)):
            plain(1)

    thread = threading.Thread(target=compile_plain)
    with global_compiler_lock:
        spared.spared(compile_anew, ())
    thread.join()
    assert set(plain.get_metadata(plain.signatures[0])["timers"]) == {"compiler_lock", "llvm_lock"}


class Told(event.Listener):
    """Sets what waits when it is told of a start."""

    def __init__(self, waits: threading.Event) -> None:
        self.waits = waits

    def on_start(self, event: object) -> None:
        self.waits.set()

    def on_end(self, event: object) -> None: ...


def interrupt(library: object, value: bool) -> None:
    if value:
        raise KeyboardInterrupt
