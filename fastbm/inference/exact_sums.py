"""The sums of one call of `exact`, pattern by pattern and piece by piece: they can be left between any two pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..clamping import Clamped
from ..exact.choosing import choose
from ..exact.part import Part
from ..exact.plan import Sum
from ..exact.speeds import Speeds
from ..exact.work import Work
from ..halting import Halt, never
from ..model import BoltzmannMachine
from .exact_result import detail_of, in_whole, inference_of, lists_of, only_state
from .exact_settings import ExactSettings
from .result import Inference, nothing_free, stack
from .stored import from_json, to_json

SLICE_SECONDS = 0.5  # pieces and patterns that take less are done together, by the built-in speeds
LARGE_SECONDS, PIECES_FOR_OTHERS = 1.0, 16  # an executor is given at least so many pieces of a sum that takes longer


@dataclass(frozen=True)
class Settled:
    """A call with nothing left to choose: what a spec keeps beside the options."""

    settings: ExactSettings
    why: str = ""
    seconds: float = 0.0
    min_pieces: int = 1

    def plan(self) -> dict[str, Any]:
        """What is not an option, as plain values."""
        return {"why": self.why, "seconds": self.seconds, "min_pieces": self.min_pieces}


class ExactSums:
    """All sums of a call: one, or one for each clamped pattern.

    Parameters
    ----------
    model : BoltzmannMachine
    settings : ExactSettings
    beta, clamp, moments, threads
        As for `infer`.
    executor : Executor, optional
        Does the pieces.
    plan : dict, optional
        What `Settled.plan` gave; nothing is chosen again then.
    measured : function, optional
        Measures the speeds of this machine where that pays; without it the choice depends on the arguments alone.

    Raises
    ------
    ValueError
        If nothing can do the sums within the limits.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        settings: ExactSettings,
        *,
        beta: float,
        clamp: Any,
        moments: bool,
        threads: int,
        executor: Executor | None = None,
        plan: Mapping[str, Any] | None = None,
        measured: Callable[[], Speeds] | None = None,
    ) -> None:
        self._model, self._beta, self._moments, self._threads = model, beta, moments, threads
        self._executor, self._measured = executor, measured
        self._clamped = None if clamp is None else Clamped.of(model, *clamp)
        self._is_table = clamp is not None and np.ndim(clamp[1]) == 2
        self._free = np.arange(model.n_units) if self._clamped is None else self._clamped.free
        self._n_sums = 1 if self._clamped is None else self._clamped.n_patterns
        self.settled = self._settle(settings) if plan is None else Settled(settings, **plan)
        self._results: list[Inference] = []
        self._work: Work | None = None

    def _settle(self, settings: ExactSettings) -> Settled:
        if not self._moments:
            settings.refuse_without_moments()
        if not self._free.size:
            settings.refuse_clamped(self._free)
            return Settled(settings, "all units are clamped: one state is left")
        request = settings.request(
            self._machine(0), self._free, beta=self._beta, moments=self._moments, threads=self._threads
        )
        choice = choose(request, settings.engine, self._n_sums, measured=self._measured)
        large = self._executor is not None and choice.seconds > LARGE_SECONDS * self._n_sums
        return Settled(settings.settle(choice, request), choice.why, choice.seconds, PIECES_FOR_OTHERS if large else 1)

    def _machine(self, pattern: int) -> BoltzmannMachine:
        return self._model if self._clamped is None else self._clamped.machine(pattern)

    @property
    def seconds(self) -> float:
        """The forecast, on one thread."""
        return self.settled.seconds

    @property
    def done(self) -> bool:
        """Whether all sums are done."""
        return len(self._results) >= self._n_sums

    @property
    def progress(self) -> tuple[int, int]:
        """Pieces done, and all, if every pattern takes as many as this one."""
        n_done, n_all = self._work.progress if self._work is not None else (0, 1)
        return len(self._results) * n_all + n_done, self._n_sums * n_all

    @property
    def result(self) -> Inference:
        """What all sums found."""
        return stack(self._results) if self._is_table else self._results[0]

    def advance(self, halt: Halt = never) -> None:
        """Do the next piece, or as many as make a slice; raises `Halted` where a stop is asked for."""
        budget = SLICE_SECONDS
        while budget > 0.0 and not self.done:
            budget -= self._advance(halt)

    def _advance(self, halt: Halt) -> float:
        """Do one piece; return what was forecast for it."""
        pattern = len(self._results)
        if not self._free.size:
            assert self._clamped is not None
            found = nothing_free(self._clamped, pattern, self._beta, self._moments)
            lists = only_state(self._clamped, pattern) if self.settled.settings.n_lowest else {}
            self._results.append(replace(found, detail={"why": self.settled.why, **lists}))
            return 1e-4
        if self._work is None:
            self._work = self._begin(pattern)
        work = self._work
        work.advance(halt)
        if work.done:
            self._results.append(self._told(work.planned, work.result, pattern))
            self._work = None
        return max(work.planned.forecast.seconds / work.planned.n_pieces, 1e-4)

    def _begin(self, pattern: int) -> Work:
        """Plan a sum by the built-in speeds: its pieces are the same whatever was measured."""
        settled = self.settled
        request = settled.settings.request(
            self._machine(pattern),
            self._free,
            beta=self._beta,
            moments=self._moments,
            threads=self._threads,
            min_pieces=settled.min_pieces,
        )
        assert settled.settings.engine is not None
        return Work(request.plan(settled.settings.engine), self._threads, self._executor)

    def _told(self, planned: Sum, part: Part, pattern: int) -> Inference:
        machine, settled = self._machine(pattern), self.settled
        detail = detail_of(planned, settled.why, settled.seconds)
        detail |= lists_of(planned, part, self._clamped, pattern)
        found = inference_of(machine, part, self._beta, detail)
        return in_whole(
            found, machine, part, planned.named_pairs, self._model, self._clamped, pattern, settled.settings.pairs
        )

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit: results of patterns done as text, and the sum under way."""
        texts = "\n".join(to_json(result) for result in self._results)
        found = {"results": np.frombuffer(f"{texts}\n".encode(), np.uint8), "n_results": np.array(len(self._results))}
        return found if self._work is None else found | self._work.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        texts = bytes(state["results"]).decode().split("\n")
        self._results = [from_json(text, 0.0) for text in texts[: int(state["n_results"])]]
        self._work = None
        if "n_pieces_done" in state:
            self._work = self._begin(len(self._results))
            self._work.restore(state)
