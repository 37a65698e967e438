"""Hyperbolic functions that vectorise: polynomials after range reduction, no libm, safe for arguments of any size.

expm1(x) = 2^k expm1(r) + (2^k - 1), k = round(x / log 2), |r| <= log(2) / 2 (Cody and Waite, Software Manual for the
Elementary Functions, 1980, ch. 6 and 12).
"""

import numpy as np

from .._jit import inlined
from .functions import log1p_float64

_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding and subtracting it rounds to an integer


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
    power = np.int64((np.int64(k) + np.int64(1023)) << np.int64(52)).view(np.float64)
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
