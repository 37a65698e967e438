"""One elimination of one machine: log Z, moments, and the tables that draws are made from, within given memory.

Small steps are done many at a time in one call, large ones in ranges of entries over threads. Ranges are fixed, so that
results do not depend on the number of threads. A stop is looked for between calls.

The way back needs the chances of all steps, in the reverse order. Where they are too many to be kept, messages are kept
at a few marks only, and everything between two marks is computed again (Chen et al., arXiv:1604.06174; Griewank and
Walther, ACM Trans. Math. Softw. 26, 19 (2000), doi:10.1145/347837.347846).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._base import threads as pools
from ..._base.halting import Halt, stop_if_asked
from ...kernels.exact import elimination as kernels, elimination_marginals as marginals_kernels
from ...machine.machine import BoltzmannMachine
from ...machine.up_form import up_form
from .program import Program

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
        """Compute the messages of some steps.

        Mutates `tables` (1 or 3, n_held), `chances` (the segment's, or of size 0), `shifts` (3, n_steps).
        """
        program = self.program

        def compute(part: tuple[int, int, int, int]) -> None:
            kernels.eliminate(tables, chances, shifts, program.steps, program.places, self.values, self.beta, part)

        for begin, end in self._calls(first, stop):
            if self._is_large(begin):
                self._fan_out(compute, [(begin, end, *span) for span in _ranges(int(self.sizes[begin]))])
            else:
                stop_if_asked(self.halt)
                compute((begin, end, 0, 1 << 62))

    def marginalise(self, sums: np.ndarray, marginals: np.ndarray, chances: np.ndarray, first: int, stop: int) -> None:
        """Pass marginals backward from step `stop` - 1 to `first`, steps of one segment.

        Mutates `sums` (n_places,), `marginals` (n_held,).
        """
        program = self.program
        for begin, end in reversed(list(self._calls(first, stop))):
            if self._is_large(begin):
                self._marginalise_large(sums, marginals, chances, begin)
            else:
                stop_if_asked(self.halt)
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
            stop_if_asked(self.halt)
            found += pools.fan_out(function, parts[first : first + GROUP], self.threads)
        return found


def _ranges(size: int) -> list[tuple[int, int]]:
    return [(first, min(first + RANGE, size)) for first in range(0, size, RANGE)]


KEPT = float(1 << 26)  # bytes of chances that are kept rather than computed again: fresh memory costs as much


@dataclass(frozen=True)
class Tables:
    """A machine and the program that eliminates its units.

    Energies are E = base + scale (-sum_i a_i x_i - sum_{i<j} A_ij x_i x_j), x_i = 1 where unit i is up, with a and A at
    most 1; `values` holds them clique by clique.
    """

    program: Program
    values: np.ndarray
    base: float
    scale: float
    beta: float

    @classmethod
    def of(cls, model: BoltzmannMachine, beta: float, program: Program) -> Tables:
        """Lay a machine's energies out for a program."""
        couplings, fields = up_form(model.couplings, model.flat_bias, model.convention)
        values = _by_clique(program, *couplings.csr(), fields)
        down = np.full(model.n_units, model.convention.lo)
        scale = math.ldexp(1.0, max(math.frexp(float(np.abs(values).max()))[1], -1000))
        return cls(program, values / scale, float(model.energy(down)), scale, beta)

    @property
    def is_finite(self) -> bool:
        """Whether no log-odds overflow."""
        return math.isfinite(self.beta * self.scale * float(np.abs(self.values).sum()) + self.beta * abs(self.base))

    def cut(self, n_rows: int, max_bytes: float, kept: float = KEPT) -> Tables:
        """Return the same tables with a program in segments that fit into `max_bytes`, if any do.

        It is one segment if its chances fit into `kept` too, otherwise those segments that need least.
        """
        whole = self.program
        if n_rows and (8.0 * whole.n_chances > kept or self.n_bytes(n_rows) > max_bytes):
            sizes = [1 << bit for bit in range(int(whole.sizes.max()).bit_length() - 1, whole.n_chances.bit_length())]
            cuts = [Tables(whole.cut(most), self.values, self.base, self.scale, self.beta) for most in sizes]
            return min(cuts, key=lambda cut: cut.n_bytes(n_rows))
        return self

    def n_bytes(self, n_rows: int) -> float:
        """Return the most memory held, with `n_rows` tables forward, and for the backward pass if there are any.

        0 rows stand for log Z alone.
        """
        program = self.program
        arrays = (program.steps, program.cliques, program.places, program.heights, program.work, self.values)
        fixed = 2.0 * sum(array.nbytes for array in arrays)
        if n_rows == 0:
            return fixed + 8.0 * program.n_held
        forth = n_rows * program.n_held + (program.n_chances if len(program.segments) == 1 else 0)
        back = 2 * program.n_held + program.n_chances
        return fixed + 8.0 * (program.n_kept + max(forth, back))

    def steps(self, threads: int, halt: Halt) -> Steps:
        """Return the steps, ready to be run."""
        return Steps(self.program, self.values, self.beta * self.scale, threads, halt)

    def log_z(self, shifts: np.ndarray) -> float:
        """Return log Z from the shifts of all messages."""
        return math.fsum([-self.beta * self.base, *shifts[0].tolist()])

    def sum_out(self, threads: int, halt: Halt) -> float:
        """Return log Z alone."""
        shifts = np.zeros((3, self.program.n_steps))
        tables = np.empty((1, self.program.n_held))
        self.steps(threads, halt).eliminate(tables, NO_CHANCES, shifts, 0, self.program.n_steps)
        return self.log_z(shifts)

    def chances(self, shifts: np.ndarray, n_rows: int, steps: Steps) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield the segments from the last to the first, with their chances.

        Mutates `shifts` (3, n_steps), which is complete when the first of them comes.

        With three tables `shifts` gets means and variances of the energy too.
        """
        program = self.program
        tables, kept = np.empty((n_rows, program.n_held)), []
        store = np.empty(program.n_chances if len(program.segments) == 1 else 0)
        for first, stop in program.segments:
            kept.append(self._live(tables, first))
            steps.eliminate(tables, store, shifts, first, stop)
        if len(program.segments) == 1:
            del tables, kept
            yield 0, program.n_steps, store
            return
        tables, store = np.empty((1, program.n_held)), np.empty(program.n_chances)
        for first, stop in reversed(program.segments):
            lower, upper = kept.pop()
            tables[0, : len(lower)] = lower
            tables[0, tables.shape[1] - len(upper) :] = upper
            del lower, upper
            steps.eliminate(tables, store, shifts, first, stop)
            yield first, stop, store

    def _live(self, tables: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the messages that are there before step k, on both stacks."""
        lower, upper = self.program.heights[k].tolist()
        return tables[0, :lower].copy(), tables[0, tables.shape[1] - upper :].copy()


def _by_clique(
    program: Program, indptr: np.ndarray, indices: np.ndarray, couplings: np.ndarray, fields: np.ndarray
) -> np.ndarray:
    """Biases and couplings in the order of the cliques, 0 for pairs that are not coupled."""
    n = len(fields)
    widths = program.steps[:, 1]
    own = np.repeat(program.cliques[program.steps[:, 0]], widths + 1)
    keys = np.repeat(np.arange(n, dtype=np.int64), np.diff(indptr)) * n + indices
    wanted = own * n + program.cliques
    values = np.zeros(len(wanted))
    if len(keys):
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        values = np.where(keys[at] == wanted, couplings[at], 0.0)
    alone = own == program.cliques
    values[alone] = fields[own[alone]]
    return values
