"""What this machine has that fastbm's speed and safety depend on, a line each, and what to do where something lacks."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .._base import share
from .._base.system import fcntl
from .._base.threads import blas_libraries, resolve
from ..kernels.jit import CACHE_FOLDER, VECTOR_BITS, config, get_host_cpu_features

SLOW_SYNC = 0.05  # seconds
LITTLE_ROOM = 1e9  # bytes
WIDE_KERNELS = ("SkylakeX", "Cooperlake", "Sapphirerapids", "Zen4")  # of OpenBLAS, that use AVX-512


class Finding(NamedTuple):
    """One line: what was looked at, what was found, and what to do, or that nothing is to be done."""

    name: str
    found: str
    advice: str


def examine(folder: Path) -> list[Finding]:
    """Look at the processor, BLAS, the cache of kernels, and the disk that holds `folder`."""
    return [*_processor(), *_blas(), _threads(), _cache(), *_disk(folder)]


def describe(folder: Path) -> str:
    """Return the findings as text for a terminal of 80 columns, advice below what it is about."""
    lines = []
    for name, found, advice in examine(folder):
        lines += textwrap.wrap(found, 80, initial_indent=f"{name:<11}", subsequent_indent=" " * 11)
        lines += textwrap.wrap(advice, 80, initial_indent=" " * 11 + "-> ", subsequent_indent=" " * 14)
    return "\n".join(lines)


def _processor() -> Iterator[Finding]:
    features = get_host_cpu_features().split(",")
    wide = "+avx512f" in features
    advice = "Without AVX2 kernels give the same numbers at a fraction of the speed."
    if "+avx512vbmi" in features:
        advice = "All kernels have their fastest form here."
    elif wide or "+avx2" in features:
        advice = "All is fast here; chains in bits (lookup) are faster yet with AVX-512 VBMI."
    elif platform.machine().lower() in ("arm64", "aarch64"):
        advice = "Kernels are compiled for it; chains in bits (lookup) are fastest on AVX-512."
    yield Finding("processor", f"{_name_of_processor()}, {os.cpu_count()} threads", advice)
    if config.DISABLE_JIT:
        yield Finding("vectors", "none: NUMBA_DISABLE_JIT is set", "Unset it: without compiler all is slow.")
    elif VECTOR_BITS:
        other = 768 - VECTOR_BITS
        yield Finding(
            "vectors", f"{VECTOR_BITS} bits", f"FASTBM_VECTOR_BITS={other} tells whether {other} are faster here."
        )
    elif config.CPU_FEATURES is not None or config.CPU_NAME is not None:
        yield Finding("vectors", "as NUMBA_CPU_NAME and NUMBA_CPU_FEATURES say", "Unset them, unless for a test.")
    else:
        advice = "FASTBM_VECTOR_BITS=512 in the environment may be faster: try it." if wide else "Nothing to do."
        yield Finding("vectors", "256 bits of 512" if wide else "as wide as the processor has them", advice)


def _name_of_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _blas() -> Iterator[Finding]:
    wide = "+avx512f" in get_host_cpu_features().split(",")
    for library in blas_libraries():
        about = library.info()
        kernels = str(about.get("architecture") or "")
        found = f"{about['internal_api']} {about.get('version') or ''}".strip() + (f", {kernels}" if kernels else "")
        lacks = wide and about["internal_api"] == "openblas" and kernels not in WIDE_KERNELS
        advice = "Its kernels suit the processor."
        if lacks:
            advice = "OPENBLAS_CORETYPE=SkylakeX in the environment may double the speed of products."
        yield Finding("BLAS", found, advice)


def _threads() -> Finding:
    n = resolve(None)
    of = "all processors" if n == os.cpu_count() else f"of {os.cpu_count()}, as affinity, cgroup or SLURM grant them"
    of = "as this is a worker" if share.is_worker() else of
    names = [name for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS") if name in os.environ]
    text = f" ({', '.join(f'{name}={os.environ[name]}' for name in names)})" if names else ""
    advice = "Pass threads=1 to each of several runs side by side. Numbers do not depend on it."
    return Finding("threads", f"{n} unless told ({of}){text}", advice)


def _cache() -> Finding:
    if CACHE_FOLDER is None:
        return Finding(
            "kernels", "compiled anew in every process", "Set NUMBA_CACHE_DIR to a folder that can be written."
        )
    sizes = []
    for file in Path(CACHE_FOLDER).glob("*.code"):
        with suppress(FileNotFoundError):  # another process dropped it
            sizes.append(file.stat().st_size)
    advice = "`fastbm warmup` compiles what is lacking of the usual ones, for all later processes."
    return Finding("kernels", f"{len(sizes)} compiled, {sum(sizes) / 1e6:.1f} MB, in {CACHE_FOLDER}", advice)


def _disk(folder: Path) -> Iterator[Finding]:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
            started = time.perf_counter()
            os.fsync(file.fileno())
            seconds = time.perf_counter() - started
            locks = _locks(file.fileno())
    except OSError as error:
        yield Finding(
            "disk", f"{folder} cannot be written ({error.strerror})", "Go to a folder that can be, or use --out."
        )
        return
    free = shutil.disk_usage(folder).free
    advice = "Good for runs: a commit takes some syncs."
    if free < LITTLE_ROOM:
        advice = "Little room: runs that fill the disk stop, and can be resumed."
    if seconds > SLOW_SYNC:
        advice = "Commits wait for the disk: raise commit_seconds where runs are short."
    yield Finding("disk", f"{free / 1e9:.1f} GB free in {folder}, a sync takes {1e3 * seconds:.1f} ms", advice)
    advice = "A second writer of a run is refused." if locks else "Never let two processes write one run here."
    yield Finding("locks", "there" if locks else "none", advice)


def _locks(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):  # a system without the module
        return False
    return True
