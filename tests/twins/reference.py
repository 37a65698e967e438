"""Slow, readable twins of the compiled kernels and of the model's formulas.

Nothing of fastbm is imported here. Words are plain Python ints, floats are float64, and exact sums are taken with 50
digits. A machine is (weights, bias, units): a symmetric matrix, a vector, and "spin" (-1, +1) or "binary" (0, 1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import mpmath
import numpy as np
from scipy import stats

DIGITS = 50
BITS = 1250  # of a probability: the 1075 of a float64 and those of 50 digits
WORD = 0xFFFFFFFF
VALUES = {"spin": (-1, 1), "binary": (0, 1)}


# Random numbers


def xoshiro(state: Sequence[int]) -> Iterator[int]:
    """Yield the words of xoshiro128++ from a state of four 32-bit words (Blackman and Vigna, 2021)."""
    s0, s1, s2, s3 = (int(word) for word in state)
    while True:
        yield (_rotate((s0 + s3) & WORD, 7) + s0) & WORD
        shifted = (s1 << 9) & WORD
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= shifted
        s3 = _rotate(s3, 11)


def _rotate(word: int, by: int) -> int:
    return ((word << by) | (word >> (32 - by))) & WORD


def log_of_bits(word: int) -> float:
    """log u of u = (word + 1/2) / 2^32."""
    return math.log((word + 0.5) / 2**32)


def logit_of_bits(word: int) -> float:
    """logit u, where the top bit says whether u or 1 - u is (rest + 1/2) / 2^32."""
    tail = ((word & 0x7FFFFFFF) + 0.5) / 2**32
    lower = math.log(tail) - math.log1p(-tail)
    return -lower if word >> 31 else lower


# Energies and fields


def energy(state: Sequence[float], weights: np.ndarray, bias: Sequence[float], offset: float = 0.0) -> float:
    """offset - sum over pairs of W_ij s_i s_j - sum_i b_i s_i."""
    n = len(state)
    pairs = sum(float(weights[i][j]) * state[i] * state[j] for i in range(n) for j in range(i))
    return offset - pairs - sum(float(bias[i]) * state[i] for i in range(n))


def field(state: Sequence[float], i: int, weights: np.ndarray, bias: Sequence[float]) -> float:
    """b_i + sum_j W_ij s_j."""
    return float(bias[i]) + sum(float(weights[i][j]) * state[j] for j in range(len(state)))


def join_blocks(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """The symmetric matrix of a layered machine, entry by entry."""
    sizes = [len(blocks[0]), *(np.shape(block)[1] for block in blocks)]
    whole = np.zeros((sum(sizes), sum(sizes)))
    for k, block in enumerate(blocks):
        top, left = sum(sizes[:k]), sum(sizes[: k + 1])
        for i, j in np.ndindex(np.shape(block)):
            whole[top + i, left + j] = whole[left + j, top + i] = block[i][j]
    return whole


def convert(weights: np.ndarray, bias: Sequence[float], units: str, to: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Weights, bias and added offset of the same machine in other units, by putting s = a x + c into the energy."""
    (lo, hi), (new_lo, new_hi) = VALUES[units], VALUES[to]
    a = (hi - lo) / (new_hi - new_lo)
    c = lo - a * new_lo
    n = len(bias)
    new_weights = np.array([[a * a * weights[i][j] for j in range(n)] for i in range(n)])
    new_bias = np.array([a * bias[i] + a * c * sum(weights[i][j] for j in range(n)) for i in range(n)])
    return new_weights, new_bias, energy([c] * n, weights, bias)


# Exact sums


class Exact(NamedTuple):
    """All that a sum over states gives, rounded to float64; `probabilities` are in the order of `states`."""

    log_z: float
    mean: np.ndarray
    second_moment: np.ndarray
    energy: float
    energy_variance: float
    entropy: float
    probabilities: np.ndarray
    states: np.ndarray


def all_states(n: int, units: str) -> list[tuple[int, ...]]:
    """Every state; state k has unit i up where bit i of k is set."""
    lo, hi = VALUES[units]
    return [tuple(hi if k >> i & 1 else lo for i in range(n)) for k in range(2**n)]


def enumerate_states(
    weights: np.ndarray,
    bias: Sequence[float],
    units: str,
    *,
    beta: float = 1.0,
    offset: float = 0.0,
    clamp: Mapping[int, int] | None = None,
) -> Exact:
    """Sum over all states (those that agree with `clamp`, unit to value) with 50 digits."""
    held = (clamp or {}).items()
    states = [s for s in all_states(len(bias), units) if all(s[i] == value for i, value in held)]
    scale = max(Fraction(float(x)).denominator for x in [*np.ravel(weights), *bias, offset])
    w = [[int(Fraction(float(x)) * scale) for x in row] for row in weights]
    b, constant = [int(Fraction(float(x)) * scale) for x in bias], int(Fraction(float(offset)) * scale)
    return sum_states(states, [constant + _exact_energy(s, w, b) for s in states], beta, scale)


def _exact_energy(state: Sequence[int], weights: list[list[int]], bias: list[int]) -> int:
    pairs = sum(weights[i][j] * state[i] * state[j] for i, j in itertools.combinations(range(len(state)), 2))
    return -pairs - sum(b * x for b, x in zip(bias, state, strict=True))


def sum_states(states: Sequence[Sequence[int]], energies: Sequence[int], beta: float, scale: int = 1) -> Exact:
    """Boltzmann averages of given states, whose energies are integers of any size, to be divided by `scale`.

    Averages are sums of integers, which take a tenth of what mpmath's numbers take: a probability is a multiple of
    2^-BITS.
    """
    with mpmath.workdps(DIGITS):
        lowest, per_unit = min(energies), mpmath.mpf(beta) / scale
        rises = np.array([e - lowest for e in energies], object)
        weights = [mpmath.exp(-per_unit * rise) for rise in rises.tolist()]
        z = mpmath.fsum(weights)
        p = [x / z for x in weights]
        shares, values = np.array([int(mpmath.ldexp(x, BITS)) for x in p], object), np.array(states, object)
        whole, risen = sum(shares), sum(shares * rises)
        shared = shares[:, None] * values
        spread = whole * sum(shares * rises * rises) - risen**2
        rise = mpmath.mpf(risen) / whole
        log_z = mpmath.log(z) - per_unit * lowest
        variance = mpmath.mpf(spread) / (whole * scale) ** 2
        return Exact(
            float(log_z), (shared.sum(axis=0) / whole).astype(float), (values.T @ shared / whole).astype(float),
            float((rise + lowest) / scale), float(variance), float(mpmath.log(z) + per_unit * rise),
            np.array(p, float), np.array(states),
        )  # fmt: skip


def free_energy(
    visible: Sequence[int],
    weights: np.ndarray,
    bias: Sequence[float],
    units: str,
    beta: float = 1.0,
    offset: float = 0.0,
) -> float:
    """-log of the sum over hidden units, taken one state after the other."""
    clamp = dict(enumerate(visible))
    return -enumerate_states(weights, bias, units, beta=beta, offset=offset, clamp=clamp).log_z


# Updates


def sweep(
    state: list[int],
    weights: np.ndarray,
    bias: Sequence[float],
    units: str,
    beta: float,
    words: Iterator[int],
    sites: Sequence[int],
    rule: str = "gibbs",
) -> int:
    """Attempt one update at every site in turn, one word each.

    Mutates `state`; returns the number of flips.
    """
    lo, hi = VALUES[units]
    flips = 0
    for i in sites:
        word = next(words)
        log_odds = beta * (hi - lo) * field(state, i, weights, bias)
        if rule == "gibbs":
            new = hi if log_odds > logit_of_bits(word) else lo
        else:
            rise = -log_odds if state[i] == hi else log_odds
            new = lo + hi - state[i] if rise >= log_of_bits(word) else state[i]
        flips += new != state[i]
        state[i] = new
    return flips


def update_layer(
    up: list[int], fields: Sequence[float], scale: float, words: Iterator[int], rule: str = "gibbs"
) -> list[int]:
    """Draw every unit of a layer (as bits) given its field, one word each; `scale` is beta (hi - lo)."""
    drawn = []
    for bit, h in zip(up, fields, strict=True):
        word = next(words)
        if rule == "gibbs":
            drawn.append(int(scale * h > logit_of_bits(word)))
        else:
            rise = -scale * h if bit else scale * h
            drawn.append(1 - bit if rise >= log_of_bits(word) else bit)
    return drawn


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)) without overflow."""
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def sum_softplus(log_odds: Sequence[float]) -> float:
    """sum of log(1 + exp(x))."""
    return math.fsum(max(x, 0.0) + math.log1p(math.exp(-abs(x))) for x in map(float, log_odds))


def anneal_layer(
    fields: Sequence[float], base: Sequence[float], before: float, after: float, words: Iterator[int]
) -> tuple[list[int], float]:
    """Draw a layer at t = `after` of a path, log-odds (1 - t) base + t field; also how its softplus sum changes."""
    old = [(1 - before) * b + before * h for b, h in zip(base, fields, strict=True)]
    new = [(1 - after) * b + after * h for b, h in zip(base, fields, strict=True)]
    return [int(x > logit_of_bits(next(words))) for x in new], sum_softplus(new) - sum_softplus(old)


# Bits


def pack(bits: Sequence[int]) -> int:
    """One integer, bit k of it for entry k."""
    return sum(int(bit) << k for k, bit in enumerate(bits))


def pack_words(bits: Sequence[int], width: int) -> list[int]:
    """Integers of `width` bits, the last one filled up with zeros."""
    return [pack(bits[first : first + width]) for first in range(0, len(bits), width)]


def count_pairs(up: np.ndarray) -> np.ndarray:
    """How often units i <= j are up together; `up` is (n_units, n_chains). The lower triangle is 0."""
    n = len(up)
    counts = np.zeros((n, n), int)
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        counts[i, j] = sum(int(a) & int(b) for a, b in zip(up[i], up[j], strict=True))
    return counts


# Statistics


def g_test(counts: Sequence[int], probabilities: Sequence[float], least: float = 5.0) -> float:
    """Return the p-value of independent counts under `probabilities`, by a G-test.

    Cells with fewer than `least` expected counts are merged, rarest first.
    """
    counts, probabilities = np.asarray(counts, float), np.asarray(probabilities, float)
    assert abs(probabilities.sum() - 1) < 1e-9
    expected = counts.sum() * probabilities
    observed_cells, expected_cells = [0.0], [0.0]
    for k in np.argsort(expected, kind="stable"):
        if expected_cells[-1] >= least:
            observed_cells.append(0.0)
            expected_cells.append(0.0)
        observed_cells[-1] += counts[k]
        expected_cells[-1] += expected[k]
    g = 2 * sum(o * math.log(o / e) for o, e in zip(observed_cells, expected_cells, strict=True) if o > 0)
    return float(stats.chi2.sf(g, len(expected_cells) - 1))


def half_sums(values: np.ndarray, pairs: list[tuple[int, int]], half: int) -> tuple[list[float], int]:
    """Sums of s_i s_j over the rows of even (0) or odd (1) number, and how many rows these are."""
    rows = [row for number, row in enumerate(values.tolist()) if number % 2 == half]
    return [sum(row[i] * row[j] for row in rows) for i, j in pairs], len(rows)


def crc32(data: bytes) -> int:
    """The CRC of ISO 3309 (polynomial 0x04C11DB7, bits reflected), a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def fletcher32(data: bytes) -> bytes:
    """The checksum of HDF5's filter of that name: a running sum of 16-bit words, and a running sum of that."""
    once = twice = 0
    for k in range(0, len(data), 2):
        once += int.from_bytes(data[k : k + 2].ljust(2, b"\0"), "big")
        twice += once
    low, high = ((total - 1) % 65535 + 1 if total else 0 for total in (once, twice))
    return low.to_bytes(2, "little") + high.to_bytes(2, "little")
