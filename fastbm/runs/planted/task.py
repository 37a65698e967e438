"""The inverse problem as a run: each rule learns a planted machine again from rows drawn from it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._base import rng
from ..._base.streams import Stream
from ...learning.planted import machines as planted
from ...learning.planted.comparison import CONVERGED, NUMBERS, TEXTS
from ...learning.planted.rules import Learned, learn, warm_up
from ...machine.machine import BoltzmannMachine


class InverseTask:
    """The task of `compare_rules`: cells in order, each a rule on rows of a planted machine at a temperature.

    Parameters
    ----------
    models : mapping of name to BoltzmannMachine
    cells : list of dict
        "model", "beta", "n_rows", "seed", "rule" (its label), "method", "options" and "budget" of each. Rows depend on
        the first four alone; those, and what the planted machine is, are kept from one cell to the next.
    threads : int
    """

    unit = "cell"
    atomic = True  # a cell may be long, and can be done again

    def __init__(self, models: Mapping[str, BoltzmannMachine], cells: list[dict[str, Any]], *, threads: int) -> None:
        self._models, self._cells, self._threads = models, cells, threads
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
    def done(self) -> bool:
        """Whether all cells are done."""
        return self._n_done >= len(self._cells)

    @property
    def progress(self) -> tuple[int, int]:
        """Cells done, and cells in all."""
        return self._n_done, len(self._cells)

    def advance(self) -> dict[str, np.ndarray]:
        """Do one cell; return its row."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = self._do(self._cells[self._n_done])
        found["warning"] = " ".join(dict.fromkeys(str(one.message) for one in caught))
        self._n_done += 1
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
        place = tuple(cell[name] for name in ("model", "beta", "n_rows", "seed"))
        if place == self._place:
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
        self._n_done, self._place = int(state["n_done"]), ()


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
