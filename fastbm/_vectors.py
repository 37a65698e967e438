"""Vector code that no loop compiles to: sums of rows, kept in registers or looked up there.

Sixteen float32 are a register, and one AVX-512 instruction lets each of 16 lanes take the entry it asks for. With the
sixteen sums of four rows in the register, one look-up and one addition do for four rows and 16 lanes what a matrix
product needs four multiplications for.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from ._jit import config

COLUMNS = 4  # of the weights, whose sums are taken together
ROWS = 32  # a word: eight tables of four rows
_FLOAT, _INDEX, _BIT, _SHORT, _ADDRESS = ir.FloatType(), ir.IntType(32), ir.IntType(1), ir.IntType(16), ir.IntType(64)
_VECTOR, _WORDS = ir.VectorType(_FLOAT, 16), ir.VectorType(_INDEX, 16)
_ZEROS = ir.Constant(_VECTOR, [0.0] * 16)


TILED = not config.DISABLE_JIT  # without compiler there is no code of this kind


def has_look_up() -> bool:
    """Whether the processor that kernels are compiled for looks up sixteen entries at once."""
    if not TILED:
        return False
    features = config.CPU_FEATURES if config.CPU_FEATURES is not None else get_host_cpu_features()
    return "+avx512f" in features.split(",")


def _tile(n_vectors: int, *, tabled: bool) -> Any:
    """A function that adds sums of rows to `COLUMNS` rows of fields, in `n_vectors` vectors of lanes.

    Its arguments are addresses and distances in bytes: of the fields; of the tables, or of the weights with the
    distances from row to row and from column to column; of the words that say which units are on; the number of
    words; and of the four masks of 16 bits that say which entries of a table have a row, as LLVM must not know them,
    or it would take shuffles instead of masked additions.
    """

    @intrinsic
    def add_tile(
        typing: Any, fields: Any, next_field: Any, weights: Any, next_row: Any, next_column: Any, words: Any,
        next_word: Any, n_words: Any, masks: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = _Code(builder, *args)
            masks = [] if tabled else code.masks()
            sums = [[code.kept(code.field(j, v)) for v in range(n_vectors)] for j in range(COLUMNS)]
            with cgutils.for_range(builder, code.n_words) as loop:
                words = [code.word(loop.index, v) for v in range(n_vectors)]
                held = [[builder.load(place) for place in row] for row in sums]
                for group in range(ROWS // 4):
                    tables = [
                        code.table(loop.index, group, j) if tabled else code.sums_of_rows(loop.index, group, j, masks)
                        for j in range(COLUMNS)
                    ]
                    for v in range(n_vectors):
                        entries = builder.lshr(words[v], ir.Constant(_WORDS, [4 * group] * 16))
                        for j in range(COLUMNS):
                            held[j][v] = builder.fadd(held[j][v], code.look_up(tables[j], entries))
                for row, values in zip(sums, held, strict=True):
                    for place, value in zip(row, values, strict=True):
                        builder.store(value, place)
            for j in range(COLUMNS):
                for v in range(n_vectors):
                    builder.store(builder.load(sums[j][v]), code.field(j, v), align=4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 9), generate

    return add_tile


class _Code:
    """The parts of a tile's code."""

    def __init__(
        self, builder: Any, fields: Any, next_field: Any, weights: Any, next_row: Any, next_column: Any, words: Any,
        next_word: Any, n_words: Any, masks: Any,
    ) -> None:  # fmt: skip
        self._builder, self._fields, self._next_field = builder, fields, next_field
        self._weights, self._next_row, self._next_column = weights, next_row, next_column
        self._words, self._next_word, self.n_words = words, next_word, n_words
        self._look_up = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_VECTOR, [_VECTOR, _WORDS]), "llvm.x86.avx512.permvar.sf.512"
        )
        self._masks = masks

    def _at(self, start: Any, steps: list[tuple[Any, Any]], kind: Any) -> Any:
        """A pointer to a `kind` at an address, and so many times a distance (None: of a byte) on."""
        for times, distance in steps:
            times = ir.Constant(_ADDRESS, times) if isinstance(times, int) else times
            start = self._builder.add(start, times if distance is None else self._builder.mul(times, distance))
        return self._builder.inttoptr(start, kind.as_pointer())

    def masks(self) -> list[Any]:
        shorts = [self._builder.load(self._at(self._masks, [(2 * k, None)], _SHORT)) for k in range(4)]
        return [self._builder.bitcast(short, ir.VectorType(_BIT, 16)) for short in shorts]

    def kept(self, place: Any) -> Any:
        """A register that starts with what stands at a place."""
        register = cgutils.alloca_once(self._builder, _VECTOR)
        self._builder.store(self._builder.load(place, align=4), register)
        return register

    def field(self, j: int, v: int) -> Any:
        return self._at(self._fields, [(j, self._next_field), (64 * v, None)], _VECTOR)

    def word(self, index: Any, v: int) -> Any:
        return self._builder.load(self._at(self._words, [(index, self._next_word), (64 * v, None)], _WORDS), align=4)

    def table(self, index: Any, group: int, j: int) -> Any:
        """Sixteen sums as they lie ready."""
        size = ir.Constant(_ADDRESS, ROWS // 4 * COLUMNS * 64)
        steps = [(index, size), (64 * (COLUMNS * group + j), None)]
        return self._builder.load(self._at(self._weights, steps, _VECTOR), align=4)

    def sums_of_rows(self, index: Any, group: int, j: int, masks: list[Any]) -> Any:
        """Sixteen sums made of the four weights."""
        first = self._builder.mul(index, ir.Constant(_ADDRESS, ROWS))
        total = _ZEROS
        for k in range(4):
            steps = [(first, self._next_row), (4 * group + k, self._next_row), (j, self._next_column)]
            weight = self._everywhere(self._builder.load(self._at(self._weights, steps, _FLOAT), align=4))
            more = weight if k == 0 else self._builder.fadd(total, weight)
            total = self._builder.select(masks[k], more, total)
        return total

    def look_up(self, table: Any, entries: Any) -> Any:
        """Every lane's entry of a table; bits of its index above the fourth have no meaning."""
        return self._builder.call(self._look_up, [table, entries])

    def _everywhere(self, value: Any) -> Any:
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        first = self._builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
        return self._builder.shuffle_vector(first, nothing, ir.Constant(_WORDS, [0] * 16))


add_tabled_wide = _tile(4, tabled=True)
add_tabled = _tile(1, tabled=True)
add_rows_wide = _tile(4, tabled=False)
add_rows = _tile(1, tabled=False)


def _plain_tile(kind: Any) -> Any:
    """A function that adds rows times bits to `COLUMNS` rows of fields, in 16 lanes, four rows at a time.

    Its arguments are addresses and distances in bytes: of the fields; of the weights, from row to row and from column
    to column; of the bits, from row to row; and the number of groups of four rows. `kind` is the type of all three.
    """
    size = 4 if kind is _FLOAT else 8
    vector = ir.VectorType(kind, 16)
    spread = ir.Constant(ir.VectorType(_INDEX, 16), [0] * 16)

    @intrinsic
    def add_plain_tile(
        typing: Any, fields: Any, next_field: Any, weights: Any, next_row: Any, next_column: Any, up: Any, next_up: Any,
        n_groups: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            fields, next_field, weights, next_row, next_column, up, next_up, n_groups = args
            nothing = ir.Constant(vector, ir.Undefined)

            def at(start: Any, times: Any, distance: Any, kind: Any) -> Any:
                times = ir.Constant(_ADDRESS, times) if isinstance(times, int) else times
                return builder.inttoptr(builder.add(start, builder.mul(times, distance)), kind.as_pointer())

            def everywhere(value: Any) -> Any:
                first = builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
                return builder.shuffle_vector(first, nothing, spread)

            sums = [cgutils.alloca_once(builder, vector) for _ in range(COLUMNS)]
            for j, place in enumerate(sums):
                builder.store(builder.load(at(fields, j, next_field, vector), align=size), place)
            with cgutils.for_range(builder, n_groups) as loop:
                first = builder.mul(loop.index, ir.Constant(_ADDRESS, 4))
                rows = [builder.add(first, ir.Constant(_ADDRESS, k)) for k in range(4)]
                bits = [builder.load(at(up, row, next_up, vector), align=size) for row in rows]
                for j, place in enumerate(sums):
                    column = builder.add(weights, builder.mul(ir.Constant(_ADDRESS, j), next_column))
                    total = None
                    for row, bit in zip(rows, bits, strict=True):
                        weight = builder.load(at(column, row, next_row, kind), align=size)
                        part = builder.fmul(everywhere(weight), bit)
                        total = part if total is None else builder.fadd(total, part)
                    builder.store(builder.fadd(builder.load(place), total), place)
            for j, place in enumerate(sums):
                builder.store(builder.load(place), at(fields, j, next_field, vector), align=size)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), generate

    return add_plain_tile


add_plain_float32 = _plain_tile(_FLOAT)
add_plain_float64 = _plain_tile(ir.DoubleType())
