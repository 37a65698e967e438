"""Numbers as their bits, and how many bits are set: Numba compiles a function for every kind of `.view`.

Without the compiler NumPy's scalars do the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .jit import config, intrinsic, types

__all__ = ["bits_of", "count_bits", "number_of"]

_BITS = {types.float32: types.int32, types.float64: types.int64}
_NUMBERS = {bits: number for number, bits in _BITS.items()}


def _cast(kind: Any, kinds: dict[Any, Any]) -> Any:
    """Return the types of a cast that keeps all bits, and what writes it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return kinds[kind](kind), generate


@intrinsic
def _bits_of(_typing: Any, number: Any) -> Any:
    return _cast(number, _BITS)


@intrinsic
def _number_of(_typing: Any, bits: Any) -> Any:
    return _cast(bits, _NUMBERS)


@intrinsic
def _count_bits(_typing: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


def _bits_of_scalar(number: Any) -> Any:
    return number.view(np.int32 if number.dtype == np.float32 else np.int64)


def _number_of_scalar(bits: Any) -> Any:
    return bits.view(np.float32 if bits.dtype == np.int32 else np.float64)


def _count_bits_of_scalar(word: Any) -> Any:
    return np.int64(int(word).bit_count())


bits_of, number_of, count_bits = (
    (_bits_of_scalar, _number_of_scalar, _count_bits_of_scalar)
    if config.DISABLE_JIT
    else (_bits_of, _number_of, _count_bits)
)
