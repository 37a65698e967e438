"""Products of real matrices with matrices of two values, in float64, by sums of four columns that are looked up.

Four units have sixteen states, so that four columns of the real matrix pick one of sixteen sums: the method of four
Russians (Arlazarov, Dinic, Kronrod and Faradzhev, Sov. Math. Dokl. 11, 1209 (1970)). Sums of 32 rows stand side by
side, and the tables of 32 columns fit a core's first cache. A processor loads two vectors where it multiplies two, so
that a load for four products takes less than half of the time of a matrix product by BLAS. Terms are added in one
order, on every processor.

The tables of few units in registers, in float32, are those of `fastbm.kernels.bits`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import zeros
from .jit import cgutils, config, intrinsic, ir, kernel, types

TILE = 32  # rows side by side
GROUPS = 8  # of four columns, whose bits are a word
COLUMNS = 4 * GROUPS
ENTRY = 8 * TILE  # bytes of an entry of a table
TABLE = 16 * TILE  # numbers of a table
SLACK = 8  # numbers beyond an array whose first one is to be at the beginning of a cache line
COMPILED = not config.DISABLE_JIT
_ADDRESS, _WORD, _NUMBERS = ir.IntType(64), ir.IntType(32), ir.VectorType(ir.DoubleType(), 8)


@intrinsic
def _add_entries(typing: Any, sums: Any, tables: Any, words: Any, n_words: Any) -> Any:
    """Add to each line of sums (n_words, TILE) the entries of `GROUPS` tables that its word names; all are addresses.

    A loop over arrays would ask, line by line, whether they overlap, which takes as long as to add them.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sums, tables, words, n_words = args

        def number(value: int) -> Any:
            return ir.Constant(_ADDRESS, value)

        def place(start: Any, offset: int, kind: Any) -> Any:
            return builder.inttoptr(builder.add(start, number(offset)), kind.as_pointer())

        with cgutils.for_range(builder, n_words) as loop:
            address = builder.add(words, builder.mul(loop.index, number(4)))
            word = builder.zext(builder.load(place(address, 0, _WORD), align=4), _ADDRESS)
            line = builder.add(sums, builder.mul(loop.index, number(ENTRY)))
            entries = []
            for group in range(GROUPS):
                bits = builder.and_(builder.lshr(word, number(4 * group)), number(15))
                entries.append(builder.add(tables, builder.mul(bits, number(ENTRY))))
            for first in range(0, ENTRY, 64):
                target = place(line, first, _NUMBERS)
                total = builder.load(target, align=8)
                for group, entry in enumerate(entries):
                    part = place(entry, first + 8 * TABLE * group, _NUMBERS)
                    total = builder.fadd(total, builder.load(part, align=8))
                builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


@kernel
def _add_entries_plainly(sums, tables, words):
    """Do what `_add_entries` does, where there is no compiler."""
    for line in range(words.size):
        for group in range(GROUPS):
            entry = (words[line] >> np.uint32(4 * group)) & np.uint32(15)
            for k in range(TILE):
                sums[line, k] += tables[group, entry, k]


@kernel
def _aligned(lines):
    """Return zeros (lines, TILE) that begin with a cache line: a load of a vector that lies in two takes twice."""
    room = zeros(lines * TILE + SLACK, np.float64)
    first = -(room.ctypes.data // 8) % SLACK
    return room[first : first + lines * TILE].reshape(lines, TILE)


@kernel
def add_bit_product(product, left, words, off, on):
    """Add to `product` (n, m) that of `left` (n, k) and a matrix (k, m) of two values. Mutates `product`.

    The values are `off` and `on`, as the bits of `words` (ceil(k / 32), m) uint32 say; `left` and `product` are float64
    and their rows contiguous.  Cost: a load and an addition for four products, and as much as some 50 columns of it.
    """
    (n, m), width = product.shape, left.shape[1]
    sums, flat, lines = _aligned(m), _aligned(GROUPS * 16), zeros((COLUMNS, TILE), np.float64)
    tables = flat.reshape(GROUPS, 16, TILE)
    for row in range(0, n, TILE):
        height = min(TILE, n - row)
        sums[:] = 0.0
        for w in range(words.shape[0]):
            some = min(COLUMNS, width - COLUMNS * w)
            for k in range(height):
                for j in range(some):
                    lines[j, k] = left[row + k, COLUMNS * w + j]
            for j in range(some, COLUMNS):
                lines[j] = 0.0
            _fill(tables, lines, off, on - off)
            if COMPILED:
                _add_entries(sums.ctypes.data, tables.ctypes.data, words[w].ctypes.data, m)
            else:
                _add_entries_plainly(sums, tables, words[w])
        for k in range(height):
            for j in range(m):
                product[row + k, j] += sums[j, k]


@kernel
def _fill(tables, lines, off, span):
    """Write the sixteen sums of every four lines. Mutates `tables` (GROUPS, 16, TILE)."""
    for group in range(GROUPS):
        a, b, c, d = lines[4 * group], lines[4 * group + 1], lines[4 * group + 2], lines[4 * group + 3]
        for k in range(TILE):
            tables[group, 0, k] = off * ((a[k] + b[k]) + (c[k] + d[k]))
        for bit in range(4):
            for entry in range(1 << bit):
                for k in range(TILE):
                    more = span * lines[4 * group + bit, k]
                    tables[group, entry + (1 << bit), k] = tables[group, entry, k] + more
