"""The sums of one call of `exact`, pattern by pattern and piece by piece, and the results that are made of them.

They can be left between any two pieces. Moments of results are in the machine's units, full or on some pairs only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._base.halting import Halt, never
from ..._base.workers import n_workers
from ...exact.blocks.prefixes import prefix_length
from ...exact.choice import MOST_UNITS, Request, choose
from ...exact.pieces import Work
from ...exact.plan import Part, Speeds, Sum
from ...machine.clamping import Clamped
from ...machine.machine import BoltzmannMachine
from ..result import Inference, expand, from_json, moments_from_up, nothing_free, stack, to_json
from .settings import ExactSettings

Pairs = str | np.ndarray | None
SLICE_SECONDS = 0.5  # pieces and patterns that take less are done together, by the built-in speeds
LARGE_SECONDS, FEWEST_PIECES = 1.0, 16  # the Gray code of a sum that takes longer has at least so many pieces
_EXACT = Inference("exact", log_z_error=0.0, bound="exact")  # what all results have in common


def inference_of(model: BoltzmannMachine, part: Part, beta: float, detail: dict[str, Any]) -> Inference:
    """Return the result for `model` from its sum; second moments only where the part has a full matrix."""
    found: dict[str, Any] = {}
    if part.energy is not None:
        found = {"energy": part.energy, "energy_error": 0.0, "entropy": part.log_z + beta * part.energy}
    if part.pairs is not None and part.pairs.ndim == 2:
        found |= moments_from_up(model.convention, part.pairs)
    elif part.up is not None:
        found["mean"] = model.convention.lo + model.convention.span * part.up
    if part.up is not None:
        found["mean_error"] = np.zeros(model.n_units)
    return _EXACT.told(
        log_z=part.log_z,
        energy_variance=part.energy_variance,
        n_samples=1 << model.n_units if model.n_units <= MOST_UNITS else None,
        detail=detail,
        **found,
    )


def detail_of(planned: Sum, why: str, seconds: float) -> dict[str, Any]:
    """Return the detail of a result on how it was computed."""
    return {"engine": planned.name, "why": why, "forecast seconds": seconds, **planned.detail}


def lists_of(planned: Sum, part: Part, clamped: Clamped | None, pattern: int) -> dict[str, Any]:
    """Return what `detail` holds of states and distributions, which only the Gray code computes."""
    if part.lowest is None and part.distribution is None:
        return {}
    found: dict[str, Any] = getattr(planned, "found")(part)  # noqa: B009 (no other engine has it)
    if clamped is not None and "lowest states" in found:
        found["lowest states"] = clamped.full_states(pattern, found["lowest states"])
    return found


def only_state(clamped: Clamped, pattern: int) -> dict[str, Any]:
    """Return the list of lowest states where all units are clamped."""
    states = clamped.full_states(pattern, np.empty((1, 0), np.int8))
    return {"lowest energies": clamped.offset[pattern : pattern + 1].copy(), "lowest states": states}


def in_whole(
    found: Inference,
    machine: BoltzmannMachine,
    part: Part,
    named: np.ndarray | None,
    whole: BoltzmannMachine,
    clamped: Clamped | None,
    pattern: int,
    chosen: Pairs,
) -> Inference:
    """Make the result for the whole machine, of which `machine` is what is free; `named` are the pairs in `part`."""
    n = machine.n_units
    if part.up is None or part.pairs is None or named is None:
        return found if clamped is None else expand(found, clamped, pattern)
    if len(named) == n * (n - 1) // 2:
        up = np.diag(part.up)
        up[named[:, 0], named[:, 1]] = up[named[:, 1], named[:, 0]] = part.pairs
        full: dict[str, Any] = dict(moments_from_up(machine.convention, up))
        found = replace(found, **full)
        return found if clamped is None else expand(found, clamped, pattern)
    i, j = named.T
    mean = np.asarray(found.mean)
    covariance = machine.convention.span**2 * (part.pairs - part.up[i] * part.up[j])
    variance = machine.convention.span**2 * part.up * (1.0 - part.up)
    if clamped is not None:
        found = expand(found, clamped, pattern)
        mean, free = np.asarray(found.mean), clamped.free
        held = _held_pairs(whole, clamped, chosen)
        i, j = np.concatenate([free[named], held]).T
        covariance = np.concatenate([covariance, np.zeros(len(held))])
        free_variance, variance = variance, np.zeros(whole.n_units)
        variance[free] = free_variance
    second = covariance + mean[i] * mean[j]
    return replace(
        found,
        second_moment=_symmetric(i, j, second, variance + mean**2),
        covariance=_symmetric(i, j, covariance, variance),
    )


def _held_pairs(whole: BoltzmannMachine, clamped: Clamped, chosen: Pairs) -> np.ndarray:
    """Return coupled and chosen pairs of which at least one unit is clamped."""
    indptr, indices, _ = whole.couplings.csr()
    rows = np.repeat(np.arange(whole.n_units), np.diff(indptr))
    pairs = np.stack([rows, indices], axis=1)[rows < indices]
    if isinstance(chosen, np.ndarray):
        pairs = np.unique(np.concatenate([pairs, chosen]), axis=0)
    return pairs[np.isin(pairs, clamped.indices).any(axis=1)]


def _symmetric(i: np.ndarray, j: np.ndarray, values: np.ndarray, diagonal: np.ndarray) -> Any:
    """Build a scipy.sparse.csr_array of the pairs, both ways round, and the diagonal."""
    from scipy.sparse import csr_array

    n = len(diagonal)
    own = np.arange(n)
    rows, columns = np.concatenate([i, j, own]), np.concatenate([j, i, own])
    whole = csr_array((np.concatenate([values, values, diagonal]), (rows, columns)), shape=(n, n))
    whole.sort_indices()
    return whole


@dataclass(frozen=True)
class Settled:
    """A call with nothing left to choose: what a spec keeps beside the options.

    How sums are cut depends on the machine and the options alone. Specs of older versions lack `n_prefix`: there each
    leaf is a piece.
    """

    settings: ExactSettings
    why: str = ""
    seconds: float = 0.0
    min_pieces: int = 1
    n_prefix: int = 0

    def plan(self) -> dict[str, Any]:
        """Return what was chosen and is no option, as plain values."""
        return {name: getattr(self, name) for name in ("why", "seconds", "min_pieces", "n_prefix")}


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
            self._machine(0),
            self._free,
            beta=self._beta,
            moments=self._moments,
            threads=self._threads,
            workers=0 if self._executor is None else n_workers(self._executor),
        )
        choice = choose(request, settings.engine, self._n_sums, measured=self._measured)
        large = choice.engine == "gray" and choice.usual_seconds > LARGE_SECONDS
        by_prefix = choice.engine == "blocks"
        n_prefix = prefix_length(self._free.size, request.wanted("blocks")) if by_prefix else 0
        settled = settings.settle(choice, request)
        return Settled(settled, choice.why, choice.seconds, FEWEST_PIECES if large else 1, n_prefix)

    def _machine(self, pattern: int) -> BoltzmannMachine:
        return self._model if self._clamped is None else self._clamped.machine(pattern)

    @property
    def seconds(self) -> float:
        """Forecast of the seconds on one thread."""
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
        """The result of all sums."""
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
            self._results.append(self._result_of(work.planned, work.result, pattern))
            self._work = None
        return max(work.planned.forecast.seconds / work.planned.n_pieces, 1e-4)

    def _begin(self, pattern: int) -> Work:
        """Plan a sum by the built-in speeds: its pieces are the same whatever was measured."""
        settled = self.settled
        assert settled.settings.engine is not None
        planned = self._request(pattern, settled.min_pieces).plan(settled.settings.engine)
        if not math.isfinite(planned.forecast.seconds):
            planned = self._plan_gray(pattern)
        return Work(planned, self._threads, self._executor)

    def _plan_gray(self, pattern: int) -> Sum:
        """Plan the Gray code where energies lie farther apart than in the first pattern, for which engines were chosen.

        Raises
        ------
        ValueError
            If it takes longer than the limit.
        """
        seconds = choose(self._request(pattern), "gray").usual_seconds
        return self._request(pattern, FEWEST_PIECES if seconds > LARGE_SECONDS else 1).plan("gray")

    def _request(self, pattern: int, min_pieces: int = 1) -> Request:
        return self.settled.settings.request(
            self._machine(pattern),
            self._free,
            beta=self._beta,
            moments=self._moments,
            threads=self._threads,
            min_pieces=min_pieces,
            n_prefix=self.settled.n_prefix,
        )

    def _result_of(self, planned: Sum, part: Part, pattern: int) -> Inference:
        machine, settled = self._machine(pattern), self.settled
        why = settled.why
        if planned.name != settled.settings.engine:
            why = f"{settled.settings.engine} cannot: energies of this pattern lie too far apart"
        detail = detail_of(planned, why, settled.seconds)
        detail |= lists_of(planned, part, self._clamped, pattern)
        found = inference_of(machine, part, self._beta, detail)
        return in_whole(
            found, machine, part, planned.named_pairs, self._model, self._clamped, pattern, settled.settings.pairs
        )

    def leave(self) -> None:
        """Take back what waits for the executor."""
        if self._work is not None:
            self._work.leave()

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the sums bit for bit: results so far as text, and the sum under way."""
        texts = "\n".join(to_json(result) for result in self._results)
        found = {"results": np.frombuffer(f"{texts}\n".encode(), np.uint8), "n_results": np.array(len(self._results))}
        return found if self._work is None else found | self._work.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        texts = bytes(state["results"]).decode().split("\n")
        self._results = [from_json(text, 0.0) for text in texts[: int(state["n_results"])]]
        self._work = None
        if "n_pieces_done" in state:
            self._work = self._begin(len(self._results))
            self._work.restore(state)
