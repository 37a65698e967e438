"""Maximum likelihood with exact phases, by L-BFGS on centred and scaled parameters; an iteration counts as an epoch.

Where all units are visible, these are whitened besides (`fastbm.learning.optimise.coordinates`), and where their states
are few steps are Newton's (`fastbm.learning.optimise.newton`). Hidden units make
saddles and valleys: there are several starts then, and where the gradient vanishes the curvature is looked at
(`fastbm.learning.learners.starts` and `climbs`, `fastbm.learning.optimise.curvature`). `Descent` is what all drivers
that minimise by L-BFGS have in common.
"""

from __future__ import annotations

import numpy as np

from ..._base import checks, rng
from ...data.rows import Rows
from ...machine.machine import BoltzmannMachine
from ..minibatches import distinct
from ..moments import Parameters, PhaseMoments, gradient, with_prefix, without_prefix
from ..optimise.centring import Centring
from ..optimise.coordinates import Plain, Whitened, whitened
from ..optimise.curvature import way_down
from ..optimise.lbfgs import Lbfgs, Point
from ..optimise.newton import Newton, few_states
from ..phases.phase import Phase, clamped_moments, parts_of
from ..settings import FitSettings, of_log_odds
from ..training_set import Sample
from . import starts
from .climbs import ALIKE, FIRST, Climbs

NEAR = 10.0  # times the tolerance: how small the gradient is where it is told how it vanishes
# Log-odds for each factor e of the gradient, above which steps end nowhere. To infinity these were 1 and more; at 400
# maxima 0.06 at most, and 0.3 where states of a pair were in one of 10^6 rows.
RESTLESS = 0.5
FARTHEST = 2.0  # times these, hidden units do as they would at infinity; at 40 maxima log-odds were below 0.8 times
FURTHER = 1.0  # log-odds beyond an end, where the slope has turned if it is a minimum
IDLE = 1e-4  # a scaled coupling that does nothing
SHARP = 1e-4  # tolerance, above which nothing is told of how the gradient vanishes
TRIES = 4


class Descent:
    """The base of learners by L-BFGS, an iteration an epoch; a learner sets `_lbfgs` and maps points to parameters.

    Where L-BFGS ends at a point that is no minimum a driver may go on from a lower one (`_lower`), by L-BFGS anew; the
    path is that of all these legs.
    """

    metric_names: tuple[str, ...]
    _lbfgs: Lbfgs | Newton
    parameters: Parameters
    verdict = None
    chain_noise = 0.0

    def __init__(self, like: BoltzmannMachine, settings: FitSettings) -> None:
        self._like, self._settings = like, settings
        self.parameters = Parameters.of(like)
        self._legs: list[Lbfgs | Newton] = []  # that are over
        self._before: list[Point] = []  # the path of these
        self._path: list[Point] = []  # of the present one
        self._n_done = 0
        self._at_end = False  # nothing lower is known than where the present leg ends
        self._at_minimum = False
        self._endless = False  # the gradient vanished on the way to infinity

    @property
    def done(self) -> bool:
        """Whether the optimiser has stopped and all its iterations were reported."""
        return self._lbfgs.done and self._at_end and self._n_done >= len(self._before) + len(self._path)

    @property
    def converged(self) -> bool:
        """Whether the last iteration that was reported is a minimum.

        There no entry of the gradient is above the tolerance, and, where a learner computes it, no curvature is
        negative. On the way to a minimum at infinity the gradient vanishes too, which is none.
        """
        return self._at_minimum

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Return the metrics of iteration `number`; none if the optimiser stopped before it."""
        # one iteration ahead, so that the last one is known to be the last
        wanted = min(number + 2, self._settings.epochs)
        self._continue(wanted)
        while self._lbfgs.done and not self._at_end and len(self._before) + len(self._path) <= wanted:
            self._end_leg(wanted)
        path = self._before + self._path
        self._n_done = min(number + 1, len(path))
        vanished = self._lbfgs.converged and self._at_end and self._n_done == len(path)
        self._endless = vanished and self._is_endless(self._path)
        self._at_minimum = vanished and not self._endless
        if number >= len(path):
            return []
        point, value, slope = path[number]
        self.parameters = self._parameters(point)
        return [self._metrics(value) | {"gradient": self._lbfgs.size(point, value, slope)}]

    def _continue(self, wanted: int) -> None:
        """Do iterations of the present leg, until there are `wanted` in all."""
        most = self._settings.epochs - len(self._before)
        while len(self._before) + len(self._path) < wanted and not (self._path and self._lbfgs.done):
            self._path = self._lbfgs.run(min(max(2 * len(self._path), 8), most))

    def _end_leg(self, wanted: int) -> None:
        """Continue from a lower point, if there is one and epochs are left."""
        lower = self._lower(*self._path[-1][:2])
        if lower is None:
            self._at_end = True
        elif len(self._before) + len(self._path) >= self._settings.epochs:
            self._lbfgs.converged, self._at_end = False, True
        else:
            self._legs.append(self._lbfgs)
            self._before += self._path
            self._path = []
            self._lbfgs = self._leg(lower)
            self._continue(wanted)

    def _is_endless(self, path: list[Point]) -> bool:
        """Return whether the last steps lead to infinity, where log-odds grow by t as the gradient falls by exp(-t).

        Near a minimum it falls as the distance does. Told where the gradient is small enough; of hidden units, whose
        minima may be flat, also by whether log-odds are those that go with such a gradient, or far beyond.
        """
        s = self._settings
        if s.tolerance > SHARP or len(path) < 2:
            return False
        if self._like.n_hidden:
            far = self._log_odds(path[-1]) / -np.log(s.tolerance)
            if far < 1.0 or (far > FARTHEST and not (s.l1 or s.l2)):
                return far > FARTHEST
        sizes = np.array([self._lbfgs.size(*one) for one in path])
        first = min(int(np.argmax(sizes <= NEAR * s.tolerance)), len(path) - 2)
        fallen = np.log(sizes[first] / max(sizes[-1], np.finfo(float).tiny))
        return self._log_odds(path[first], path[-1]) > RESTLESS * max(float(fallen), 1.0)

    def _log_odds(self, one: Point, other: Point | None = None) -> float:
        """Return the largest log-odds that no penalty holds, or of their changes between two points.

        They are those of a unit's own bias, and what the flip of another unit changes.
        """
        s, units = self._settings, self._like.convention
        ends = [self._parameters(point[0]) for point in (one, other) if point is not None]
        pairs = [self._like.couplings.to_vector(end.weights) for end in ends]
        bias = [end.bias for end in ends]
        of_pairs = 0.0 if s.l1 or s.l2 else units.span**2 * np.abs(pairs[0] - sum(pairs[1:])).max(initial=0.0)
        of_bias = 0.0 if s.l2_bias else units.span * np.abs(bias[0] - sum(bias[1:])).max(initial=0.0)
        return s.beta * float(max(of_pairs, of_bias))

    def _warn_of_infinity(self, why: list[str]) -> None:
        """Warn that data have no finite optimum, with what makes it so where that is known."""
        reasons = "; ".join(why or ["couplings or biases grow without end; give l2 or l2_bias (1e-4, say)"])
        checks.warn(f"{self._settings.method} has no finite optimum for these data: {reasons}.")

    def _lower(self, point: np.ndarray, value: float) -> np.ndarray | None:
        """Return a point lower than one where the gradient vanishes, or None where none is known."""
        return None

    def _leg(self, start: np.ndarray) -> Lbfgs | Newton:
        raise NotImplementedError

    def _parameters(self, point: np.ndarray) -> Parameters:
        raise NotImplementedError

    def _metrics(self, value: float) -> dict[str, float]:
        """Return the metrics of an iteration that reached `parameters` and `value`."""
        raise NotImplementedError

    def _penalty(self, parameters: Parameters) -> float:
        """Return l2/2 sum_{i<j} W_ij^2 + l2_bias/2 sum_i b_i^2."""
        found = 0.5 * self._settings.l2_bias * float(parameters.bias @ parameters.bias)
        if self._settings.l2:
            pairs = self._like.couplings.to_vector(parameters.weights)
            found += 0.5 * self._settings.l2 * float(pairs @ pairs)
        return found

    def judge(self, number: int) -> None:
        """Do nothing: the gradient has shown whether the optimum was reached."""

    def samples(self) -> np.ndarray | None:
        """Return None: there are no chains."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit."""
        record = with_prefix("optimizer", self._lbfgs.state())
        for k, leg in enumerate(self._legs):
            record |= with_prefix(f"legs/{k}", leg.state())
        counts = {"n_done": np.array(self._n_done), "at_minimum": np.array(self._at_minimum)}
        counts["log_odds"] = np.array(True)
        return {**self.parameters.to_state(), **record, **counts}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.parameters = Parameters.from_state(state)
        if "log_odds" not in state and self._settings.beta != 1.0:
            return  # points of other coordinates: the path is found anew
        self._legs, self._before = [], []
        while leg := without_prefix(f"legs/{len(self._legs)}", state):
            self._legs.append(self._leg(leg["start"]))
            self._legs[-1].restore(leg)
            self._before += self._legs[-1].run(self._settings.epochs)
        if self._legs:
            self._lbfgs = self._leg(state["optimizer/start"])
        self._lbfgs.restore(without_prefix("optimizer", state))
        self._n_done = int(state["n_done"])
        self._at_minimum = bool(state.get("at_minimum", False))


NO_ROWS = np.zeros((0, 0))


class Likelihood(Descent):
    """Maximum likelihood with exact phases, by L-BFGS."""

    metric_names = ("log_likelihood", "gradient")

    def __init__(
        self, like: BoltzmannMachine, sample: Sample, settings: FitSettings, clamped: Phase, free: Phase
    ) -> None:
        super().__init__(like, settings)
        self._clamped, self._free = clamped, free
        self._distinct: tuple[Rows, np.ndarray | None] | None = None
        if like.n_hidden and not sample.has_gaps:  # else the phase, or the data's moments, hold what they need
            self._distinct = distinct(sample.rows, sample.weights)
        self._centring = Centring(like, sample.mean, sample.spread, settings.beta)
        alone = of_log_odds(settings)
        self._data = None if like.n_hidden or sample.has_gaps else sample.clamped()
        self._few = None if self._data is None else few_states(like, self._data, alone, self._centring)
        self._sample = sample
        self._climbs: Climbs | None = None
        self._named: bool | None = None
        self._begin(whiten=self._few is None)

    def _begin(self, *, whiten: bool) -> None:
        self._coordinates = Plain(self._centring.scale.size)
        if whiten and self._data is not None:
            found = whitened(self._like, self._sample, of_log_odds(self._settings), self._centring)
            self._coordinates = found or self._coordinates
        start = self._coordinates.into(self._centring.vector(Parameters.of(self._like)))
        self._lbfgs = self._leg(start)
        if self._like.n_hidden and self._settings.n_starts > 1:
            others = range(1, self._settings.n_starts)
            more = [starts.drawn(self._like, self._centring, self._settings.seed, k) for k in others]
            self._climbs = Climbs(self._climb, [start, *more], self._settings.epochs)

    def _leg(self, start: np.ndarray) -> Lbfgs | Newton:
        if self._few is not None:
            return Newton(self._few, start, self._settings.tolerance)
        return self._climb(start)

    def _climb(self, start: np.ndarray) -> Lbfgs:
        return Lbfgs(
            self._objective,
            start,
            self._settings.tolerance,
            finish="none" if self._data is None else "secant",
            measure=self._coordinates.plain_slope if isinstance(self._coordinates, Whitened) else None,
        )

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Climb from one of several starts, and return no metrics; once the best is known, its iteration `number`."""
        if self._climbs is not None and not self._climbs.over:
            self._climbs.climb()
            return []
        if self._climbs is not None:
            self._lbfgs, self._climbs = self._climbs.best(), None
        found = super().epoch(number)
        if self._endless and not self._sample.describe_endless(self._settings):  # of which `fit` has warned
            self._warn_of_infinity([])
        return found

    def _is_endless(self, path: list[Point]) -> bool:
        if self._named is None:
            self._named = self._sample.has_no_optimum(self._settings)
        return self._named or super()._is_endless(path) or self._goes_on(path)

    def _goes_on(self, path: list[Point]) -> bool:
        """Return whether the likelihood still rises further along where rows do not vary and nothing is penalised.

        A step there may lead so far towards infinity at once that the path does not tell of it. Newton's steps are as
        long then wherever they begin.
        """
        point, value, slope = end = path[-1]
        if self._settings.tolerance > SHARP:
            return False
        if isinstance(self._lbfgs, Newton):
            if len(path) > 1 and self._log_odds(end, path[-2]) <= RESTLESS:
                return False  # they have become short
            return self._log_odds(end, (point + self._lbfgs.step_from(point), value, slope)) > RESTLESS
        if not isinstance(self._coordinates, Whitened):
            return False
        way = self._coordinates.unvaried(-slope)
        far = self._log_odds(end, (point + way, value, slope))
        if not far > 0.0:
            return False
        further = point + way * (FURTHER / far)
        return float(self._objective(further)[1] @ way) < 0.0

    def _lower(self, point: np.ndarray, value: float) -> np.ndarray | None:
        if not self._like.n_hidden:  # convex
            return None
        generator = rng.keyed(self._settings.seed, rng.STARTS, len(self._legs))
        lower = way_down(self._objective, point, value, generator)
        idle = starts.hidden_pairs(self._like) & (np.abs(point[: self._centring.n_pairs]) < IDLE)
        return lower if lower is not None or not idle.any() else self._roused(point, value, idle)

    def _roused(self, point: np.ndarray, value: float, idle: np.ndarray) -> np.ndarray | None:
        """Return the best end of short climbs that start with other values of idle couplings; None if none is lower.

        Curvature cannot show that there is something to gain where couplings to hidden units are 0.
        """
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
        """Return minus the penalised mean log-likelihood of a row, and its gradient."""
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
        """Return the data's moments, with the mean of -beta E, which is linear in them."""
        pairs = model.couplings.to_vector(model.couplings.arrays) @ model.couplings.to_vector(data.pairs)
        energy = model.offset - float(pairs) - float(model.flat_bias @ data.mean)
        return PhaseMoments(data.mean, data.pairs, -self._settings.beta * energy)

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit."""
        climbs = {} if self._climbs is None else with_prefix("climbs", self._climbs.state())
        about = {"whitened": isinstance(self._coordinates, Whitened), "newton": self._few is not None}
        return super().state() | {name: np.array(flag) for name, flag in about.items()} | climbs

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        was = isinstance(self._coordinates, Whitened), self._few is not None
        if was != (whiten := bool(state.get("whitened", False)), newton := bool(state.get("newton", False))):
            self._few = self._few if newton else None  # the record's steps are those of an older version
            self._begin(whiten=whiten)
        climbs = without_prefix("climbs", state)
        if climbs and self._climbs is not None:
            self._climbs.restore(climbs)
        else:
            self._climbs = None
        super().restore(state)
