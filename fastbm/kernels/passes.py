"""From a kernel's typed instructions to LLVM's: what Numba does, in fewer of them where they are most.

LLVM drops what Numba writes in excess, but to write and to read that takes a sixth of the time of compiling. Left out
are places on the stack of variables that are assigned once, and what empties them where they end; structures that hold
arrays and the state of loops while a number is taken from them; and counts of references to arguments, which whoever
calls holds. What is computed is the same. All other references are counted: functions without that are smaller, so that
LLVM takes others into loops, which made clusters a twentieth slower.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

from numba.core import cgutils, compiler, ir, lowering, types
from numba.core.analysis import dead_branch_prune
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import BaseNativeLowering
from numba.core.untyped_passes import DeadBranchPrune
from numba.np import arrayobj

__all__ = ["Flags", "Lowering", "Prune"]


class Flags(compiler.Flags):  # type: ignore[misc]
    """Numba's flags, which it compares at every call that it meets in a function: all at once, not one by one."""

    def values(self) -> dict[str, Any]:
        """Return all of them."""
        return _USUAL_FLAGS | self._values


_USUAL_FLAGS = {name: option.default for name, option in compiler.Flags.options.items()}


class _Lower(lowering.Lower):  # type: ignore[misc]
    """Writes LLVM's instructions of a function."""

    def _find_singly_assigned_variable(self) -> None:
        """Find the variables that are no place on the stack.

        Numba takes those that live in one block. So may any that is assigned in one place only, on all ways to where
        it is used; if references are counted, of those that hold arrays only arguments, as others end at many places.
        """
        self._singly_assigned_vars, self._blk_local_varmap = set(), {}
        self._borrowed, self._of_step_one = set(), set()
        if self.func_ir.func_id.is_generator:  # which goes on where no value is at hand
            return
        places, used = defaultdict(list), defaultdict(set)
        for place, block in self.blocks.items():
            for assigned in block.find_insts(ir.Assign):
                places[assigned.target.name].append(place)
                if isinstance(assigned.value, ir.Arg):
                    self._borrowed.add(assigned.target.name)
        alive = self.func_ir.variable_lifetime
        for place, names in alive.usedefs.usemap.items():
            for name in names:
                used[name].add(place)
        once = {name for name in places if len(places[name]) == 1}
        self._borrowed &= once
        lasting = {name for name in once if used[name] and not self._is_counted(name)}
        before = alive.cfg.dominators() if lasting else {}
        for name in once:
            (place,) = places[name]  # blocks are written in order
            if not used[name] or (name in lasting and all(place in before[use] and place < use for use in used[name])):
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
            view = self._view(array, index, made)
            return super().lower_getitem(kind, expr, array, index, made) if view is None else view
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

    def _indices(self, array: Any, index: Any, args: Any) -> list[tuple[Any, Any]]:
        """Return types and values of the indices of a plain array, none where it or they are of another kind."""
        kind, index_kind = args[:2]
        is_tuple = isinstance(index_kind, types.BaseTuple)
        kinds = tuple(index_kind) if is_tuple else (index_kind,)
        is_plain = type(kind) is types.Array and self.typeof(array.name) == kind and kind.layout == "C"
        if not is_plain or len(kinds) > kind.ndim or self.context.enable_boundscheck:
            return []
        value = self.context.cast(self.builder, self.loadvar(index.name), self.typeof(index.name), index_kind)
        return list(
            zip(kinds, cgutils.unpack_tuple(self.builder, value, len(kinds)) if is_tuple else [value], strict=True)
        )

    def _place(self, array: Any, index: Any, args: Any) -> Any:
        """Return the address of an array's element, or None where that is not what the index tells."""
        kind, index_kind = args[:2]
        n = len(index_kind) if isinstance(index_kind, types.BaseTuple) else 1
        if n != getattr(kind, "ndim", -1) or not (indices := self._indices(array, index, args)):
            return None
        if not all(isinstance(own, types.Integer) for own, _ in indices):
            return None
        return self._address(kind, self.loadvar(array.name), indices)

    def _address(self, kind: Any, members: Any, indices: list[tuple[Any, Any]]) -> Any:
        """Return the address of what begins at some first indices."""
        builder, field = self.builder, self.context.data_model_manager[kind].get_field_position
        where = None
        for axis in range(kind.ndim):
            own, index = indices[axis] if axis < len(indices) else (types.uintp, None)
            size = builder.extract_value(members, [field("shape"), axis]) if axis or own.signed else None
            if index is not None:
                index = arrayobj.fix_integer_index(self.context, builder, own, index, size)
            where = builder.mul(where, size) if axis else None
            if index is not None:
                where = index if where is None else builder.add(where, index)
        return builder.gep(builder.extract_value(members, field("data")), [where])

    def _view(self, array: Any, index: Any, made: Any) -> Any:
        """Return rows of an array, of a slice or at first indices; None where the index tells of other things."""
        kind, view = made.args[0], made.return_type
        if (
            type(view) is not types.Array
            or view.layout != "C"
            or not (indices := self._indices(array, index, made.args))
        ):
            return None
        own, last = indices[-1]
        is_slice = isinstance(own, types.SliceType) and not own.has_step and not isinstance(own, types.Literal)
        whole = indices[:-1] if is_slice else indices
        if view.ndim != kind.ndim - len(whole) or not all(isinstance(one, types.Integer) for one, _ in whole):
            return None
        builder, members = self.builder, self.loadvar(array.name)
        at, there = self.context.data_model_manager[kind], self.context.data_model_manager[view].get_field_position
        axes = range(len(whole), kind.ndim)
        sizes = [builder.extract_value(members, [at.get_field_position("shape"), axis]) for axis in axes]
        if is_slice:
            zero = sizes[0].type(0)
            first, end = (self._bound(builder.extract_value(last, k), sizes[0]) for k in range(2))
            n = builder.sub(end, first)
            sizes[0] = builder.select(builder.icmp_signed(">", n, zero), n, zero)
            indices = [*whole, (types.uintp, first)]
        n_items = sizes[0]
        for size in sizes[1:]:
            n_items = builder.mul(n_items, size, flags=["nsw"])
        found = self.context.get_constant_undef(view)
        for name in ("meminfo", "parent", "itemsize"):
            value = builder.extract_value(members, at.get_field_position(name))
            found = builder.insert_value(found, value, there(name))
        found = builder.insert_value(found, n_items, there("nitems"))
        found = builder.insert_value(found, self._address(kind, members, indices), there("data"))
        for place, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
            step = builder.extract_value(members, [at.get_field_position("strides"), axis])
            found = builder.insert_value(found, size, [there("shape"), place])
            found = builder.insert_value(found, step, [there("strides"), place])
        self.incref(view, found)
        return found

    def _bound(self, bound: Any, size: Any) -> Any:
        """Return a bound of a slice as Python takes it: from the end where it is negative, and within.

        That it is not within is taken to be rare, as Numba does: to choose one of two would have the rest wait.
        """
        builder, zero = self.builder, size.type(0)
        bound = builder.select(builder.icmp_signed("<", bound, zero), builder.add(bound, size), bound)
        found = cgutils.alloca_once_value(builder, bound)
        for is_out, end in (
            (builder.icmp_signed("<", bound, zero), zero),
            (builder.icmp_signed(">=", bound, size), size),
        ):
            with builder.if_then(is_out, likely=False):
                builder.store(end, found)
        return builder.load(found)

    def lower_expr(self, kind: Any, expr: Any) -> Any:
        builder = self.builder
        if expr.op == "call" and self._is_range(expr):
            made = self.fndesc.calltypes[expr].args
            numbers = [self._cast_var(one, own) for one, own in zip(expr.args, made, strict=True)]
            first = self.context.get_constant(kind.dtype, 0)
            members = [*([first] if len(numbers) == 1 else []), *numbers, self.context.get_constant(kind.dtype, 1)]
            found = cgutils.make_anonymous_struct(builder, members)
            self._of_step_one.add(found)
            return found
        if expr.op == "getattr" and expr.attr == "shape" and type(self.typeof(expr.value.name)) is types.Array:
            where = self.context.data_model_manager[self.typeof(expr.value.name)].get_field_position("shape")
            return builder.extract_value(self.loadvar(expr.value.name), where)
        if expr.op in ("getiter", "iternext", "pair_first", "pair_second"):
            value, given = self.loadvar(expr.value.name), self.typeof(expr.value.name)
            if expr.op == "getiter" and value in self._of_step_one:
                return self._start_loop(value, given)
            if expr.op == "iternext" and isinstance(given, types.RangeIteratorType):
                return self._next_of_loop(value, given)
            if isinstance(given, types.Pair) and isinstance(given.first_type, types.Integer):
                return builder.extract_value(value, ("pair_first", "pair_second").index(expr.op))
        return super().lower_expr(kind, expr)

    def _is_range(self, call: Any) -> bool:
        """Tell whether a call is `range` of one bound or two."""
        function = getattr(self.typeof(call.func.name), "typing_key", None)
        return function is range and 0 < len(call.args) < 3 and not call.vararg

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
        dead_branch_prune(state.func_ir, args)
        return True
