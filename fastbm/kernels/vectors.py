"""Vector code that no loop compiles to: sums of rows, kept in registers or looked up there.

Sixteen float32 are a register, and one AVX-512 instruction lets each of 16 lanes take the entry it asks for. With the
sixteen sums of four rows in the register, one look-up and one addition do for four rows and 16 lanes what a matrix
product needs four multiplications for.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .jit import cgutils, config, get_host_cpu_features, intrinsic, ir, types

COLUMNS = 4  # of the weights, whose sums are taken together
ROWS = 32  # a word: eight tables of four rows
TABLES = ROWS // 4 * COLUMNS * 64  # bytes of the tables of a word and `COLUMNS` columns
_FLOAT, _INDEX, _BIT, _SHORT, _ADDRESS = ir.FloatType(), ir.IntType(32), ir.IntType(1), ir.IntType(16), ir.IntType(64)
_BYTE = ir.IntType(8)
_VECTOR, _WORDS = ir.VectorType(_FLOAT, 16), ir.VectorType(_INDEX, 16)
_ZEROS, _NO_WORDS = ir.Constant(_VECTOR, [0.0] * 16), ir.Constant(_WORDS, [0] * 16)


TILED = not config.DISABLE_JIT  # without compiler there is no code of this kind


@cache
def has_look_up() -> bool:
    """Tell whether the processor that kernels are compiled for looks up sixteen entries at once."""
    if not TILED:
        return False
    features = config.CPU_FEATURES if config.CPU_FEATURES is not None else get_host_cpu_features()
    return "+avx512f" in features.split(",")


def fetch(builder: Any, place: Any) -> None:
    """Ask for what is at a place, which is needed soon: loops that are this short ask for little ahead."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INDEX, _INDEX, _INDEX])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(prefetch, [place, *(ir.Constant(_INDEX, k) for k in (0, 3, 1))])  # to read, into the nearest cache


def _tile(n_vectors: int) -> Any:
    """Make a function that adds sums of rows to `COLUMNS` rows of fields, in `n_vectors` vectors of lanes.

    Its arguments are an array of such numbers, float32 or int32, of which only the type is looked at; addresses and
    distances in bytes: of the fields and from row to row; of the tables; of the words that say which units are on, and
    from word to word; and the number of words.
    """

    @intrinsic
    def add_tile(
        typing: Any, like: Any, fields: Any, next_field: Any, tables: Any, words: Any, next_word: Any, n_words: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _, fields, next_field, tables, words, next_word, n_words = args
            code, kind = Code(builder), _VECTOR if like.dtype == types.float32 else _WORDS
            add = builder.fadd if kind is _VECTOR else builder.add
            places = [
                [code.at(fields, kind, (j, next_field), 64 * v) for v in range(n_vectors)] for j in range(COLUMNS)
            ]
            sums = [[code.kept(place, kind) for place in row] for row in places]
            words_left = [cgutils.alloca_once(builder, _WORDS) for _ in range(n_vectors)]
            with cgutils.for_range(builder, n_words) as loop:
                for v, register in enumerate(words_left):
                    builder.store(code.load(words, _WORDS, (loop.index, next_word), 64 * v), register)
                of_word = builder.add(tables, builder.mul(loop.index, ir.Constant(_ADDRESS, TABLES)))
                # a loop, as code eight times as long would be compiled eight times as long
                with cgutils.for_range(builder, ir.Constant(_ADDRESS, ROWS // 4)) as inner:
                    here = [code.load(of_word, kind, (inner.index, 64 * COLUMNS), 64 * j) for j in range(COLUMNS)]
                    for j in range(COLUMNS * (n_vectors > 1)):
                        fetch(builder, code.at(of_word, _BYTE, (inner.index, 64 * COLUMNS), TABLES + 64 * j))
                    for v, register in enumerate(words_left):
                        entries = builder.load(register)
                        builder.store(builder.lshr(entries, ir.Constant(_WORDS, [4] * 16)), register)
                        for j in range(COLUMNS):
                            total = add(builder.load(sums[j][v]), code.look_up(here[j], entries))
                            builder.store(total, sums[j][v])
            for row, targets in zip(sums, places, strict=True):
                for register, target in zip(row, targets, strict=True):
                    builder.store(builder.load(register), target, align=4)
            return context.get_dummy_value()

        return types.void(like, *[types.intp] * 6), generate

    return add_tile


@intrinsic
def fill_tables_of_columns(
    typing: Any, tables: Any, weights: Any, next_row: Any, next_column: Any, n_words: Any, masks: Any
) -> Any:
    """Write the sixteen sums of every four rows, for `COLUMNS` columns and `ROWS` rows a word.

    The arguments are addresses and distances in bytes: of the tables; of the weights, from row to row and from column
    to column; the number of words; and of the four masks of 16 bits that say which entries of a table have a row, as
    LLVM must not know them, or it would take shuffles instead of masked additions.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tables, weights, next_row, next_column, n_words, masks = args
        code = Code(builder)
        shorts = [code.load(masks, _SHORT, None, 2 * k) for k in range(4)]
        has_row = [builder.bitcast(short, ir.VectorType(_BIT, 16)) for short in shorts]
        n_groups = builder.mul(n_words, ir.Constant(_ADDRESS, ROWS // 4))
        with cgutils.for_range(builder, n_groups) as loop:
            first = builder.mul(loop.index, ir.Constant(_ADDRESS, 4))
            for j in range(COLUMNS):
                column = builder.add(weights, builder.mul(ir.Constant(_ADDRESS, j), next_column))
                total = _ZEROS
                for k in range(4):
                    row = builder.add(first, ir.Constant(_ADDRESS, k))
                    weight = code.everywhere(code.load(column, _FLOAT, (row, next_row), 0))
                    more = weight if k == 0 else builder.fadd(total, weight)
                    total = builder.select(has_row[k], more, total)
                place = code.at(tables, _VECTOR, (loop.index, 64 * COLUMNS), 64 * j)
                builder.store(total, place, align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


class Code:
    """Pieces of code."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def at(self, start: Any, kind: Any, steps: Any, offset: int) -> Any:
        """Return a pointer to a `kind`: so many steps (number, distance) and bytes beyond an address."""
        if steps is not None:
            times, distance = (ir.Constant(_ADDRESS, x) if isinstance(x, int) else x for x in steps)
            start = self._builder.add(start, self._builder.mul(times, distance))
        return self._builder.inttoptr(self._builder.add(start, ir.Constant(_ADDRESS, offset)), kind.as_pointer())

    def load(self, start: Any, kind: Any, steps: Any, offset: int) -> Any:
        """Return the `kind` that is so many steps and bytes beyond an address."""
        return self._builder.load(self.at(start, kind, steps, offset), align=2 if kind is _SHORT else 4)

    def kept(self, place: Any, kind: Any = _VECTOR) -> Any:
        """Return a register that starts with the vector that is at a place."""
        register = cgutils.alloca_once(self._builder, kind)
        self._builder.store(self._builder.load(place, align=4), register)
        return register

    def look_up(self, table: Any, entries: Any) -> Any:
        """Every lane's entry of a table; bits of its index above the fourth have no meaning."""
        kind, name = ir.FunctionType(table.type, [table.type, _WORDS]), "sf" if table.type == _VECTOR else "si"
        permute = cgutils.get_or_insert_function(self._builder.module, kind, f"llvm.x86.avx512.permvar.{name}.512")
        return self._builder.call(permute, [table, entries])

    def everywhere(self, value: Any, kind: Any = _VECTOR) -> Any:
        """Return a vector of which every lane is one number."""
        nothing = ir.Constant(kind, ir.Undefined)
        first = self._builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
        spread = ir.Constant(ir.VectorType(_INDEX, kind.count), [0] * kind.count)
        return self._builder.shuffle_vector(first, nothing, spread)


add_tabled_wide = _tile(4)
add_tabled_half = _tile(2)
add_tabled = _tile(1)


DOUBLES = 16 if has_look_up() else 8  # lanes of float64, of which few have room in registers


def _plain_tile(kind: Any) -> Any:
    """Make a function that adds rows times bits to `COLUMNS` rows of fields, in 16 lanes, four rows at a time.

    Of float64 it is `DOUBLES` lanes.

    Its arguments are addresses and distances in bytes: of the fields; of the weights, from column to column, each of
    which lies side by side; of the bits, from row to row; and the number of groups of four rows. `kind` is the type of
    all three.
    """
    size, lanes = (4, 16) if kind is _FLOAT else (8, DOUBLES)
    vector = ir.VectorType(kind, lanes)
    spread = ir.Constant(ir.VectorType(_INDEX, lanes), [0] * lanes)

    @intrinsic
    def add_plain_tile(
        typing: Any, fields: Any, next_field: Any, weights: Any, next_column: Any, up: Any, next_up: Any, n_groups: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            fields, next_field, weights, next_column, up, next_up, n_groups = args
            nothing = ir.Constant(vector, ir.Undefined)
            # a number times a bit is exact, so that one rounding gives the bits of two, where the processor fuses
            three = ir.FunctionType(vector, [vector] * 3)
            fuse = cgutils.get_or_insert_function(builder.module, three, f"llvm.fmuladd.v{lanes}f{8 * size}")

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
                        weight = builder.load(at(column, row, ir.Constant(_ADDRESS, size), kind), align=size)
                        whole = everywhere(weight)
                        total = builder.fmul(whole, bit) if total is None else builder.call(fuse, [whole, bit, total])
                    builder.store(builder.fadd(builder.load(place), total), place)
            for j, place in enumerate(sums):
                builder.store(builder.load(place), at(fields, j, next_field, vector), align=size)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), generate

    return add_plain_tile


add_plain_float32 = _plain_tile(_FLOAT)
add_plain_float64 = _plain_tile(ir.DoubleType())


@intrinsic
def transpose_square(typing: Any, like: Any, target: Any, next_target: Any, source: Any, next_source: Any) -> Any:
    """Write the transpose of 16 x 16 numbers; addresses, and distances in bytes from row to row.

    `like` is an array of such numbers, of which only the type is looked at. Rows i and i + n / 2 of n are interleaved
    to rows 2 i and 2 i + 1, again and again; or where registers hold 8 numbers, rows i and i + k exchange every second
    k numbers, for k of 4, 2 and 1.
    """
    number, size, whole = ir.IntType(like.dtype.bitwidth), like.dtype.bitwidth // 8, has_look_up()
    side = 16 if whole else 8

    def interleaved(builder: Any, rows: list[Any]) -> list[Any]:
        halves = [ir.Constant(_WORDS, [first + k // 2 + 16 * (k % 2) for k in range(16)]) for first in (0, 8)]
        for _ in range(4):
            rows = [builder.shuffle_vector(rows[k // 2], rows[k // 2 + 8], halves[k % 2]) for k in range(16)]
        return rows

    def exchanged(builder: Any, rows: list[Any]) -> list[Any]:
        few = ir.VectorType(_INDEX, 8)
        for k in (4, 2, 1):
            low = ir.Constant(few, [8 + c - k if c & k else c for c in range(8)])
            high = ir.Constant(few, [8 + c if c & k else c + k for c in range(8)])
            pairs = [(rows[i & ~k], rows[i | k]) for i in range(8)]
            rows = [builder.shuffle_vector(*pair, high if i & k else low) for i, pair in enumerate(pairs)]
        return rows

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, target, next_target, source, next_source = args
        code, kind = Code(builder), ir.VectorType(number, side)
        for first in range(0, 16, side):
            for column in range(0, 16, side):
                rows = [code.load(source, kind, (first + k, next_source), size * column) for k in range(side)]
                for k, row in enumerate(interleaved(builder, rows) if whole else exchanged(builder, rows)):
                    builder.store(row, code.at(target, kind, (column + k, next_target), size * first), align=4)
        return context.get_dummy_value()

    return types.void(like, *[types.intp] * 4), generate


FACTORS = 32  # products side by side


@intrinsic
def multiply_factors(typing: Any, product: Any, own: Any, terms: Any, rises: Any, others: Any, n: Any) -> Any:
    """Multiply 32 products by term + rise, n times, with the rise of `others` where a number of `own` is not 0.

    All are addresses: `product`, `own` of 32 float64, `terms` of (n, 32), `rises` and `others` of (n,).
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product, own, terms, rises, others, n = args
        code, number = Code(builder), ir.DoubleType()
        kind = ir.VectorType(number, 8)
        places = [code.at(product, kind, None, 64 * v) for v in range(FACTORS // 8)]
        registers = [cgutils.alloca_once_value(builder, builder.load(place, align=8)) for place in places]
        zeros = ir.Constant(kind, [0.0] * 8)
        owns = [builder.load(code.at(own, kind, None, 64 * v), align=8) for v in range(FACTORS // 8)]
        masks = [builder.fcmp_ordered("==", held, zeros) for held in owns]
        with cgutils.for_range(builder, n) as loop:
            rise, other = (code.everywhere(code.load(k, number, (loop.index, 8), 0), kind) for k in (rises, others))
            for v, register in enumerate(registers):
                term = builder.load(code.at(terms, kind, (loop.index, 8 * FACTORS), 64 * v), align=8)
                factor = builder.fadd(term, builder.select(masks[v], rise, other))
                builder.store(builder.fmul(builder.load(register), factor), register)
        for register, place in zip(registers, places, strict=True):
            builder.store(builder.load(register), place, align=8)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


def _edges(conjunction: bool) -> Any:
    """Make a function that adds numbers to 128 chains in the bits of words, where two units are both up or unlike.

    Its arguments are addresses: of words (units, 4) uint32, sums (128,) float64, edges (n, 2) int32 and numbers (n,)
    float64; and the number of edges. What is added is masked, which LLVM makes of no loop over bits. Without AVX-512
    the sums of all chains are more than there are registers, so that edges are gone through once for every word.
    """
    sums, mask, n_words = ir.VectorType(ir.DoubleType(), 32), ir.VectorType(_BIT, 32), 4
    nothing, none = ir.Constant(sums, ir.Undefined), ir.Constant(sums, [0.0] * 32)

    @intrinsic
    def add_edges(typing: Any, up: Any, energies: Any, edges: Any, numbers: Any, n_edges: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            up, energies, edges, numbers, n_edges = args
            code, together = Code(builder), n_words if has_look_up() else 1
            rounds = ir.Constant(_ADDRESS, n_words // together)
            spread = ir.Constant(ir.VectorType(_INDEX, 32), [0] * 32)
            totals = [cgutils.alloca_once(builder, sums) for _ in range(together)]
            with cgutils.for_range(builder, rounds) as outer:
                own = builder.add(up, builder.mul(outer.index, ir.Constant(_ADDRESS, 4 * together)))
                places = [code.at(energies, sums, (outer.index, 256 * together), 256 * w) for w in range(together)]
                for total, place in zip(totals, places, strict=True):
                    builder.store(builder.load(place, align=8), total)
                with cgutils.for_range(builder, n_edges) as loop:
                    one, other = (
                        builder.sext(builder.load(code.at(edges, _INDEX, (loop.index, 8), 4 * k), align=4), _ADDRESS)
                        for k in range(2)
                    )
                    number = builder.load(code.at(numbers, ir.DoubleType(), (loop.index, 8), 0), align=8)
                    first = builder.insert_element(nothing, number, ir.Constant(_INDEX, 0))
                    everywhere = builder.shuffle_vector(first, nothing, spread)
                    for w, total in enumerate(totals):
                        words = [
                            builder.load(code.at(own, _INDEX, (unit, 16), 4 * w), align=4) for unit in (one, other)
                        ]
                        word = builder.and_(*words) if conjunction else builder.xor(*words)
                        more = builder.select(builder.bitcast(word, mask), everywhere, none)
                        builder.store(builder.fadd(builder.load(total), more), total)
                for total, place in zip(totals, places, strict=True):
                    builder.store(builder.load(total), place, align=8)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), generate

    return add_edges


add_common_edges = _edges(True)
add_unlike_edges = _edges(False)
