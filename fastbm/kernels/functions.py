"""Exponentials that vectorise: polynomials after range reduction, no libm, the same bits on every processor.

exp(x) = 2^k exp(r), k = round(x / log 2), |r| <= log(2) / 2 (Cody and Waite, Software Manual for the Elementary
Functions, 1980, ch. 6).
"""

import numpy as np

from .._jit import kernel

_ROUND32 = np.float32(12582912.0)  # 1.5 * 2^23: adding and subtracting it rounds to an integer
_ROUND64 = 6755399441055744.0  # 1.5 * 2^52


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
    power = np.int32(np.int32(np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
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
    power = np.int64((np.int64(k) + np.int64(1023)) << np.int64(52)).view(np.float64)
    return series * power
