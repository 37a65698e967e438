"""From a kernel's typed instructions to LLVM's: what Numba does, in fewer of them where they are most.

LLVM drops what Numba writes in excess, but to write and to read it takes a third of the time of compiling. Left out are
places on the stack of variables that are assigned once, and what empties them where they end; structures that hold
arrays and the state of loops while a number is taken from them; and counts of references that nobody needs: to
arguments, which whoever calls holds, and in functions that make no arrays, to any. What is computed is the same.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

from numba.core import analysis, cgutils, ir, lowering, types
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import BaseNativeLowering
from numba.core.untyped_passes import DeadBranchPrune
from numba.np import arrayobj

__all__ = ["Lowering", "counted_members", "makes_no_arrays"]


def makes_no_arrays(state: Any) -> bool:
    """Tell whether no call in a function returns an array, nor the function itself: there is nothing to count."""
    calls = (made for expr, made in state.calltypes.items() if made is not None and getattr(expr, "op", "") == "call")
    models = state.targetctx.data_model_manager
    return not any(models[kind].contains_nrt_meminfo() for kind in (state.return_type, *(c.return_type for c in calls)))


def counted_members(self: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """Do what Numba's `get_meminfos` does: return types and places of the counts of all arrays that a value holds.

    Numba takes every member of an array apart to find that there are no arrays in it.
    """
    models = self._context.data_model_manager
    if models[kind].has_nrt_meminfo():
        return [(kind, models[kind].get_nrt_meminfo(builder, value))]
    members = models[kind].traverse(builder) if models[kind].contains_nrt_meminfo() else ()
    held = [(member, get) for member, get in members if models[member].contains_nrt_meminfo()]
    return [one for member, get in held for one in self.get_meminfos(builder, member, get(value))]


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Writes LLVM's instructions of a function."""

    def _find_singly_assigned_variable(self) -> None:
        """Find the variables that are no place on the stack.

        Numba takes those that live in one block. So may any that is assigned in one place only, on all ways to where
        it is used; if references are counted, of those that hold arrays only arguments, as others end at many places.
        """
        super()._find_singly_assigned_variable()
        self._borrowed, self._of_step_one = set(), set()
        places, used = defaultdict(list), defaultdict(set)
        for place, block in self.blocks.items():
            for assigned in block.find_insts(ir.Assign):
                places[assigned.target.name].append(place)
                if isinstance(assigned.value, ir.Arg):
                    self._borrowed.add(assigned.target.name)
        for place, names in analysis.compute_use_defs(self.blocks).usemap.items():
            for name in names:
                used[name].add(place)
        self._borrowed = {name for name in self._borrowed if len(places[name]) == 1}
        lasting = {name for name in used if len(places[name]) == 1 and not self._is_counted(name)}
        before = analysis.compute_cfg_from_blocks(self.blocks).dominators() if lasting else {}
        for name in lasting:
            (place,) = places[name]
            if all(place in before[use] and place < use for use in used[name]):  # blocks are written in this order
                self._singly_assigned_vars.add(name)

    def _is_counted(self, name: str) -> bool:
        """Tell whether references to what a variable holds are counted."""
        kind, models = self.typeof(name), self.context.data_model_manager
        return self.context.enable_nrt and name not in self._borrowed and models[kind].contains_nrt_meminfo()

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars or self._is_counted(name):
            super().storevar(value, name, argidx)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if self._is_counted(name):
            super().delvar(name)

    def lower_assign(self, kind: Any, assigned: Any) -> Any:
        if isinstance(assigned.value, ir.Arg) and assigned.target.name in self._borrowed:
            given = self.typeof(f"arg.{assigned.value.name}")
            if not isinstance(given, types.Omitted):
                return self.context.cast(self.builder, self.fnargs[assigned.value.index], given, kind)
            self._borrowed.discard(assigned.target.name)
        return super().lower_assign(kind, assigned)

    def lower_getitem(self, kind: Any, expr: Any, array: Any, index: Any, made: Any) -> Any:
        place = self._place(array, index, made.args)
        if place is None:
            return super().lower_getitem(kind, expr, array, index, made)
        found = arrayobj.load_item(self.context, self.builder, made.args[0], place)
        return self.context.cast(self.builder, found, made.return_type, kind)

    def lower_setitem(self, array: Any, index: Any, value: Any, made: Any) -> None:
        place = None if isinstance(made.args[2], types.Array) else self._place(array, index, made.args)
        if place is None:
            super().lower_setitem(array, index, value, made)
            return
        number = self.context.cast(self.builder, self.loadvar(value.name), self.typeof(value.name), made.args[2])
        number = self.context.cast(self.builder, number, made.args[2], made.args[0].dtype)
        arrayobj.store_item(self.context, self.builder, made.args[0], number, place)

    def _place(self, array: Any, index: Any, args: Any) -> Any:
        """Return the address of an array's element, or None where that is not what the index tells."""
        kind, index_kind = args[:2]
        kinds = tuple(index_kind) if isinstance(index_kind, types.BaseTuple) else (index_kind,)
        if (
            type(kind) is not types.Array
            or self.typeof(array.name) != kind
            or len(kinds) != kind.ndim
            or not all(isinstance(one, types.Integer) for one in kinds)
            or self.context.enable_boundscheck
        ):
            return None
        builder, context = self.builder, self.context
        value = context.cast(builder, self.loadvar(index.name), self.typeof(index.name), index_kind)
        is_tuple = isinstance(index_kind, types.BaseTuple)
        indices = cgutils.unpack_tuple(builder, value, kind.ndim) if is_tuple else [value]
        members, field = self.loadvar(array.name), context.data_model_manager[kind].get_field_position
        is_plain, where = kind.layout == "C", None
        for axis, (own, one) in enumerate(zip(kinds, indices, strict=True)):
            size = builder.extract_value(members, [field("shape"), axis]) if own.signed or (is_plain and axis) else None
            number = arrayobj.fix_integer_index(context, builder, own, one, size)
            if not is_plain:
                number = builder.mul(number, builder.extract_value(members, [field("strides"), axis]))
            where = number if where is None else builder.add(builder.mul(where, size) if is_plain else where, number)
        data = builder.extract_value(members, field("data"))
        return builder.gep(data, [where]) if is_plain else cgutils.pointer_add(builder, data, where)

    def lower_expr(self, kind: Any, expr: Any) -> Any:
        builder = self.builder
        if expr.op == "call" and isinstance(kind, types.RangeType) and len(expr.args) < 3 and not expr.vararg:
            made = self.fndesc.calltypes[expr].args
            numbers = [self._cast_var(one, own) for one, own in zip(expr.args, made, strict=True)]
            first = self.context.get_constant(kind.dtype, 0)
            members = [*([first] if len(numbers) == 1 else []), *numbers, self.context.get_constant(kind.dtype, 1)]
            found = cgutils.make_anonymous_struct(builder, members)
            self._of_step_one.add(found)
            return found
        if expr.op in ("getiter", "iternext", "pair_first", "pair_second"):
            value, given = self.loadvar(expr.value.name), self.typeof(expr.value.name)
            if expr.op == "getiter" and value in self._of_step_one:
                return self._start_loop(value, given)
            if isinstance(given, types.RangeIteratorType):
                return self._next_of_loop(value, given)
            if isinstance(given, types.Pair) and isinstance(given.first_type, types.Integer):
                return builder.extract_value(value, ("pair_first", "pair_second").index(expr.op))
        return super().lower_expr(kind, expr)

    def _start_loop(self, value: Any, kind: Any) -> Any:
        """Return the state of a loop: places of the number that comes and of how many do, the end and the step."""
        builder, zero = self.builder, self.context.get_constant(kind.dtype, 0)
        first, end, step = (builder.extract_value(value, k) for k in range(3))
        number, count = (cgutils.alloca_once(builder, first.type) for _ in range(2))
        builder.store(first, number)
        n = builder.sub(end, first)
        builder.store(builder.select(builder.icmp_signed(">", n, zero), n, zero), count)
        return cgutils.make_anonymous_struct(builder, [number, end, step, count])

    def _next_of_loop(self, value: Any, kind: Any) -> Any:
        """Return the number that comes, and whether there is one."""
        builder, (zero, one) = self.builder, (self.context.get_constant(kind.yield_type, k) for k in (0, 1))
        number_at, step, count = (builder.extract_value(value, k) for k in (0, 2, 3))
        left, number = builder.load(count), builder.load(number_at)
        is_there = builder.icmp_signed(">", left, zero)
        with builder.if_then(is_there):
            builder.store(builder.sub(left, one, flags=["nsw"]), count)
            builder.store(builder.add(number, step), number_at)
        return cgutils.make_anonymous_struct(builder, [number, is_there])


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(BaseNativeLowering):  # type: ignore[misc]
    """Numba's pass with that class."""

    _name = "fastbm_lowering"

    @property
    def lowering_class(self) -> Any:
        """Return the class."""
        return _Lower


@register_pass(mutates_CFG=True, analysis_only=False)
class Prune(DeadBranchPrune):
    """Drops what stands under `x is None` where an argument x is there, as Numba does where it is None."""

    _name = "fastbm_prune"

    def run_pass(self, state: Any) -> bool:
        """Tell Numba the types of such arguments as if they were those of literals, which it takes for not None."""
        unsure = (types.NoneType, types.Omitted, types.Optional)
        args = [kind if isinstance(kind, unsure) else SimpleNamespace(literal_type=kind) for kind in state.args]
        analysis.dead_branch_prune(state.func_ir, args)
        return True
