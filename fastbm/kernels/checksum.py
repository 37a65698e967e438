"""Fletcher's checksum as HDF5 computes it for the chunks of a dataset.

Of the words w_1 ... w_n (16 bits, the first byte the higher) it is the pair sum_i w_i, sum_i (n + 1 - i) w_i, both
modulo 65535. J. G. Fletcher, IEEE Trans. Commun. 30, 247 (1982), doi:10.1109/TCOM.1982.1095369.
"""

import numpy as np

from .arrays import zeros
from .jit import kernel

LANES, STEPS = 64, 256  # STEPS (STEPS + 1) / 2 words below 2^16 fit into 32 bits
MODULUS = 65535


@kernel
def sum_words(words, sums):
    """Set `sums` (2) uint64 to both sums of the 16-bit `words`, taken as the machine reads them, modulo 65535.

    A sum of words that are not all zero is in 1 ... 65535, so that it tells them from zeros.
    Cost: one pass over `words`, 64 at a time (0.1 ms a megabyte).
    """
    n_words = words.size
    n_rows = n_words // LANES
    table = words[: n_rows * LANES].reshape(n_rows, LANES)
    once, twice = zeros(LANES, np.uint32), zeros(LANES, np.uint32)
    first, second, modulus = np.uint64(0), np.uint64(0), np.uint64(MODULUS)
    for start in range(0, n_rows, STEPS):
        end = min(start + STEPS, n_rows)
        once[:] = 0
        twice[:] = 0
        for k in range(start, end):
            row = table[k]
            for lane in range(LANES):
                once[lane] += np.uint32(row[lane])
            for lane in range(LANES):
                twice[lane] += once[lane]
        # `twice` counts a word once for each row from its own on; what is behind the last row comes on top
        for lane in range(LANES):
            behind = np.uint64(n_words - end * LANES - lane + MODULUS)
            first += np.uint64(once[lane])
            second += (behind * np.uint64(once[lane]) + np.uint64(LANES) * np.uint64(twice[lane])) % modulus
    for i in range(n_rows * LANES, n_words):
        first += np.uint64(words[i])
        second += np.uint64(n_words - i) * np.uint64(words[i]) % modulus
    one = np.uint64(1)
    sums[0] = np.uint64(0) if first == np.uint64(0) else (first - one) % modulus + one
    sums[1] = np.uint64(0) if first == np.uint64(0) else (second + modulus - one) % modulus + one
