"""The one door to numba: every compiled function of fastbm is decorated here.

Compiled code is cached in a folder of fastbm's own (`fastbm.kernels.cache`). Where none can be written the kernels are
compiled anew in every process, after one warning.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
from llvmlite import binding, ir
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import cgutils, compiler, config as _config, event, serialize, types
from numba.core.codegen import Codegen as _Codegen, get_host_cpu_features
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites, NopythonTypeInference
from numba.core.typing.npydecl import parse_dtype
from numba.core.untyped_passes import DeadBranchPrune, InlineClosureLikes
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from .._base import checks
from .cache import KernelCache, usual_folder
from .listeners import LISTENERS, compile_seconds, n_compiled
from .passes import Flags, Lowering, Prune
from .spared import IS_KNOWN, spared

# what code that no loop compiles to is made of, as in `fastbm.kernels.vectors`
__all__ = [
    "apart", "borrowing", "cgutils", "compile_seconds", "config", "get_host_cpu_features", "inlined", "intrinsic", "ir",
    "kernel", "make_array", "n_compiled", "parse_dtype", "populate_array", "types",
]  # fmt: skip

config: Any = _config  # its settings are made when numba loads, so that type checkers do not see them


CACHE_FOLDER = usual_folder(config.CACHE_DIR, checks.warn)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call.

    It runs without the interpreter lock, is cached, and divides by zero by C's rules.
    """
    return _compile(function)


def borrowing(function: Callable[..., Any]) -> Any:
    """Compile a kernel, or a part of some, that makes no arrays, and counts no references to those that it is given.

    To count them takes longer than what little work is done between two samples of few units.
    """
    return _compile(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels that is always inlined.

    A call that stays keeps the loop around it from being vector code.
    """
    return _compile(function, forceinline=True)


def inlined_borrowing(function: Callable[..., Any]) -> Any:
    """Compile a part that is `inlined` and does as `borrowing` does."""
    return _compile(function, forceinline=True, _nrt=False)


def apart(function: Callable[..., Any]) -> Any:
    """Compile a part of kernels that stays a call in those that Python calls, for long work.

    It is optimised alone; what is optimised again in every kernel that takes it in takes as long as the kernel itself.
    """
    return _compile(function, apart=True)


def apart_borrowing(function: Callable[..., Any]) -> Any:
    """Compile a part that is `apart` and does as `borrowing` does."""
    return _compile(function, apart=True, _nrt=False)


def _compile(function: Callable[..., Any], *, apart: bool = False, **options: Any) -> Any:
    """Make the compiled function that Python calls, and the part that other kernels are compiled with in its place.

    A part is never called by itself: it has no wrappers, and no machine code of its own, which takes long to make.
    """
    njit: Any = numba.njit
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "pipeline_class": _Compiler}
    made = njit(**options)(function)
    if not hasattr(made, "_cache"):  # without the compiler it is the function itself
        return made
    part = njit(no_cpython_wrapper=True, **options)(function)
    made._compiler._customize_flags = part._compiler._customize_flags = Flags
    compiled: dict[Any, Any] = {}  # by this process, for calls from Python
    part._compiler.compile = partial(_compile_part, part._compiler.compile, made.targetctx, compiled, apart)
    calling = made.targetctx.subtarget(enable_nrt=options.get("_nrt", True))  # arrays that are returned are counted
    made._compiler.compile = partial(_compile_kernel, made._compiler.compile, made.targetctx, calling, compiled, part)
    made.get_call_template, made.get_overload = part.get_call_template, part.get_overload
    if CACHE_FOLDER is not None:
        how = f"vectors of {VECTOR_BITS}"
        made._cache = KernelCache(function, CACHE_FOLDER, _dump, _rebuild, how)
        rebuild_part = partial(_rebuild_part, apart)
        part._cache = KernelCache(function, CACHE_FOLDER, _dump_part, rebuild_part, f"part, {how}")
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
        """Make the library, as lowering would, for code of that width."""
        library, flags = _library(state.targetctx, state.func_id.func_qualname), state.flags
        state.library = _as_code(library) if flags.no_cpython_wrapper else _as_kernel(library)
        return False


# no kernel has closures, formulas of whole arrays, nor functions of Numba's that are taken in as instructions
_NEEDLESS = InlineClosureLikes, InlineOverloads, NopythonRewrites
_IN_PLACE_OF = {NativeLowering: Lowering} if IS_KNOWN else {}


class _Compiler(compiler.Compiler):
    """Numba's compiler with these passes, and without what looks through all code for what kernels do not have."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual pipelines, with one pass after its like, and one before that of lowering."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [one for one in pipeline.passes if one[0] not in _NEEDLESS]
            pipeline.add_pass_after(Prune, DeadBranchPrune)
            pipeline.add_pass_after(_Widen, NopythonTypeInference)
            pipeline.passes = [(_IN_PLACE_OF.get(one, one), about) for one, about in pipeline.passes]
            pipeline.finalize()
        return list(pipelines)


def _library(target: Any, name: str) -> Any:
    """Return a library of machine code; functions that reach it get the attribute."""
    library = _Codegen.create_library(target.codegen(), name)
    library.enable_object_caching()
    add, attribute = library.add_ir_module, f'"prefer-vector-width"="{VECTOR_BITS}"'

    def add_wide(module: Any) -> None:
        for function in module.functions:
            if VECTOR_BITS and not function.is_declaration:
                set.add(function.attributes, attribute)  # which llvmlite's own check of names does not know
        add(module)

    library.add_ir_module = add_wide
    return _with_parts(_tidied(library))


def _with_parts(library: Any) -> Any:
    """Keep what is `apart`, and what its parts have kept, for the kernel that they become parts of."""
    link, library.later = library.add_linking_library, {}

    def link_or_keep(other: Any) -> None:
        if getattr(other, "is_apart", False):
            other._ensure_finalized()
            library.later[other] = None
        else:
            link(other)
        library.later |= getattr(other, "later", {})

    library.add_linking_library = link_or_keep
    return library


def _as_kernel(library: Any) -> Any:
    """Link what is `apart` when all else is optimised already, and for others, of which it is a part, without that.

    And have an interrupt pass that comes while machine code is made.
    """
    optimise = library._optimize_final_module

    def optimise_and_link() -> None:
        optimise()
        library._finalized = True  # but for its machine code
        library._get_module_for_linking()  # which is kept
        for other in library.later:
            library._final_module.link_in(other._get_module_for_linking(), preserve=True)

    finish = library._finalize_specific

    def finish_or_stop() -> None:
        finish()
        if library._compiled_object is None:  # Python drops what is raised where LLVM calls it back
            raise KeyboardInterrupt

    library._optimize_final_module, library._finalize_specific = optimise_and_link, finish_or_stop
    return library


def _tidied(library: Any) -> Any:
    """Have functions tidied before they are linked, and no more: all of LLVM's passes run on the whole afterwards.

    Numba would run them on each function, those that are only declared among them, which takes a tenth of the time.
    """
    codegen = library.codegen

    def tidy(module: Any) -> None:
        module.data_layout = codegen._data_layout
        builder = codegen._pass_builder()
        for function in module.functions:
            if not function.is_declaration:
                passes = binding.create_new_function_pass_manager()
                passes.add_sroa_pass()
                passes.add_simplify_cfg_pass()
                passes.add_instruction_combine_pass()
                passes.add_refprune_pass()
                passes.run(function, builder)

    library._optimize_functions = tidy
    library._optimize_final_module = partial(_optimise, codegen, library._optimize_final_module)
    return library


def _optimise(codegen: Any, optimise: Callable[[], None]) -> None:
    """Have all passes run, but leave the bodies of loops single.

    Copies of them take a tenth of the time of compiling, and gain nothing in loops over the lanes of vectors.
    """

    def builder(opt: int = config.OPT, **wanted: bool) -> Any:
        how = binding.create_pipeline_tuning_options(speed_level=opt)
        how.loop_vectorization = wanted.get("loop_vectorize", config.LOOP_VECTORIZE)
        how.slp_vectorization = wanted.get("slp_vectorize", config.SLP_VECTORIZE)
        how.loop_unrolling = how.loop_interleaving = False
        return binding.create_pass_builder(codegen._tm, how)

    codegen._pass_builder = builder
    try:
        optimise()
    finally:
        del codegen._pass_builder


def _as_code(library: Any) -> Any:
    """Have LLVM optimise what is in a library, and stop there."""

    def finalize() -> None:
        library._finalize_dynamic_globals()
        library._finalized = True

    library._finalize_final_module = finalize
    return library


def _entry(library: Any, about: Any, environment: Any) -> Any:
    """Return something by which the compiler knows the code in a library, and that is never called."""
    library._ensure_finalized()
    return _dynfunc.make_function(about.lookup_module(), about.qualname, "", 0, environment, (library,))


def _with_parts_as_code(target: Any, compile_anew: Callable[..., Any], *args: Any) -> Any:
    """Compile, and leave all parts of a kernel as code, Numba's own functions among them; the lock is held."""
    codegen = target.codegen()
    if "get_executable" in vars(target):
        return compile_anew(*args)

    def create_library(name: str, **options: Any) -> Any:
        return _as_code(_tidied(_Codegen.create_library(codegen, name, **options)))

    replaced = (codegen, "create_library", create_library), (target, "get_executable", _entry)
    return spared(compile_anew, replaced, *args)


def _compile_part(
    compile_anew: Callable[..., Any], target: Any, compiled: dict[Any, Any], apart: bool, args: Any, return_type: Any
) -> Any:
    """Compile what kernels are compiled with, or take it from what Python calls."""
    if (found := compiled.get(tuple(args))) is None:
        found = _with_parts_as_code(target, compile_anew, args, return_type)
        found.library.is_apart = apart
        return found
    found.library.is_apart = apart
    entry = _entry(found.library, found.fndesc, found.environment)
    target.insert_user_function(entry, found.fndesc, [found.library])
    return found._replace(entry_point=entry, metadata={})


def _compile_kernel(
    compile_anew: Callable[..., Any],
    target: Any,
    calling: Any,
    compiled: dict[Any, Any],
    part: Any,
    args: Any,
    return_type: Any,
) -> Any:
    """Compile what Python calls: of a part that is there already only the call, for which `calling` is the target."""
    if (found := part.overloads.get(tuple(args))) is None:
        found = _with_parts_as_code(target, compile_anew, args, return_type)
        library = found.library
        compiled[tuple(args)] = found
    else:
        library = _as_kernel(_library(target, f"{found.fndesc.qualname}, called"))
        library.add_linking_library(found.library)
        calling.create_cpython_wrapper(library, found.fndesc, found.environment, None, release_gil=True)
        found = found._replace(library=library, metadata={})
    entry = target.get_executable(library, found.fndesc, found.environment)
    for environment in found._find_referenced_environments():
        library.codegen.set_env(environment.env_name, environment)
    return found._replace(entry_point=entry)


def _dump(made: Any) -> bytes:
    dumped: bytes = serialize.dumps((made._reduce(), made.environment.consts))
    return dumped


def _rebuild(target: Any, pickled: Any) -> Any:
    reduced, constants = pickled
    found = compiler.CompileResult._rebuild(target, *reduced)
    known = found.environment.consts  # of a part that was there before, which knows none that the call needs
    known.extend(constants[len(known) :])
    return found


def _dump_part(part: Any) -> bytes:
    part.fndesc.typemap = part.fndesc.calltypes = None  # as `_reduce` does: they are no longer needed
    libraries = part.library, *part.library.later
    codes = [(one.name, one._final_module.as_bitcode()) for one in libraries]
    others = [env for one in libraries for env in part._replace(library=one)._find_referenced_environments()]
    dumped: bytes = serialize.dumps((codes, part.fndesc, part.environment, part.signature, others))
    return dumped


def _rebuild_part(apart: bool, target: Any, pickled: Any) -> Any:
    codes, about, environment, signature, others = pickled
    library, *later = (_Codegen.create_library(target.codegen(), name) for name, _ in codes)
    for one, (_, code) in zip((library, *later), codes, strict=True):
        one._final_module, one._finalized, one.is_apart = binding.parse_bitcode(code), True, True
    library.is_apart, library.later = apart, dict.fromkeys(later)
    return compiler.compile_result(
        typing_context=target.typing_context, target_context=target, entry_point=_entry(library, about, environment),
        typing_error=None, type_annotation="", signature=signature, objectmode=False, lifted=(), fndesc=about,
        library=library, call_helper=None, environment=environment, metadata=None, reload_init=(),
        referenced_envs=others,
    )  # fmt: skip


class _Heard(event.Listener):
    """Passes what the compiler tells on to one that does not know it."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def on_start(self, event: Any) -> None:
        self._listener.on_start(event)

    def on_end(self, event: Any) -> None:
        self._listener.on_end(event)


for _kind, _listener in LISTENERS:
    event.register(_kind, _Heard(_listener))
