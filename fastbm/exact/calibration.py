"""How fast this machine does exact sums, measured once and kept beside the compiled kernels.

Each speed is the built-in one times what a small sum took over what was forecast for it.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .._base.threads import single_threaded_blas
from ..kernels import jit
from ..kernels.cache import source_hash
from ..machine.machine import BoltzmannMachine
from .choice import BUILT_IN, FARTHEST, Limits, Request
from .plan import Speeds, Wanted

PRODUCT_SIZE = 1024


@cache
def measured() -> Speeds:
    """Return the speeds of this machine, from the file that keeps them or measured (about a third of a second)."""
    known = _read()
    if (found := _checked(known.get(_key()))) is not None:
        return found
    speeds = measure()
    _write({**known, _key(): asdict(speeds)})
    return speeds


def measure() -> Speeds:
    """Time a matrix product and a small sum of each engine, each after a first time that does not count."""
    generator = np.random.default_rng(0)
    dense = generator.normal(scale=0.2, size=(18, 18))
    lattice = np.zeros((144, 144))
    lattice[np.arange(143), np.arange(1, 144)] = lattice[np.arange(132), np.arange(12, 144)] = 0.4
    layers = BoltzmannMachine([generator.normal(scale=0.1, size=(256, 16))])
    sums = {
        "gray_state": ("gray", BoltzmannMachine(np.triu(dense, 1) + np.triu(dense, 1).T), True),
        "layer_term": ("layers", layers, False),
        "message_entry": ("elimination", BoltzmannMachine(lattice + lattice.T), False),
    }
    found = {name: getattr(BUILT_IN, name) * _slowness(*sums[name]) for name in sums}
    product = _product_seconds(generator) / PRODUCT_SIZE**3
    return replace(BUILT_IN, product_term=product, **{name: _within(name, value) for name, value in found.items()})


def _slowness(engine: str, model: BoltzmannMachine, moments: bool) -> float:
    """Return the ratio of the time that a sum takes to its forecast."""
    request = Request(model, 1.0, lambda engine: Wanted(moments, moments), Limits(), 1)
    planned = request.plan(engine)
    return _shortest(lambda: [planned.piece(k, 1) for k in range(planned.n_pieces)]) / planned.forecast.seconds


def _product_seconds(generator: np.random.Generator) -> float:
    factor, product = generator.random((2, PRODUCT_SIZE, PRODUCT_SIZE)), np.empty((PRODUCT_SIZE, PRODUCT_SIZE))
    with single_threaded_blas():
        return _shortest(lambda: np.matmul(factor[0], factor[1], out=product))


def _shortest(function: Callable[[], object]) -> float:
    """Return the shorter of two times, after one that loads code."""
    function()
    times = []
    for _ in range(2):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def _within(name: str, value: float) -> float:
    usual = getattr(BUILT_IN, name)
    return float(min(max(value, usual / FARTHEST), usual * FARTHEST))


def _key() -> str:
    """Return the processor, and the versions that decide what code it runs."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    return f"{processor}, numba {version('numba')}, numpy {np.__version__}, kernels {source_hash()}"


def _file() -> Path | None:
    return Path(jit.CACHE_FOLDER).parent / "speeds.json" if jit.CACHE_FOLDER else None


def _read() -> dict[str, object]:
    """Return what the file holds; nothing where there is none, or it is damaged."""
    path = _file()
    if path is None:
        return {}
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _checked(entry: object) -> Speeds | None:
    """Return the speeds that an entry of the file holds; None if it is not whole."""
    names = [f.name for f in fields(Speeds)]
    if not isinstance(entry, dict) or sorted(entry) != sorted(names):
        return None
    for name, value in entry.items():
        if not isinstance(value, float) or _within(name, value) != value:
            return None
    return Speeds(**entry)


def _write(entries: dict[str, object]) -> None:
    """Keep the speeds; where the file cannot be written they are measured anew in the next process."""
    path = _file()
    if path is None:
        return
    with suppress(OSError):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix="speeds")
        with os.fdopen(handle, "w") as file:
            json.dump(entries, file, indent=1)
        os.replace(name, path)
