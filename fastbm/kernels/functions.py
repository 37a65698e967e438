"""Exponentials, logarithms and hyperbolic functions that vectorise: the same bits on every processor.

They are polynomials after range reduction, no libm; the hyperbolic ones are safe for arguments of any size. With k =
round(x / log 2) and |r| <= log(2) / 2,

    exp(x) = 2^k exp(r),    expm1(x) = 2^k expm1(r) + (2^k - 1).

Cody and Waite, Software Manual for the Elementary Functions, 1980, ch. 6 and 12.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .jit import apart_borrowing, borrowing, config, inlined, intrinsic, kernel, types

LANES = 16  # sums and products side by side
MOST_FACTORS = 1 << 13  # of at most 2, over all lanes, whose products are far below the largest number
_ROUND32 = np.float32(12582912.0)  # 1.5 * 2^23: adding and subtracting it rounds to an integer
_ROUND64 = 6755399441055744.0  # 1.5 * 2^52
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding and subtracting it rounds to an integer


# numbers as their bits, and how many bits are set: Numba compiles a function for every kind of `.view`
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


@kernel
def exp_float32(x):
    """Return exp(x) for a float32 x <= 88, relative error below 2e-7; 0 or below 1e-37 where x < -87."""
    x = max(np.float32(x), np.float32(-87.0))
    k = np.float32(np.float32(x * np.float32(1.4426950408889634)) + _ROUND32) - _ROUND32
    r = np.float32(x - np.float32(k * np.float32(0.693359375))) - np.float32(k * np.float32(-2.12194440e-4))
    series = np.float32(r * np.float32(1.0 / 5040.0)) + np.float32(1.0 / 720.0)
    series = np.float32(series * r) + np.float32(1.0 / 120.0)
    series = np.float32(series * r) + np.float32(1.0 / 24.0)
    series = np.float32(series * r) + np.float32(1.0 / 6.0)
    series = np.float32(series * r) + np.float32(0.5)
    series = np.float32(series * r) + np.float32(1.0)
    series = np.float32(series * r) + np.float32(1.0)
    power = number_of(np.int32(np.int32(np.int32(k) + np.int32(127)) << np.int32(23)))
    return np.float32(series * power)


@kernel
def exp_float64(x):
    """Return exp(x) for x <= 709, relative error below 1e-15; below 1e-307 where x < -708."""
    x = max(x, -708.0)
    k = (x * 1.4426950408889634 + _ROUND64) - _ROUND64
    r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    series = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    series = series * r + 1.0 / 39916800.0
    series = series * r + 1.0 / 3628800.0
    series = series * r + 1.0 / 362880.0
    series = series * r + 1.0 / 40320.0
    series = series * r + 1.0 / 5040.0
    series = series * r + 1.0 / 720.0
    series = series * r + 1.0 / 120.0
    series = series * r + 1.0 / 24.0
    series = series * r + 1.0 / 6.0
    series = series * r + 0.5
    series = series * r + 1.0
    series = series * r + 1.0
    power = number_of(np.int64((np.int64(k) + np.int64(1023)) << np.int64(52)))
    return series * power


@inlined
def exp2_float64(x):
    """Return 2^x for -1021 <= x <= 1021, relative error below 6e-16.

    The least polynomial of degree 10 that is 1 at 0 is off by 2.2e-16; its even and its odd part run side by side. k
    stands in the last bits of the sum that rounds x, from where it is added to the exponent.
    """
    rounded = np.float64(x + _ROUND64)
    r = x - (rounded - _ROUND64)
    q = r * r
    even = q * 7.038185705297106e-09 + 1.3215653560702869e-06
    odd = q * 1.0208323719825342e-07 + 1.5252659423503648e-05
    even = even * q + 0.00015403529994309113
    odd = odd * q + 0.001333355822580838
    even = even * q + 0.009618129107983096
    odd = odd * q + 0.055504108664481765
    even = even * q + 0.240226506959091
    odd = odd * q + 0.6931471805599492
    series = np.float64((even * q + 1.0) + odd * r)
    return number_of(np.int64(bits_of(series) + np.int64(bits_of(rounded) << np.int64(52))))


@kernel
def log1p_float64(x):
    """Return log(1 + x) for 0 <= x <= 1, relative error below 1e-15.

    log(1 + f) = 2 atanh(t), t = f / (2 + f), by a polynomial in t^2 (error 5e-18); from 1 + x = sqrt(2) on
    1 + x = 2 (1 + f).
    """
    upper = x > 0.41421356237309503
    f = 0.5 * (x - 1.0) if upper else x
    t = f / (2.0 + f)
    t2 = t * t
    series = t2 * 0.14617807153462828 + 0.15331611722050653
    series = series * t2 + 0.18182892432537032
    series = series * t2 + 0.22222211089379493
    series = series * t2 + 0.28571428626253836
    series = series * t2 + 0.3999999999989889
    series = series * t2 + 0.666666666666667
    log = 2.0 * t + t * (t2 * series)
    return log + 0.6931471805599453 if upper else log


@inlined
def log_float64(x):
    """Return the natural logarithm of a positive normal number, to 1e-15 of the larger of itself and 1."""
    word = bits_of(np.float64(x))
    exponent = np.int64(word >> np.int64(52)) - np.int64(1023)
    mantissa = number_of(np.int64(word - np.int64(exponent << np.int64(52))))
    return np.float64(exponent) * 0.6931471805599453 + log1p_float64(mantissa - 1.0)


@apart_borrowing
def add_logs(sums, product):
    """Add the logs of products, positive normal numbers, to sums; products are 1 then. Mutates `sums`, `product`."""
    for k in range(sums.size):
        sums[k] += log_float64(product[k])
        product[k] = 1.0


@borrowing
def multiply_exponentials(weights, exponents, top):
    """Multiply weights by exp(exponent - top). Mutates `weights` (m, n).

    Invariant: no exponent is above top + 709.  Cost: an exponential a number, vectorised.
    """
    for k in range(weights.shape[0]):
        row, own = weights[k], exponents[k]
        for j in range(row.size):
            row[j] *= exp_float64(own[j] - top)


@borrowing
def add_log_sums(totals, fields, low, high, room):
    """Add sum_i log(exp(low f_i) + exp(high f_i)) of every row. Mutates `totals` (n_rows,); `fields` is (n_rows, n).

    Each is the larger exponent, and the log of a factor between 1 and 2, of which products are taken before their log.
    `room` is (3, `LANES`) float64.  Cost: an exponential a number, in vectors.
    """
    n_rows, width = fields.shape
    whole, part, product, logs = width // LANES * LANES, room[0], room[1], room[2]
    product[:] = 1.0
    for row in range(n_rows):
        own, total = fields[row], 0.0
        part[:] = 0.0
        for first in range(0, whole, LANES):
            for k in range(LANES):
                field = own[first + k]
                part[k] += max(low * field, high * field)
                product[k] *= 1.0 + exp_float64(-abs((high - low) * field))
            if first % MOST_FACTORS == MOST_FACTORS - LANES:
                total += _sum_logs(logs, product)
        for k in range(width - whole):
            field = own[whole + k]
            part[k] += max(low * field, high * field)
            product[k] *= 1.0 + exp_float64(-abs((high - low) * field))
        larger = 0.0
        for k in range(LANES):
            larger += part[k]
        totals[row] += total + _sum_logs(logs, product) + larger


@apart_borrowing
def _sum_logs(logs, product):
    """Return the sum of the logs of products, which are 1 then. Mutates `product` and the room `logs`."""
    logs[:] = 0.0
    add_logs(logs, product)
    total = 0.0
    for k in range(logs.size):
        total += logs[k]
    return total


@inlined
def expm1_negative(x):
    """Return exp(x) - 1 for x <= 0, relative error below 1e-15; -1 where x < -700."""
    x = max(x, -700.0)
    k = (x * 1.4426950408889634 + _ROUND) - _ROUND
    r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    series = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    series = series * r + 1.0 / 39916800.0
    series = series * r + 1.0 / 3628800.0
    series = series * r + 1.0 / 362880.0
    series = series * r + 1.0 / 40320.0
    series = series * r + 1.0 / 5040.0
    series = series * r + 1.0 / 720.0
    series = series * r + 1.0 / 120.0
    series = series * r + 1.0 / 24.0
    series = series * r + 1.0 / 6.0
    series = series * r + 0.5
    small = r + r * r * series
    power = number_of(np.int64((np.int64(k) + np.int64(1023)) << np.int64(52)))
    return power * small + (power - 1.0)


@inlined
def tanh_float64(x):
    """Return tanh(x) = -e / (2 + e), e = expm1(-2 |x|), relative error below 2e-15."""
    e = expm1_negative(-2.0 * abs(x))
    size = -e / (2.0 + e)
    return -size if x < 0.0 else size


@inlined
def log_cosh_float64(x):
    """Return log cosh x = |x| + log1p(exp(-2 |x|)) - log 2, absolute error below 2e-16 (1 + |x|)."""
    size = abs(x)
    return size + log1p_float64(1.0 + expm1_negative(-2.0 * size)) - 0.6931471805599453


@inlined
def atanh_product(x, y):
    """Return atanh(tanh x tanh y) for x and y of any size, error below 1e-15 min(|x|, |y|).

    With a = min, b = max of |x|, |y|, s = exp(-2 (b - a)) and f = exp(-4 a) it is a - 1/2 log1p(s (1 - f) / (1 + s f)):
    nothing here can overflow, and what is subtracted is at most half as precise as `a` allows.
    """
    a, b = min(abs(x), abs(y)), max(abs(x), abs(y))
    s = 1.0 + expm1_negative(-2.0 * (b - a))
    e = expm1_negative(-4.0 * a)
    size = a - 0.5 * log1p_float64(-s * e / (1.0 + s * (1.0 + e)))
    return -size if (x < 0.0) != (y < 0.0) else size
