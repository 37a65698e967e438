"""The one door to numba: every compiled function of fastbm is decorated here.

Compiled code is cached in a folder of fastbm's own, keyed by a hash of all kernel sources: numba's cache does not see
an edit in another file that a kernel calls, and a hash of all of them does. Where no folder can be written the kernels
are compiled anew in every process, after one warning.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, config as _config, types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

# what code that no loop compiles to is made of; see `fastbm._vectors`
__all__ = ["cgutils", "config", "get_host_cpu_features", "inlined", "intrinsic", "ir", "kernel", "types"]

_HERE = Path(__file__).parent


config: Any = _config  # its settings are made when numba loads, so that type checkers do not see them


def _source_hash() -> str:
    digest = hashlib.sha256()
    for path in [Path(__file__), _HERE / "_vectors.py", *sorted((_HERE / "kernels").glob("*.py"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> str | None:
    """Return a folder that can be written, or None after a warning."""
    root = config.CACHE_DIR or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "fastbm"
    )
    folder = os.path.join(root, f"kernels-{_source_hash()}")
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        warnings.warn(
            f"fastbm cannot cache compiled kernels in {folder} ({error.strerror}): every process compiles them anew. "
            "Set NUMBA_CACHE_DIR to a folder that can be written.",
            stacklevel=2,
        )
        return None


CACHE_FOLDER = _cache_folder()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call: without the interpreter lock, cached, with C's rules for division by
    zero.
    """
    return _compile(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels that is always inlined: a call that stays keeps the loop around it from being vector
    code.
    """
    return _compile(function, forceinline=True)


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    before = config.CACHE_DIR
    config.CACHE_DIR = CACHE_FOLDER or before
    try:
        return numba.njit(nogil=True, cache=CACHE_FOLDER is not None, error_model="numpy", **options)(function)
    finally:
        config.CACHE_DIR = before
