"""A set of states as a hash table of their packed words: open addressing with linear probing.

Knuth, The Art of Computer Programming 3 (2nd ed., 1998), section 6.4, algorithm L. A table has 2^k slots; `counts` is 0
where a slot is empty.
"""

import numpy as np

from ..arrays import copy_row
from ..jit import kernel


@kernel
def _slot(keys, counts, words):
    """Return where `words` stand in the table, or the empty slot where they belong."""
    last = np.uint64(counts.size - 1)
    key = np.uint64(0)
    for word in words:  # the finaliser of splitmix64, on every word in turn
        key = (key ^ word) + np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        key ^= key >> np.uint64(31)
    slot = np.int64(key & last)
    while counts[slot]:
        same = True
        for k in range(words.size):
            same = same and keys[slot, k] == words[k]
        if same:
            return slot
        slot = np.int64(np.uint64(slot + 1) & last)
    return slot


@kernel
def insert_states(keys, energies, counts, words, of_words, room, ceiling):
    """Count states below an energy, new ones for the first time; return how many were looked at, and how many are new.

    Stops before the first new state that finds no room. Mutates `keys` (n_slots, n_words) uint64, `energies` (n_slots,)
    and `counts` (n_slots,) uint32; `words` (n, n_words) are states, `of_words` (n,) their energies.  Cost: a few cache
    misses a state.
    """
    n_new = 0
    for i in range(of_words.size):
        if of_words[i] >= ceiling:
            continue
        slot = _slot(keys, counts, words[i])
        if counts[slot] == 0:
            if n_new == room:
                return i, n_new
            n_new += 1
            copy_row(keys[slot], words[i])
            energies[slot] = of_words[i]
        if counts[slot] < np.uint32(0xFFFFFFFF):
            counts[slot] += np.uint32(1)
    return of_words.size, n_new


@kernel
def find_states(keys, counts, words, found):
    """Write to `found` (n,) whether each of `words` (n, n_words) is in the table. Mutates `found`."""
    for i in range(found.size):
        found[i] = counts[_slot(keys, counts, words[i])] > 0


@kernel
def move_states(keys, energies, counts, kept, new_keys, new_energies, new_counts):
    """Put the states whose slot is `kept` (n_slots,) bool into a new table, which is empty. Mutates the new arrays."""
    for old in range(counts.size):
        if kept[old]:
            slot = _slot(new_keys, new_counts, keys[old])
            copy_row(new_keys[slot], keys[old])
            new_energies[slot], new_counts[slot] = energies[old], counts[old]
