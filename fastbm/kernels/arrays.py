"""Arrays inside of kernels: new ones, those at addresses, and rows that are copied or summed, all compiled fast.

Numba compiles a function for every kind of array that `np.empty` or `np.zeros` makes, which takes longer than most
parts of kernels do, seconds of text for what may go wrong in `to[:] = row`, and checks of axes for `row.sum()`. A tuple
of arrays has a type for every length, and all of them are passed wherever it is passed: addresses have one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .jit import cgutils, config, inlined, intrinsic, make_array, parse_dtype, populate_array, types

__all__ = ["copy_row", "empty", "matrix_at", "sum_row", "zeros"]


def _signature(shape: Any, dtype: Any) -> Any:
    """Return the types of a new array, its shape (one number, or several) and what its elements are."""
    shape = types.unliteral(shape)
    return types.Array(parse_dtype(dtype), getattr(shape, "count", 1), "C")(shape, dtype)


def _new(context: Any, builder: Any, signature: Any, args: Any) -> tuple[Any, Any]:
    """Return a new array and how many bytes its elements take."""
    kind, (shape, _) = signature.return_type, signature.args
    kinds, sizes = (shape, cgutils.unpack_tuple(builder, args[0])) if kind.ndim > 1 else ((shape,), args[:1])
    sizes = [context.cast(builder, size, own, types.intp) for size, own in zip(sizes, kinds, strict=True)]
    strides = [context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))]
    for size in reversed(sizes):
        strides.insert(0, builder.mul(strides[0], size))
    align = context.get_constant(types.uint32, context.get_preferred_array_alignment(kind.dtype))
    memory = context.nrt.meminfo_alloc_aligned(builder, size=strides[0], align=align)
    made = make_array(kind)(context, builder)
    data = builder.bitcast(context.nrt.meminfo_data(builder, memory), made.data.type)
    populate_array(made, data=data, shape=sizes, strides=strides[1:], itemsize=strides[-1], meminfo=memory)
    return made, strides[0]


@intrinsic
def _empty(_typing: Any, shape: Any, dtype: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made, _ = _new(context, builder, signature, args)
        return made._getvalue()

    return _signature(shape, dtype), generate


@intrinsic
def _zeros(_typing: Any, shape: Any, dtype: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made, n_bytes = _new(context, builder, signature, args)
        cgutils.memset(builder, made.data, n_bytes, 0)
        return made._getvalue()

    return _signature(shape, dtype), generate


@intrinsic
def _copy_row(_typing: Any, to: Any, row: Any) -> Any:
    """Write the numbers of a row to another one of the same length and kind. Mutates `to`."""
    if to.dtype != row.dtype or (to.ndim, row.ndim) != (1, 1):
        return None

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        rows = [make_array(kind)(context, builder, value) for kind, value in zip(kinds, args, strict=True)]
        with cgutils.for_range(builder, builder.extract_value(rows[0].shape, 0)) as loop:
            here, there = (
                cgutils.get_item_pointer(context, builder, kind, one, [loop.index])
                for kind, one in zip(kinds, rows, strict=True)
            )
            builder.store(builder.load(there), here)
        return context.get_dummy_value()

    return types.void(to, row), generate


@intrinsic
def _matrix_at(_typing: Any, like: Any, place: Any, n: Any, m: Any) -> Any:
    """Return the matrix (n, m) that lies at an address, without gaps and of the same kind of numbers as `like`.

    Nothing keeps its memory but who made it.
    """
    kind = types.Array(like.dtype, 2, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, place, n, m = args
        made = make_array(kind)(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        data = builder.inttoptr(place, made.data.type)
        populate_array(made, data=data, shape=[n, m], strides=[builder.mul(m, size), size], itemsize=size, meminfo=None)
        return made._getvalue()

    return kind(like, types.intp, types.intp, types.intp), generate


class _Memory:
    """What NumPy makes an array of that lies at an address."""

    def __init__(self, place: int, shape: tuple[int, ...], kind: str) -> None:
        self.__array_interface__ = {"data": (place, False), "shape": shape, "typestr": kind, "version": 3}


def _matrix_plainly(like: Any, place: Any, n: Any, m: Any) -> Any:
    if not n * m:
        return np.zeros((n, m), like.dtype)
    return np.asarray(_Memory(int(place), (int(n), int(m)), like.dtype.str))


def _copy_plainly(to: Any, row: Any) -> None:
    to[:] = row


if config.DISABLE_JIT:
    empty, zeros, copy_row, matrix_at = np.empty, np.zeros, _copy_plainly, _matrix_plainly
else:
    empty, zeros, copy_row, matrix_at = _empty, _zeros, _copy_row, _matrix_at


@inlined
def sum_row(row):
    """Return the sum of the numbers of a row, one after the other."""
    total = 0.0
    for k in range(row.shape[0]):
        total += row[k]
    return total
