"""Random numbers for lanes, and the thresholds that single-spin updates compare with them.

Every chain has one xoshiro128++ stream.

Blackman and Vigna, ACM Trans. Math. Softw. 47, 36 (2021), doi:10.1145/3460772. A uniform number is (k + 1/2) / 2^32.
Logarithms are polynomials in float32 (no libm, no re-association), so that the bits are the same on every processor.
"""

import numpy as np

from .functions import bits_of, number_of
from .jit import apart_borrowing, inlined, kernel

_LN2 = np.float32(0.6931471805599453)
_HALF_BITS = np.int32(0x3F000000)
_SQRT_HALF_BITS = np.int32(0x3F3504F3)


@kernel
def next_word(a, b, c, d):
    """Return 32 random bits and the state that follows the state (a, b, c, d) of a stream, all uint32.

    Cost: 12 integer operations; in a loop over lanes all of it is vector code.
    """
    # numba widens uint32 sums and shifts to 64 bits: cast after every one
    total = np.uint32(a + d)
    rotated = np.uint32(np.uint32(total << np.uint32(7)) | np.uint32(total >> np.uint32(25)))
    word = np.uint32(rotated + a)
    shifted = np.uint32(b << np.uint32(9))
    c = np.uint32(c ^ a)
    d = np.uint32(d ^ b)
    b = np.uint32(b ^ c)
    a = np.uint32(a ^ d)
    return word, a, b, np.uint32(c ^ shifted), np.uint32(np.uint32(d << np.uint32(11)) | np.uint32(d >> np.uint32(21)))


@apart_borrowing
def draw_bits(streams, bits):
    """Advance every stream by one step and write its 32 bits to `bits`. Mutates `streams`, `bits`.

    Invariant: stream l is column l of `streams` (4, n_lanes), never all zero.
    Cost: one `next_word` a lane, vectorised.
    """
    s0, s1, s2, s3 = streams[0], streams[1], streams[2], streams[3]
    for lane in range(bits.shape[0]):
        bits[lane], s0[lane], s1[lane], s2[lane], s3[lane] = next_word(s0[lane], s1[lane], s2[lane], s3[lane])


@inlined
def uniform_of_words(high, low):
    """Return the number of [0, 1) with the 53 bits of two words, those of `high` in front."""
    return np.float64(high) * 2.0**-32 + np.float64(np.uint32(low >> np.uint32(11))) * 2.0**-53


@inlined
def _split(x, least_bits):
    """Split a positive normal float32 into 2^e and the mantissa m.

    m is from the float with bits `least_bits` to twice that.
    """
    word = bits_of(np.float32(x))
    exponent = np.int32(np.int32(word - least_bits) >> np.int32(23))
    mantissa = number_of(np.int32(word - np.int32(exponent << np.int32(23))))
    return np.float32(exponent), mantissa


@inlined
def log_float32(x):
    """Return the natural logarithm of a positive normal float32, to 2e-7 of the larger of itself and 1.

    x = 2^e m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(t), t = (m - 1) / (m + 1), by a polynomial in t^2 (error
    7e-10).
    """
    exponent, m = _split(x, _SQRT_HALF_BITS)
    t = np.float32(np.float32(m - np.float32(1.0)) / np.float32(m + np.float32(1.0)))
    t2 = np.float32(t * t)
    series = np.float32(t2 * np.float32(0.29924390486522107)) + np.float32(0.39974850517130894)
    series = np.float32(series * t2) + np.float32(0.6666681533815094)
    series = np.float32(series * t2) + np.float32(1.9999999986313186)
    return np.float32(np.float32(exponent * _LN2) + np.float32(t * series))


@inlined
def logit_of_bits(word):
    """Return logit(u) of the uniform number with these 32 bits, to 3e-7 of the larger of itself and 1.

    The top bit is the sign, so that both tails reach 2^-33. The rest is h < 1/2 = 2^e m with m in [1/2, 1), and
    log(h / (1 - h)) = e log 2 + 2 atanh((m - q) / (m + q)), q = 1 - h, takes one division (polynomial error 4e-9).
    """
    h = np.float32(np.float32(np.int32(word & np.uint32(0x7FFFFFFF))) + np.float32(0.5)) * np.float32(2.0**-32)
    exponent, m = _split(h, _HALF_BITS)
    q = np.float32(np.float32(1.0) - h)
    t = np.float32(np.float32(m - q) / np.float32(m + q))
    t2 = np.float32(t * t)
    series = np.float32(t2 * np.float32(0.28157778372049935)) + np.float32(0.2796515774406042)
    series = np.float32(series * t2) + np.float32(0.4002459523064627)
    series = np.float32(series * t2) + np.float32(0.6666632164138306)
    series = np.float32(series * t2) + np.float32(2.000000007681759)
    lower = np.float32(np.float32(exponent * _LN2) + np.float32(t * series))
    return -lower if word & np.uint32(0x80000000) else lower


@inlined
def log_of_bits(word):
    """Return log(u) of the uniform number with these 32 bits, at most 0."""
    return log_float32(np.float32(np.float32(word) + np.float32(0.5)) * np.float32(2.0**-32))
