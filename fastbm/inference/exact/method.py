"""Exact sums over all states: the cheapest of four engines (`fastbm.exact`), or the one that is named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ..._base import checks
from ..._base.options import Above, options
from ...exact.choice import BUILT_IN, LARGEST_GIGABYTES, LONGEST_SECONDS, Limits, Request, choose, is_few, planner, why
from ...exact.pieces import run
from ...exact.plan import Wanted
from ...machine.machine import BoltzmannMachine
from ...machine.magnitude import SURE
from ..estimator import Estimator
from ..result import Inference
from .settings import MOST_LOWEST, ExactSettings
from .sums import ExactSums, detail_of, inference_of

FEW_SECONDS = 1.0
CHOICE_SECONDS = 0.01  # that the choice of an engine takes, where there is much to choose from
LIMITS = Limits()
FULL = Wanted(True, True)


def _lowest(name: str, value: Any) -> int:
    return checks.whole(name, value, most=MOST_LOWEST)


def _variance(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True, False or None; got {value!r}.")
    return bool(value)


@options
class Exact(Estimator):
    """Sum over all states.

    Parameters
    ----------
    engine : {"gray", "blocks", "layers", "elimination"}, optional
        All states in Gray-code order; matrix products over three blocks of units; every second layer of a layered
        machine; variable elimination. The cheapest when left out.
    max_forecast_seconds : float
        Refuse, before starting, what would take longer; with an executor on all its workers.
    max_gigabytes : float
        Memory that the sum may take; with an executor each of its pieces.
    energy_variance : bool, optional
        Whether to give the variance of the energy; when left out where it is free, and by blocks up to 32 free units
        (it takes two more matrix products). It comes with the moments only, and is refused without.
    pairs : "all" or (n_pairs, 2) int array, optional
        Elimination gives second moments of coupled units, and of these. When left out, of all pairs for up to 24 free
        units, and for up to 64 where that costs little. Other engines give all.
    n_lowest : int
        List as many lowest states, in `detail["lowest states"]`, with `detail["lowest energies"]`; by Gray code.
    distribution : list of int, optional
        Units, at most 20, whose joint distribution is put into `detail["distribution"]`: bit l of the index is 1 where
        the l-th of them is up; by Gray code.

    Raises
    ------
    ValueError
        If the forecast is above a limit; the text gives the cost and the alternatives.

    Notes
    -----
    Errors are 0. `detail` tells the engine, why it was taken, and its forecast on one thread.
    """

    name: ClassVar[str] = "exact"
    cut: ClassVar[bool] = True

    engine: Literal["gray", "blocks", "layers", "elimination"] | None = None
    max_forecast_seconds: Annotated[float, Above(0.0)] = LONGEST_SECONDS
    max_gigabytes: Annotated[float, Above(0.0)] = LARGEST_GIGABYTES
    energy_variance: Annotated[bool | None, _variance] = None
    pairs: Any = None
    n_lowest: Annotated[int, _lowest] = 0
    distribution: Any = None

    def _check_together(self) -> None:
        if (self.n_lowest or self.distribution is not None) and self.engine not in (None, "gray"):
            raise ValueError(
                f'n_lowest and distribution come from engine="gray" alone; got engine={self.engine!r}. Leave engine '
                "out."
            )

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; moments are in the machine's units."""
        return self.sum(model, beta=beta, moments=moments, threads=threads)

    def sum(
        self,
        model: BoltzmannMachine,
        *,
        beta: float,
        moments: bool,
        threads: int,
        clamp: Any = None,
        plan: Mapping[str, Any] | None = None,
    ) -> Inference:
        """Sum over the states of a machine, or of what clamping leaves of it; `plan` is what was chosen before."""
        variance = self.energy_variance
        usual = clamp is plan is self.engine is self.distribution is None and not self.n_lowest and is_few(model)
        if usual and self._is_usual(moments) and (found := _sum_few(model, beta, moments, variance, threads)):
            return found
        settings = ExactSettings.of(model, **self.as_dict())
        sums = ExactSums(model, settings, beta=beta, clamp=clamp, moments=moments, threads=threads, plan=plan)
        while not sums.done:
            sums.advance()
        return sums.result

    def _is_usual(self, moments: bool) -> bool:
        """Return whether limits and pairs are those of any sum over few states."""
        if (self.max_forecast_seconds, self.max_gigabytes) != (LONGEST_SECONDS, LARGEST_GIGABYTES):
            return False
        return self.pairs is None or (moments and isinstance(self.pairs, str) and self.pairs == "all")


def _sum_few(
    model: BoltzmannMachine, beta: float, moments: bool, energy_variance: bool | None, threads: int
) -> Inference | None:
    """Sum over few states, as `ExactSums` would do it, without what costs more than the sum.

    Return None where it takes more than that, or is refused.
    """
    if energy_variance and not moments:
        return None
    wanted = FULL if moments and energy_variance is not False else Wanted(moments, False)
    try:
        planned = planner("blocks")(model, beta, wanted, threads=1, max_bytes=LIMITS.n_bytes, speeds=BUILT_IN)
    except OverflowError:
        return None
    if planned.forecast.seconds > FEW_SECONDS:
        return None
    facts = why("blocks", {"blocks": planned.forecast})
    part = planned.piece(0, threads) if planned.n_pieces == 1 else run(planned, threads)
    if not abs(part.log_z) < SURE:  # nor where it is no number
        return None
    return inference_of(model, part, beta, detail_of(planned, facts, planned.forecast.seconds))


def forecast_seconds(model: BoltzmannMachine, *, moments: bool, threads: int = 1, beta: float | None = None) -> float:
    """Estimate how long a sum over the states of a machine takes, by the built-in speeds; inf where it cannot be done.

    Without `beta` it is that of machines like this, whatever their couplings are.
    """
    request = _request_like(model, moments, threads)
    if beta is not None:
        request = replace(request, model=model, beta=beta)
    try:
        return choose(request, None).seconds
    except ValueError:
        return math.inf


def usual_engine(model: BoltzmannMachine, *, moments: bool) -> str | None:
    """Return "layers" where no engine is quicker by more than the choice itself takes.

    This holds whatever the couplings are: to be asked for where many sums follow one another. Return None where each
    sum may as well choose.
    """
    if not model.is_layered:
        return None
    request = _request_like(model, moments, 1)
    try:
        layers, best = choose(request, "layers"), choose(request, None)
    except ValueError:
        return None
    return "layers" if layers.seconds <= best.seconds + CHOICE_SECONDS else None


def refuse_if_long(model: BoltzmannMachine, threads: int) -> None:
    """Refuse, with the cost and the alternatives, machines whose sums are above the usual limits."""
    if not is_few(model):
        choose(_request_like(model, True, threads), None)


def _request_like(model: BoltzmannMachine, moments: bool, threads: int) -> Request:
    """Build the request for the sum over a machine of the same layout with all its pairs coupled, weakly."""
    ones = [np.full(array.shape, 1e-3) for array in model.couplings.arrays]
    if model.couplings.kind == "dense":
        np.fill_diagonal(ones[0], 0.0)
    like = model.trusted(
        model.couplings.with_arrays(ones), np.zeros(model.n_units), model.convention, model.n_hidden, 0.0
    )
    return Request(like, 1.0, lambda engine: Wanted(moments, False), LIMITS, threads)
