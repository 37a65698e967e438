"""Slow twin of the set of states: a dict, which forgets the upper half when it is full."""

from __future__ import annotations

import math
from collections.abc import Sequence


class States:
    """Distinct states with their energies and counts; at most `most` of them."""

    def __init__(self, most: int) -> None:
        self.most, self.ceiling = most, math.inf
        self.energy: dict[bytes, float] = {}
        self.count: dict[bytes, int] = {}

    def add(self, states: Sequence[bytes], energies: Sequence[float]) -> None:
        for state, energy in zip(states, energies, strict=True):
            if energy >= self.ceiling:
                continue
            if state not in self.energy and len(self.energy) == self.most:
                self._forget()
                if energy >= self.ceiling:
                    continue
            self.energy[state] = energy
            self.count[state] = self.count.get(state, 0) + 1

    def _forget(self) -> None:
        ordered = sorted(self.energy, key=self.energy.__getitem__)
        half = len(ordered) // 2
        self.ceiling = self.energy[ordered[half]]
        for state in ordered[half:]:
            del self.energy[state], self.count[state]
