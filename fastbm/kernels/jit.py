"""The one door to numba: every compiled function of fastbm is decorated here.

Compiled code is cached in a folder of fastbm's own (`fastbm.kernels.cache`). Where none can be written the kernels are
compiled anew in every process, after one warning.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, compiler, config as _config, event, serialize, types
from numba.core.codegen import get_host_cpu_features
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NopythonTypeInference
from numba.extending import intrinsic

from .._base import checks
from .._base.system import after_fork
from .cache import KernelCache, folder_for

# what code that no loop compiles to is made of, as in `fastbm.kernels.vectors`
__all__ = [
    "borrowing", "cgutils", "compile_seconds", "config", "get_host_cpu_features", "inlined", "intrinsic", "ir",
    "kernel", "n_compiled", "types",
]  # fmt: skip

config: Any = _config  # its settings are made when numba loads, so that type checkers do not see them


def _cache_folder() -> str | None:
    """Return a folder that can be written, or None after a warning."""
    root = config.CACHE_DIR or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "fastbm"
    )
    try:
        return folder_for(root)
    except OSError as error:
        checks.warn(
            f"fastbm cannot cache compiled kernels in {os.path.join(root, 'kernels')} ({error.strerror}): every "
            "process compiles them anew. Set NUMBA_CACHE_DIR to a folder that can be written.",
            UserWarning,
        )
        return None


CACHE_FOLDER = _cache_folder()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call.

    It runs without the interpreter lock, is cached, and divides by zero by C's rules.
    """
    return _compile(function)


def borrowing(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels that makes no arrays, and counts no references to those that it is given.

    To count them takes longer than what little work is done between two samples of few units.
    """
    return _compile(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels that is always inlined.

    A call that stays keeps the loop around it from being vector code.
    """
    return _compile(function, forceinline=True)


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    # wrappers are compiled with all that they call; kernels whose names begin with _ are never called from Python
    inner = function.__module__.startswith("fastbm.") and function.__name__.startswith("_")
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
    if VECTOR_BITS:
        options["pipeline_class"] = _WideCompiler
    made = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if CACHE_FOLDER is not None and hasattr(made, "_cache"):  # without the compiler it is the function itself
        made._cache = KernelCache(function, CACHE_FOLDER, serialize.dumps, _rebuild, f"vectors of {VECTOR_BITS}")
    return made


def _vector_bits() -> int:
    """Return the width of vectors that loops are compiled to, or 0 where that is left to LLVM.

    LLVM prefers half of what Intel's processors with AVX-512 have, as wide instructions slowed the first ones down. It
    is asked for all of it on later ones, which have VBMI2; never where the user has named features or a processor. The
    environment's FASTBM_VECTOR_BITS, 256 or 512, decides before all. Numbers are the same at any width.
    """
    asked = os.environ.get("FASTBM_VECTOR_BITS", "")
    if asked in ("256", "512"):
        return int(asked)
    if asked:
        checks.warn(f"FASTBM_VECTOR_BITS must be 256 or 512; got {asked!r}, which is ignored.", UserWarning)
    if config.DISABLE_JIT or config.CPU_FEATURES is not None or config.CPU_NAME is not None:
        return 0
    features = set(get_host_cpu_features().split(","))
    return 512 if {"+avx512f", "+avx512vl", "+avx512bw", "+avx512dq", "+avx512vbmi2"} <= features else 0


VECTOR_BITS = _vector_bits()


@register_pass(mutates_CFG=False, analysis_only=True)
class _Widen(FunctionPass):
    """Tells LLVM of each function how wide its vectors may be."""

    _name = "fastbm_widen"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Make the library, as lowering would, and put the attribute on functions that reach it."""
        library = state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library.enable_object_caching()
        add, attribute = library.add_ir_module, f'"prefer-vector-width"="{VECTOR_BITS}"'

        def add_wide(module: Any) -> None:
            for function in module.functions:
                if not function.is_declaration:
                    set.add(function.attributes, attribute)  # which llvmlite's own check of names does not know
            add(module)

        library.add_ir_module = add_wide
        return False


class _WideCompiler(compiler.Compiler):
    """Numba's compiler with that pass."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual pipelines, with the pass before that of lowering."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.add_pass_after(_Widen, NopythonTypeInference)
            pipeline.finalize()
        return list(pipelines)


def _rebuild(target: Any, pickled: Any) -> Any:
    return compiler.CompileResult._rebuild(target, *pickled)


class _Failures(event.Listener):
    """Lets other processes compile what this one could not."""

    def on_start(self, event: Any) -> None:
        """Nothing: the right to compile was taken when the cache had no code."""

    def on_end(self, event: Any) -> None:
        cache = getattr(event.data["dispatcher"], "_cache", None)
        # `is_failed` says the contrary, and saving gives the right back where all went well
        if getattr(event, "_exc_details", None) is not None and isinstance(cache, KernelCache):
            cache.leave()


class _Collections(event.Listener):
    """Keeps Python from looking for garbage, a tenth of the time, while the compiler makes things that stay.

    It counts what is compiled, Numba's own functions among them.
    """

    def __init__(self) -> None:
        self._depth, self._wanted, self.count = 0, False, 0

    def on_start(self, event: Any) -> None:
        if not self._depth:
            self._wanted = gc.isenabled()
            gc.disable()
        self._depth += 1
        self.count += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if not self._depth:
            self.resume()

    def resume(self) -> None:
        """Let Python look again, if it did; after a fork no other thread is left that compiles."""
        self._depth = 0
        if self._wanted:
            self._wanted = False
            gc.enable()


class _CompilerClock(event.Listener):
    """Wall time in which any thread is in the compiler; threads side by side count once.

    A thread is there while it compiles, loads what the cache holds, or waits for a thread that does.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self.forget_threads()

    def forget_threads(self) -> None:
        """After a fork no other thread is left that could come out of the compiler."""
        self._lock = threading.Lock()
        self._depths: dict[int, int] = {}  # of threads in the compiler: a kernel's callees are compiled inside of it
        self._since = 0.0

    def on_start(self, event: Any) -> None:
        with self._lock:
            if not self._depths:
                self._since = time.perf_counter()
            thread = threading.get_ident()
            self._depths[thread] = self._depths.get(thread, 0) + 1

    def on_end(self, event: Any) -> None:
        with self._lock:
            thread = threading.get_ident()
            if self._depths.get(thread, 0) > 1:
                self._depths[thread] -= 1
            else:
                self._leave(thread)

    def seconds(self) -> float:
        """Read the clock, from a thread that is not in the compiler."""
        with self._lock:
            self._leave(threading.get_ident())  # an interrupt may have thrown it out without a word
            return self._seconds + (time.perf_counter() - self._since if self._depths else 0.0)

    def _leave(self, thread: int) -> None:
        if self._depths.pop(thread, 0) and not self._depths:
            self._seconds += time.perf_counter() - self._since


_clock = _CompilerClock()
event.register("numba:compiler_lock", _clock)
event.register("numba:compile", _Failures())
_collections = _Collections()
event.register("numba:compile", _collections)
after_fork(_clock.forget_threads)
after_fork(_collections.resume)


def compile_seconds() -> float:
    """Return the seconds that this process has spent so far on compiling kernels and on loading compiled ones."""
    return _clock.seconds()


def n_compiled() -> int:
    """Return how many functions, once for each signature, this process has compiled so far."""
    return _collections.count
