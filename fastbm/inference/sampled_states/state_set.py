"""The distinct states among many, with their energies, in bounded memory: where it runs out the lowest half stays."""

from __future__ import annotations

import math

import numpy as np

from ...kernels.inference.state_set import find_states, insert_states, move_states

FULLEST = 0.7  # part of a table's slots that may be taken
FEWEST_SLOTS = 1 << 10


class StateSet:
    """A set of packed states.

    Parameters
    ----------
    n_units : int
    max_bytes : float
        Memory that the table may take, also while it grows. At least `FEWEST_SLOTS` slots are had in any case.

    Attributes
    ----------
    ceiling : float
        States are taken in below this energy: infinite until memory ran out for the first time.
    """

    def __init__(self, n_units: int, max_bytes: float) -> None:
        self.n_units = n_units
        self.ceiling = math.inf
        self._n_words = -(-n_units // 64)
        slot_bytes = 8 * self._n_words + 12
        # the next table stands beside the one that is full
        self._most_slots = max(FEWEST_SLOTS, 1 << int(math.log2(max(max_bytes / (2.0 * slot_bytes), 1.0))))
        self._keys, self._energies, self._counts = self._table(FEWEST_SLOTS)
        self._n_states = 0

    def __len__(self) -> int:
        return self._n_states

    @property
    def energies(self) -> np.ndarray:
        """Energies of the states, (n_states,)."""
        return self._energies[self._counts > 0]

    @property
    def counts(self) -> np.ndarray:
        """How often each state was added since it entered the set, (n_states,)."""
        return self._counts[self._counts > 0]

    @property
    def packed(self) -> np.ndarray:
        """The states, (n_states, ceil(n_units / 8)) uint8, unit 0 in the lowest bit; in the order of the others."""
        return self._keys[self._counts > 0].view(np.uint8)[:, : -(-self.n_units // 8)]

    def add(self, packed: np.ndarray, energies: np.ndarray) -> np.ndarray:
        """Add states with their energies; return which lie below the ceiling.

        States are (n, ceil(n_units / 8)) uint8, energies (n,), what is returned (n,) bool.
        """
        words, done = self._words(packed), 0
        while done < len(words):
            room = int(FULLEST * len(self._counts)) - self._n_states
            args = self._keys, self._energies, self._counts, words[done:], energies[done:]
            n_searched, n_new = insert_states(*args, room, self.ceiling)
            self._n_states += n_new
            done += n_searched
            if done < len(words):
                self._make_room()
        return energies < self.ceiling

    def contains(self, packed: np.ndarray) -> np.ndarray:
        """Return whether each of some states, (n, ceil(n_units / 8)) uint8, is in the set."""
        found = np.empty(len(packed), np.bool_)
        find_states(self._keys, self._counts, self._words(packed), found)
        return found

    def _make_room(self) -> None:
        n_slots, kept = len(self._counts), self._counts > 0
        if n_slots < self._most_slots:
            n_slots *= 2
        else:
            taken = np.flatnonzero(kept)
            half = len(taken) // 2
            order = np.argpartition(self._energies[taken], half)
            kept[taken[order[half:]]] = False
            self.ceiling = float(self._energies[taken[order[half]]])
            self._n_states = half
        new = self._table(n_slots)
        move_states(self._keys, self._energies, self._counts, kept, *new)
        self._keys, self._energies, self._counts = new

    def _table(self, n_slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros((n_slots, self._n_words), np.uint64), np.empty(n_slots), np.zeros(n_slots, np.uint32)

    def _words(self, packed: np.ndarray) -> np.ndarray:
        words = np.zeros((len(packed), 8 * self._n_words), np.uint8)
        words[:, : packed.shape[1]] = packed
        return words.view("<u8")
