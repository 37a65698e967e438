"""Running an elimination: small steps many at a time in one call, large ones in ranges of entries over threads.

Ranges are fixed, so that results do not depend on the number of threads. A stop is looked for between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .. import threads as pools
from ..halting import Halt, look
from ..kernels import elimination as kernels, elimination_marginals as marginals_kernels
from .elimination_program import Program

RANGE = 1 << 17  # entries that one call does where a step is split
CALL = 1 << 21  # entries that one call does where steps are small
GROUP = 16  # ranges between two looks for a stop

NO_CHANCES = np.empty(0)


@dataclass(frozen=True)
class Steps:
    """A program with its couplings, about to be run.

    `values` (n_places,) are minus the energies that a clique's own unit brings when it is up, alone and with each unit
    of its scope; log-odds are `beta` times them.
    """

    program: Program
    values: np.ndarray
    beta: float
    threads: int
    halt: Halt

    @cached_property
    def sizes(self) -> np.ndarray:
        """Entries of every message."""
        return self.program.sizes

    def eliminate(self, tables: np.ndarray, chances: np.ndarray, shifts: np.ndarray, first: int, stop: int) -> None:
        """Compute the messages of some steps. Mutates `tables` (1 or 3, n_held), `chances` (the segment's, or of size
        0), `shifts` (3, n_steps).
        """
        program = self.program

        def compute(part: tuple[int, int, int, int]) -> None:
            kernels.eliminate(tables, chances, shifts, program.steps, program.places, self.values, self.beta, part)

        for begin, end in self._calls(first, stop):
            if self._is_large(begin):
                self._fan_out(compute, [(begin, end, *span) for span in _ranges(int(self.sizes[begin]))])
            else:
                look(self.halt)
                compute((begin, end, 0, 1 << 62))

    def marginalise(self, sums: np.ndarray, marginals: np.ndarray, chances: np.ndarray, first: int, stop: int) -> None:
        """Go back from step `stop` - 1 to `first`, steps of one segment. Mutates `sums` (n_places,), `marginals`
        (n_held,).
        """
        program = self.program
        for begin, end in reversed(list(self._calls(first, stop))):
            if self._is_large(begin):
                self._marginalise_large(sums, marginals, chances, begin)
            else:
                look(self.halt)
                marginals_kernels.marginalise(sums, marginals, chances, program.steps, program.places, begin, end)

    def _marginalise_large(self, sums: np.ndarray, marginals: np.ndarray, chances: np.ndarray, k: int) -> None:
        program = self.program
        step = program.steps[k]
        start, width = int(step[kernels.START]), int(step[kernels.WIDTH])

        def fold(span: tuple[int, int]) -> np.ndarray:
            found = np.zeros(1 + width)
            marginals_kernels.fold_up(found, marginals, chances, step, *span)
            return found

        def pass_down(part: tuple[int, int, int, int]) -> None:
            marginals_kernels.pass_down(marginals, chances, program.steps, program.places, part)

        for found in self._fan_out(fold, _ranges(1 << width)):
            sums[start : start + 1 + width] += found
        child = int(step[kernels.CHILD])
        while child >= 0:
            at, n_units = int(program.steps[child, kernels.START]) + 1, int(program.steps[child, kernels.WIDTH])
            n_blocks = 1 << int((program.places[at : at + n_units] > kernels.LOW).sum())
            together = max(1, n_blocks * RANGE >> width)  # blocks for which RANGE entries of the parent are read
            blocks = [(first, first + together) for first in range(0, n_blocks, together)]
            self._fan_out(pass_down, [(k, child, *span) for span in blocks])
            child = int(program.steps[child, kernels.SIBLING])

    def _is_large(self, k: int) -> bool:
        return int(self.sizes[k]) > RANGE

    def _calls(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut steps into those that are large, one by one, and runs of small ones."""
        program, begin, done = self.program, first, 0.0
        large = (self.sizes[first:stop] > RANGE).tolist()
        for k, (alone, work) in enumerate(zip(large, program.work[first:stop].tolist(), strict=True), first):
            if begin < k and (alone or done + work > CALL):
                yield begin, k
                begin, done = k, 0.0
            done += work
            if alone:
                yield k, k + 1
                begin, done = k + 1, 0.0
        if begin < stop:
            yield begin, stop

    def _fan_out(self, function: Callable, parts: list) -> list:
        found = []
        for first in range(0, len(parts), GROUP):
            look(self.halt)
            found += pools.fan_out(function, parts[first : first + GROUP], self.threads)
        return found


def _ranges(size: int) -> list[tuple[int, int]]:
    return [(first, min(first + RANGE, size)) for first in range(0, size, RANGE)]
