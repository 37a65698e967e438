"""The inverse problem as a run: each rule learns a planted machine again from rows drawn from it."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ..._base import rng
from ..._base.halting import Halt, Halted, never
from ..._base.streams import Stream
from ..._base.threads import single_threaded_blas
from ..._base.workers import Pieces, leaving
from ...learning.planted import machines as planted
from ...learning.planted.comparison import CONVERGED, NUMBERS, TEXTS
from ...learning.planted.rules import Learned, learn, warm_up
from ...machine.machine import BoltzmannMachine

FEWEST_PLACES = 16  # sets of rows, from which on each is a piece


class InverseTask:
    """The task of `compare_rules`: cells in order, each a rule on rows of a planted machine at a temperature.

    Parameters
    ----------
    models : mapping of name to BoltzmannMachine
    cells : list of dict
        "model", "beta", "n_rows", "seed", "rule" (its label), "method", "options" and "budget" of each. Rows depend on
        the first four alone; those, and what the planted machine is, are kept from one cell to the next.
    threads : int
    executor : Executor, optional
        Does the cells, all rules on the same rows as one piece, or each as one where there are few sets of rows.
    worker_threads : int
        On which each of its workers computes.

    Attributes
    ----------
    halt : function
        Asked for a stop while workers compute.
    """

    unit = "cell"

    def __init__(
        self,
        models: Mapping[str, BoltzmannMachine],
        cells: list[dict[str, Any]],
        *,
        threads: int,
        executor: Executor | None = None,
        worker_threads: int = 1,
    ) -> None:
        self._models, self._cells, self._threads = models, cells, threads
        self._executor, self._worker_threads = executor, worker_threads
        self.halt: Halt = never
        self._handed: Pieces | None = None
        self._n_done = 0
        self._warm: set[tuple[str, bool]] = set()
        self._place: tuple[Any, ...] = ()
        self._rows: planted.Rows
        self._truth: planted.MachineMoments | str

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that the run writes: one row for each cell; nan, "" and -1 (of "converged") stand for None."""
        numbers = {f"results/{name}": Stream("<f8") for name in NUMBERS}
        texts = {f"results/{name}": Stream("str") for name in TEXTS}
        return {**numbers, **texts, "results/converged": Stream("<i8"), "meta/seconds": Stream("<f8")}

    @property
    def atomic(self) -> bool:
        """Whether a block may be broken off: a cell may be long, and can be done again."""
        return self._executor is None

    @property
    def done(self) -> bool:
        """Whether all cells are done."""
        return self._n_done >= len(self._cells)

    @property
    def progress(self) -> tuple[int, int]:
        """Cells done, and cells in all."""
        return self._n_done, len(self._cells)

    def advance(self) -> dict[str, np.ndarray] | None:
        """Do one cell, or take a piece of several from workers; return their rows, or None where a stop came before."""
        if self._executor is None:
            self._n_done += 1
            return self._row(self._cells[self._n_done - 1])
        if self._handed is None:
            pieces = cut(self._cells[self._n_done :])
            shared = (dict(self._models), pieces, self._worker_threads)
            self._handed = Pieces(self._executor, do_cells, shared, len(pieces))
        try:
            rows: list[dict[str, np.ndarray]] = self._handed.take(self.halt)
        except Halted:
            return None
        self._n_done += len(rows)
        return {name: np.concatenate([row[name] for row in rows]) for name in self.streams}

    def leave(self) -> None:
        """Take back what waits for the executor."""
        if self._handed is not None:
            self._handed.cancel()

    def _row(self, cell: dict[str, Any]) -> dict[str, np.ndarray]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = self._do(cell)
        found["warning"] = " ".join(dict.fromkeys(str(one.message) for one in caught))
        numbers = {name: found.get(name) for name in NUMBERS}
        return {
            **{f"results/{k}": np.array([math.nan if v is None else v]) for k, v in numbers.items()},
            **{f"results/{k}": np.array([found.get(k) or ""], dtype=object) for k in TEXTS},
            "results/converged": np.array([CONVERGED[found.get("converged")]]),
            "meta/seconds": np.array([found.get("seconds", 0.0)]),
        }

    def _do(self, cell: dict[str, Any]) -> dict[str, Any]:
        model, beta, seed = self._models[cell["model"]], cell["beta"], cell["seed"]
        self._prepare(cell)
        found: dict[str, Any] = {"rows_by": self._rows.sampler}
        if (kind := (cell["method"], model.n_hidden > 0)) not in self._warm:
            warm_up(*kind, self._threads)
            self._warm.add(kind)
        try:
            learned = learn(
                self._rows.rows, model, cell["method"], cell["options"],
                seed=rng.derive(seed, rng.MODEL), threads=self._threads, budget=cell["budget"],
            )  # fmt: skip
        except (ValueError, TypeError) as error:
            return found | {"skipped": str(error)}  # the other cells can be had all the same
        found |= {"converged": learned.converged, "seconds": learned.seconds}
        found |= parameters_off(model, beta, learned.machine)
        if isinstance(self._truth, str):
            return found | {"skipped": f"the planted machine could not be measured: {self._truth}"}
        try:
            return found | self._held_against(self._truth, learned, seed)
        except (ValueError, TypeError) as error:
            return found | {"skipped": f"learned, but the machine could not be measured: {error}"}

    def _prepare(self, cell: dict[str, Any]) -> None:
        """Draw the rows and measure the machine that they come from, unless they are those of the cell before."""
        if (place := place_of(cell)) == self._place:
            return
        model, beta, seed = self._models[cell["model"]], cell["beta"], cell["seed"]
        self._rows = planted.draw(model, beta, cell["n_rows"], seed, self._threads)
        try:
            self._truth = planted.measure(model, beta, self._rows.holdout, seed, self._threads)
        except (ValueError, TypeError) as error:
            self._truth = str(error)
        self._place = place

    def _held_against(self, truth: planted.MachineMoments, learned: Learned, seed: int) -> dict[str, Any]:
        ours = planted.measure(learned.machine, 1.0, self._rows.holdout, seed, self._threads)
        return {
            "moments_by": ours.method,
            "mean_off": planted.root_mean_square(ours.mean - truth.mean),
            "pair_off": planted.root_mean_square(ours.pairs - truth.pairs),
            "likelihood_off": ours.log_p - truth.log_p,
            "likelihood_error": math.hypot(ours.log_p_error, truth.log_p_error),
        }

    def state(self) -> dict[str, np.ndarray]:
        """Return the number of cells done; the rows of the next one are drawn again."""
        return {"n_done": np.array(self._n_done)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._n_done, self._place, self._handed = int(state["n_done"]), (), None


def cut(cells: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Cut cells into pieces: the rules on one set of rows, which is drawn and measured once; or, of few sets, each."""
    places = [list(rules) for _, rules in itertools.groupby(cells, place_of)]
    return places if len(places) >= FEWEST_PLACES else [[cell] for cell in cells]


def place_of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what the rows of a cell depend on."""
    return tuple(cell[name] for name in ("model", "beta", "n_rows", "seed"))


def do_cells(
    shared: tuple[dict[str, BoltzmannMachine], list[list[dict[str, Any]]], int], k: int
) -> list[dict[str, np.ndarray]]:
    """Do the cells of a piece where it has been sent to; return their rows."""
    models, pieces, threads = shared
    task = InverseTask(models, pieces[k], threads=threads)
    with leaving(), single_threaded_blas():
        return [task._row(cell) for cell in pieces[k]]


def parameters_off(model: BoltzmannMachine, beta: float, learned: BoltzmannMachine) -> dict[str, float]:
    """Return the errors of couplings and biases in spins, times beta; empty where a machine has hidden units.

    gamma = sqrt(sum (J - J*)^2 / sum J*^2), the others are root mean squares.
    """
    if model.n_hidden or learned.n_hidden:
        return {}
    couplings = beta * planted.couplings_of(model)
    off = planted.couplings_of(learned) - couplings
    biases = learned.to_units("spin").flat_bias - beta * model.to_units("spin").flat_bias
    found = {"bias_off": float(np.sqrt(np.mean(biases**2)))}
    if off.size:
        found["coupling_off"] = float(np.sqrt(np.mean(off**2)))
    if size := float(couplings @ couplings):
        found["gamma"] = math.sqrt(float(off @ off) / size)
    return found
