"""What rounding to fixed point has left of dense couplings, and fields of it for the chains of a block.

With remainders energies of fields are those of the user's couplings to `REMAINDER_ERROR` of a unit of the fields for
each coupling and each bias.
"""

from __future__ import annotations

import numpy as np

from ...kernels.sampling.field_energies import STEPS, TILE, energies_of_fields, refined_energies
from ...kernels.sampling.rounding import fill_remainders
from .fixed_point import FixedPoint

REMAINDER_ERROR = 0.5 / STEPS


class Remainders:
    """Remainders of couplings, (n_tiles, n_units, 64), and of fields with all units down, (1 or n_chains, width).

    There are no tiles where couplings are multiples of the unit of the fields, or where this is as fine as float64.
    """

    def __init__(
        self,
        point: FixedPoint,
        scaled: tuple[np.ndarray, float],
        field: np.ndarray,
        rises: np.ndarray,
        start: np.ndarray,
    ) -> None:
        n_units, width = rises.shape
        self._tiles = np.zeros((width // TILE if rises.dtype == np.int32 else 0, n_units, TILE), np.int16)
        self._start = np.zeros((len(start), len(self._tiles) * TILE), np.int32)
        if not len(self._tiles):
            return
        self._start[:, :n_units] = point.rest(field, start[:, :n_units])
        if not fill_remainders(*scaled, rises, self._tiles) and not self._start.any():
            self._tiles, self._start = self._tiles[:0], self._start[:, :0]

    def of_block(self, chains: slice) -> Refined:
        """Return fields of a block of chains whose units are all down."""
        start = self._start if len(self._start) == 1 else self._start[chains]
        return Refined(self._tiles, start, chains.stop - chains.start)


class Refined:
    """Fields of remainders of a block of chains, from sample to sample."""

    def __init__(self, tiles: np.ndarray, start: np.ndarray, n_chains: int) -> None:
        n_tiles, n_units, _ = tiles.shape
        fields = np.tile(start, (n_chains // len(start), 1)).reshape(n_chains, n_tiles, TILE)
        seen, moved = np.zeros((n_chains, n_units), np.uint8), np.empty((n_chains, n_units + 1), np.int32)
        self.arrays = (seen, fields, start, tiles, moved)  # as kernels take them

    def energies(self, up: np.ndarray, fields: np.ndarray, start: np.ndarray, chains: slice) -> np.ndarray:
        """Return energies of some chains above that of all units down, in the units of the fields.

        `up`, `fields` and `start` (1 row or one a chain) are those of these chains.
        """
        energies = np.empty(len(fields))
        seen, fine, fine_start, tiles, moved = self.arrays
        mine = fine_start if len(fine_start) == 1 else fine_start[chains]
        up = np.ascontiguousarray(up)
        refined_energies(up, fields, start, seen[chains], fine[chains], mine, tiles, moved[chains], energies)
        return energies


def coarse_energies(up: np.ndarray, fields: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return energies of chains above that of all units down, in the units of the fields, from these alone."""
    energies = np.empty(len(fields))
    energies_of_fields(up, fields, start, energies)
    return energies
