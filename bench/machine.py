"""What the figures were measured on, and how many threads can be had there."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy  # noqa: F401  (loaded so that its BLAS is seen)
import pytest
import scipy.linalg  # noqa: F401
from threadpoolctl import threadpool_info

from fastbm import __version__
from fastbm._base.threads import available

PACKAGES = ("numpy", "scipy", "numba", "h5py", "openjij", "dwave-samplers", "peapods", "mcising", "scikit-learn", "jax")
TWO_CORES = pytest.mark.skipif(available() < 2, reason="needs two processors")
THREADS = [1, pytest.param(2, marks=TWO_CORES)]


def installed(module: str) -> Any:
    """A mark that skips a peer that is not installed."""
    return pytest.mark.skipif(find_spec(module.partition(".")[0]) is None, reason=f"{module} is not installed")


def describe(cpu: str) -> dict[str, Any]:
    """Processor, versions, BLAS and load at the start, for the record of a run."""
    return {
        "cpu": cpu,
        "cores": available(),
        "versions": {"python": platform.python_version(), "fastbm": __version__} | _versions(),
        "blas": sorted({_library(entry) for entry in threadpool_info() if entry["user_api"] == "blas"}),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", ""),
        "load": os.getloadavg()[0],
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _library(entry: dict[str, Any]) -> str:
    return f"{entry['internal_api']} {entry['version']} ({entry.get('architecture', 'unknown')})"
