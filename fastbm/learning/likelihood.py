"""Maximum likelihood with exact phases, by L-BFGS on centred and scaled parameters.

Where all units are visible, these are whitened besides (`whitening`). Hidden units make saddles and valleys: there are
several starts then, and where the gradient vanishes the curvature is looked at (`starts`, `climbs`, `curvature`).
"""

from __future__ import annotations

import numpy as np

from .. import rng
from ..model import BoltzmannMachine
from ..rows import Rows
from . import starts
from .centring import Centring
from .climbs import ALIKE, FIRST, Climbs
from .coordinates import Plain
from .curvature import way_down
from .descent import Descent
from .distinct import distinct
from .in_parts import clamped_moments, parts_of
from .lbfgs import Lbfgs
from .moments import Parameters, PhaseMoments, gradient, with_prefix, without_prefix
from .phase import Phase
from .sample import Sample
from .settings import FitSettings
from .whitening import Whitened, whitened

IDLE = 1e-4  # a scaled coupling that does nothing
TRIES = 4
NO_ROWS = np.zeros((0, 0))


class Likelihood(Descent):
    """Maximum likelihood with exact phases."""

    metric_names = ("log_likelihood", "gradient")

    def __init__(
        self, like: BoltzmannMachine, sample: Sample, settings: FitSettings, clamped: Phase, free: Phase
    ) -> None:
        super().__init__(like, settings)
        self._clamped, self._free = clamped, free
        self._distinct: tuple[Rows, np.ndarray | None] | None = None
        if like.n_hidden and not sample.has_gaps:  # else the phase, or the data's moments, hold what they need
            self._distinct = distinct(sample.rows, sample.weights)
        self._centring = Centring(like, sample.mean, sample.spread)
        self._data = None if like.n_hidden or sample.has_gaps else sample.clamped()
        self._coordinates = Plain(self._centring.scale.size)
        if self._data is not None:
            self._coordinates = whitened(like, sample, settings, self._centring) or self._coordinates
        self._climbs: Climbs | None = None
        self._begin()

    def _begin(self) -> None:
        start = self._coordinates.into(self._centring.vector(Parameters.of(self._like)))
        self._lbfgs = self._leg(start)
        if self._like.n_hidden and self._settings.n_starts > 1:
            others = range(1, self._settings.n_starts)
            more = [starts.drawn(self._like, self._centring, self._settings.seed, k) for k in others]
            self._climbs = Climbs(self._leg, [start, *more], self._settings.epochs)

    def _leg(self, start: np.ndarray) -> Lbfgs:
        return Lbfgs(
            self._objective,
            start,
            self._settings.tolerance,
            finish="none" if self._data is None else "secant",
            measure=self._coordinates.plain_slope if isinstance(self._coordinates, Whitened) else None,
        )

    def epoch(self, number: int) -> list[dict[str, float]]:
        """A climb from one of several starts, and no metrics; or, once the best is known, its iteration `number`."""
        if self._climbs is not None and not self._climbs.over:
            self._climbs.climb()
            return []
        if self._climbs is not None:
            self._lbfgs, self._climbs = self._climbs.best(), None
        return super().epoch(number)

    def _lower(self, point: np.ndarray, value: float) -> np.ndarray | None:
        if not self._like.n_hidden:  # convex
            return None
        generator = rng.keyed(self._settings.seed, rng.STARTS, len(self._legs))
        lower = way_down(self._objective, point, value, generator)
        idle = starts.hidden_pairs(self._like) & (np.abs(point[: self._centring.n_pairs]) < IDLE)
        return lower if lower is not None or not idle.any() else self._roused(point, value, idle)

    def _roused(self, point: np.ndarray, value: float, idle: np.ndarray) -> np.ndarray | None:
        """Where short climbs come to with other couplings in place of those that are 0, which curvature cannot tell."""
        best, lowest = None, value - ALIKE
        for k in range(TRIES):
            vector = starts.drawn(self._like, self._centring, self._settings.seed, k)
            moved = point.copy()
            moved[: idle.size][idle] = vector[: idle.size][idle]
            found, reached, _ = self._leg(moved).run(FIRST)[-1]
            if reached < lowest:
                best, lowest = found, reached
        return best

    def _parameters(self, point: np.ndarray) -> Parameters:
        return self._centring.parameters(self._coordinates.back(point))

    def _metrics(self, value: float) -> dict[str, float]:
        return {"log_likelihood": -value + self._penalty(self.parameters)}

    def _objective(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the penalised mean log-likelihood of a row, and its gradient."""
        parameters = self._parameters(vector)
        model = parameters.machine(self._like)
        free = self._free.moments(model, NO_ROWS)
        clamped = self._clamped_moments(model)
        slope = gradient(clamped, free, self._settings.beta, parameters, self._settings.l2, self._settings.l2_bias)
        assert clamped.log_z is not None and free.log_z is not None
        return self._penalty(parameters) - clamped.log_z + free.log_z, -self._coordinates.slope(
            self._centring.slope(slope)
        )

    def _clamped_moments(self, model: BoltzmannMachine) -> PhaseMoments:
        if self._data is not None:
            return self._clamped_data(model, self._data)
        if self._distinct is None:
            return self._clamped.moments(model, NO_ROWS)
        rows, shares = self._distinct
        return clamped_moments(self._clamped, model, rows, parts_of(rows, model.n_units), np.float64, shares)

    def _clamped_data(self, model: BoltzmannMachine, data: PhaseMoments) -> PhaseMoments:
        """The data's moments, with the mean of -beta E, which is linear in them."""
        pairs = model.couplings.to_vector(model.couplings.arrays) @ model.couplings.to_vector(data.pairs)
        energy = model.offset - float(pairs) - float(model.flat_bias @ data.mean)
        return PhaseMoments(data.mean, data.pairs, -self._settings.beta * energy)

    def state(self) -> dict[str, np.ndarray]:
        climbs = {} if self._climbs is None else with_prefix("climbs", self._climbs.state())
        return super().state() | {"whitened": np.array(isinstance(self._coordinates, Whitened)), **climbs}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        if not state.get("whitened", False):  # as the record's gradients are
            self._coordinates = Plain(self._coordinates.size)
            self._begin()
        climbs = without_prefix("climbs", state)
        if climbs and self._climbs is not None:
            self._climbs.restore(climbs)
        else:
            self._climbs = None
        super().restore(state)
