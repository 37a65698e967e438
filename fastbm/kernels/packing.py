"""Bits of units, packed for the file (eight units a byte) and for counting (64 chains a word)."""

import numpy as np

from .._jit import kernel


@kernel
def pack_units(up, packed):
    """Pack each lane's units into bytes, unit 0 in the lowest bit. Mutates `packed` (n_chains, ceil(n_units / 8))
    uint8.

    `up` (n_units, lanes) holds 0 or 1; lanes beyond n_chains are left out.  Cost: one pass over `up`.
    """
    n_chains = packed.shape[0]
    row = np.empty(n_chains, np.uint8)
    for byte in range(packed.shape[1]):
        row[:] = 0
        for k in range(min(8, up.shape[0] - 8 * byte)):
            bits = up[8 * byte + k]
            for c in range(n_chains):
                row[c] |= np.uint8(np.uint8(bits[c]) << k)
        for c in range(n_chains):
            packed[c, byte] = row[c]


@kernel
def pack_chains(up, n_chains, words):
    """Pack each unit's chains into 64-bit words, chain 0 in the lowest bit. Mutates `words` (n_units, ceil(n_chains /
    64)).

    Bits beyond `n_chains` are 0.  Cost: one pass over `up` (n_units, lanes).
    """
    for i in range(up.shape[0]):
        for block in range(words.shape[1]):
            word = np.uint64(0)
            for k in range(min(64, n_chains - 64 * block)):
                word |= np.uint64(up[i, 64 * block + k]) << np.uint64(k)
            words[i, block] = word
