"""What Numba is spared while kernels are compiled: a fifth of its time, for what kernels do not have.

What is replaced is put back afterwards, and `fastbm.kernels.jit` holds Numba's lock meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache
from itertools import chain, starmap
from typing import Any

from numba import version_info
from numba.core import base, errors, event, imputils, ir, lowering, postproc, transforms, typeinfer, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.context import NRTContext
from numba.core.targetconfig import ConfigStack
from numba.core.typing import signature

IS_KNOWN = version_info.short <= (0, 68)  # whether this Numba has been read; of others less is replaced


def spared(compile_anew: Callable[..., Any], targets: tuple[tuple[Any, str, Any], ...], *args: Any) -> Any:
    """Return what `compile_anew(*args)` does while Numba does less, and while `targets` have what is named there.

    These are owners, instances that have none of that name themselves, names, and what stands there meanwhile.

    An interrupt comes after a call, never within one that runs no Python: all is put back in one call, the first of its
    block.
    """
    back = starmap(setattr, [(owner, name, getattr(owner, name)) for owner, name, _ in _REPLACED])
    bare = starmap(dict.pop, [(vars(owner), name, None) for owner, name, _ in targets])
    both = chain(back, bare)
    try:
        deque(starmap(setattr, _REPLACED + targets), maxlen=0)
        return compile_anew(*args)
    finally:
        deque(both, maxlen=0)


_FOUND: dict[Any, tuple[Any, Any]] = {}  # signature and key of the code, by function, types and settings
_get_call_type, _process = types.BaseFunction.get_call_type, postproc.PostProcessor.run


def _resolve_once(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """Remember what calls of a function of Numba's came to: it tries all templates of an operator wherever it stands.

    What it finds is another function where references are not counted.
    """
    if (early := _type_of_extreme(self, args)) is not None:
        return early
    key = self.key, args, id(context), _counts_references()
    if kws or key not in _FOUND:
        found = _get_call_type(self, context, args, kws)
        if not kws:
            _FOUND[key] = found, self._impl_keys[found.args]
        return found
    found, self._impl_keys[found.args] = _FOUND[key]
    return found


def _process_last(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """List where variables end at the last, and where references are counted, which then end.

    Numba lists where they live after every pass, for generators and for loops that Python's interpreter runs.
    """
    if (emit_dels and _counts_references()) or self.func_ir.is_generator:
        _process(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.generator_info = None
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)  # once it is asked


def _counts_references() -> bool:
    """Tell whether what is compiled now counts references, as what it calls then does."""
    flags = ConfigStack.top_or_none()
    return flags is None or bool(flags.nrt)


def _counted_members(self: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """Return types and places of the counts of all arrays that a value holds.

    Numba takes every member of an array apart to find that there are no arrays in it.
    """
    models = self._context.data_model_manager
    if models[kind].has_nrt_meminfo():
        return [(kind, models[kind].get_nrt_meminfo(builder, value))]
    members = models[kind].traverse(builder) if models[kind].contains_nrt_meminfo() else ()
    held = [(member, get) for member, get in members if models[member].contains_nrt_meminfo()]
    return [one for member, get in held for one in self.get_meminfos(builder, member, get(value))]


def _type_of_extreme(function: Any, args: Any) -> Any:
    """Return the signature of the smaller or larger of two numbers of a kind, for which Numba compiles a function."""
    if not IS_KNOWN or function.typing_key not in (min, max) or len(args) != 2:
        return None
    one, other = kinds = tuple(map(types.unliteral, args))
    if one != other or not isinstance(one, (types.Integer, types.Float)):
        return None
    function._impl_keys[kinds] = _SMALLER if function.typing_key is min else _LARGER
    return signature(one, *kinds)


def _extreme_of(sign: str) -> Any:
    def generate(context: Any, builder: Any, made: Any, args: Any) -> Any:
        if isinstance(made.return_type, types.Float):
            is_second = builder.fcmp_ordered(sign, args[1], args[0])
        else:
            compared = builder.icmp_signed if made.return_type.signed else builder.icmp_unsigned
            is_second = compared(sign, args[1], args[0])
        return builder.select(is_second, args[1], args[0])

    return generate


_SMALLER, _LARGER = "fastbm.smaller", "fastbm.larger"
for _key, _sign in ((_SMALLER, "<"), (_LARGER, ">")):
    imputils.lower_builtin(_key, types.Number, types.Number)(_extreme_of(_sign))


def _propagate_anew(self: Any, typeinfer: Any) -> list[Any]:
    """Have all that tells types of variables by those of others tell them, again where one of these is another now.

    Numba asks all of it until nothing changes, twice at least.
    """
    found, known = [], typeinfer.typevars
    for constraint in self.constraints:
        about = constraint.__dict__
        if (names := about.get("names")) is None:
            told = [value for name, value in about.items() if name not in ("target", "dst")]
            names = about["names"] = list(_names_in(told))
        kinds = [known[name].type for name in names if name in known]
        if kinds == about.get("kinds"):
            continue
        try:
            constraint(typeinfer)
        except (errors.TypingError, errors.ForceLiteralArg) as error:
            found.append(error)
        else:
            about["kinds"] = kinds
    return found


def _names_in(value: Any) -> Iterator[str]:
    """Yield the names of variables in what a type is told by, and some others, which none has."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _names_in(one)
    elif isinstance(value, (str, ir.Var)):
        yield getattr(value, "name", value)


def _unheard(*about: Any, **more: Any) -> Any:
    """Stand for what tells errors and warnings where they arose; a part of kernels has none."""
    return _NOTHING


def _untimed(*about: Any, **more: Any) -> Any:
    """Time nothing that is compiled for a kernel, but what another thread will compile, which comes here to wait."""
    return _NOTHING if global_compiler_lock.is_locked() else _install_timer(*about, **more)


_NOTHING, _install_timer = nullcontext(), event.install_timer
# an owner, the name of what it has, and what stands there meanwhile
_REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (types.BaseFunction, "get_call_type", _resolve_once),
    (postproc.PostProcessor, "run", _process_last),
)
if IS_KNOWN:
    _REPLACED += (
        (NRTContext, "get_meminfos", _counted_members),
        (typeinfer, "new_error_context", _unheard),
        (lowering, "new_error_context", _unheard),
        (errors.WarningsFixer, "catch_warnings", _unheard),
        (event, "install_timer", _untimed),
        (typeinfer.ConstraintNetwork, "propagate", _propagate_anew),
        (base, "_has_loc", cache(base._has_loc)),
    )
