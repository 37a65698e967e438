"""Convex local rules: pseudo-likelihood, RISE, logRISE and minimum probability flow, by L-BFGS.

The optimiser sees parameters that are centred and scaled, and couplings besides in coordinates that suit the problem:
split for an l1 penalty, else, where all pairs are coupled, rotated.
"""

from __future__ import annotations

import numpy as np

from ...data.rows import Rows
from ...machine.couplings import Dense
from ...machine.machine import BoltzmannMachine
from ..identifiability import describe_degenerate, edges_among
from ..moments import Parameters
from ..optimise.centring import Centring
from ..optimise.coordinates import Plain, Split
from ..optimise.lbfgs import Lbfgs, Point
from ..optimise.regression import regression
from ..optimise.rotation import Rotation
from ..settings import FitSettings, of_log_odds
from ..training_set import smoothed_means
from .likelihood import Descent
from .local_objectives import LocalObjective, Patterns

STRONGEST = 60.0  # log-odds of one unit by one other: a coupling beyond it that grows is on its way to infinity,
GROWTHS = 5  # if it has grown in so many iterations one after the other

MAPPED = 8  # points whose parameters are kept
RAREST = 1e-3  # probability of a state of a unit, for the start


class LocalRules(Descent):
    """The learner by the local objective that `settings.method` names; `weights` are the rows', by default equal."""

    metric_names = ("objective", "gradient")
    _lbfgs: Lbfgs

    def __init__(
        self,
        like: BoltzmannMachine,
        up: Rows | np.ndarray,
        settings: FitSettings,
        threads: int,
        weights: np.ndarray | None = None,
    ) -> None:
        super().__init__(like, settings)
        fresh = _is_fresh(like, smoothed_means(up, weights), settings.beta)
        up, weights = Rows.of(up).of_weight(weights)
        patterns = Patterns(up, like.convention, weights)
        self._local = LocalObjective(settings.method, like, patterns, settings.beta, threads)
        self._least = _least_spread(like, settings)
        self._centring = Centring(like, patterns.means, patterns.spread, settings.beta, self._least)
        self._mapped: list[tuple[np.ndarray, Parameters]] = []
        self._lbfgs = self._begin(patterns, fresh, threads)
        self._trouble = describe_degenerate(
            up,
            edges=edges_among(like.couplings, like.n_visible),
            couplings_held=settings.l1 > 0 or settings.l2 > 0,
            biases_held=settings.l2_bias > 0,
            names=like.names,
        )

    def _begin(self, patterns: Patterns, fresh: bool, threads: int) -> Lbfgs:
        """Choose coordinates and, where the machine is `fresh`, a start."""
        s, centring = of_log_odds(self._settings), self._centring
        pairs, bias = np.split(centring.vector(self.parameters), [centring.n_pairs])
        curvature = None
        self._coordinates: Plain
        if s.l1:
            self._coordinates = Split(s.l1 / centring.scale[: centring.n_pairs])
        elif isinstance(self._like.couplings, Dense):
            correlations, width = patterns.correlations(), centring.scale[centring.n_pairs :]
            p = np.clip((patterns.means - self._like.convention.lo) / self._like.convention.span, RAREST, 1.0 - RAREST)
            found, plain = regression(correlations, p), Centring(self._like, patterns.means, patterns.spread, s.beta)
            if fresh:
                own = np.concatenate([self._like.couplings.to_vector([found.pairs]), found.bias])
                pairs, bias = np.split(own * centring.scale / plain.scale, [centring.n_pairs])
            each, part = found.flatness, plain.scale[centring.n_pairs :] / width
            ridge = s.l2 * float(np.mean(centring.scale[: centring.n_pairs] ** -2.0)) if centring.n_pairs else 0.0
            self._coordinates = Rotation(correlations * part[:, None] * part, threads, ridge / each.mean())
            curvature = np.concatenate(
                [np.full(self._coordinates.size, each.mean() / 4), each * part**2 + s.l2_bias / width**2]
            )
        else:
            self._coordinates = Plain(centring.n_pairs)
        lower = self._coordinates.lower
        return Lbfgs(
            self._objective,
            np.concatenate([self._coordinates.into(pairs), bias]),
            s.tolerance,
            lower=None if lower is None else np.concatenate([lower, np.full(bias.size, -np.inf)]),
            finish="newton",
            halt=self._is_unbounded if self._is_free else None,
            curvature=curvature,
        )

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Return the metrics of iteration `number`; warn at the end where data have no finite optimum."""
        found = super().epoch(number)
        if self.done and (self._trouble or self._lbfgs.halted or self._endless):
            self._warn_of_infinity(self._trouble)
        return found

    def _is_endless(self, path: list[Point]) -> bool:
        strongest = self._log_odds(path[-1]) if self._is_free else 0.0
        return bool(self._trouble) or super()._is_endless(path) or strongest > STRONGEST

    @property
    def _is_free(self) -> bool:
        """Whether no penalty holds couplings."""
        return not (self._settings.l1 or self._settings.l2)

    def _is_unbounded(self, path: list[Point]) -> bool:
        """Return whether couplings are far beyond all that data can determine, and still growing."""
        if len(path) <= GROWTHS or self._log_odds(path[-1]) <= STRONGEST:
            return False
        return bool(np.all(np.diff([self._log_odds(one) for one in path[-GROWTHS - 1 :]]) > 0.0))

    def _parameters(self, point: np.ndarray) -> Parameters:
        for known, parameters in self._mapped:  # the optimiser's points are soon asked for again, as iterations
            if known is point or np.array_equal(known, point):
                return parameters
        coordinates, bias = np.split(point, [self._coordinates.size])
        found = self._centring.parameters(np.concatenate([self._coordinates.back(coordinates), bias]))
        self._mapped = [(point, found), *self._mapped[: MAPPED - 1]]
        return found

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit."""
        return super().state() | ({"widened": np.array(True)} if self._least else {})

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned; of a record in coordinates of an older version the parameters alone."""
        same_scales = bool(self._least) == ("widened" in state)
        if same_scales and state["optimizer/start"].size == self._lbfgs.n_numbers:
            super().restore(state)
        else:  # the path is found anew
            self.parameters = Parameters.from_state(state)

    def _metrics(self, value: float) -> dict[str, float]:
        return {"objective": value}

    def _objective(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalised objective, and its gradient."""
        s = self._settings
        parameters = self._parameters(vector)
        value, slope = self._local(parameters)
        value += self._penalty(parameters) + self._coordinates.penalty(vector[: self._coordinates.size])
        weights = slope.weights
        if s.l2:
            weights = tuple(g + s.l2 * w for g, w in zip(weights, parameters.weights, strict=True))
        down = self._centring.slope(Parameters(weights, slope.bias + s.l2_bias * parameters.bias))
        pairs, bias = np.split(down, [self._centring.n_pairs])
        found = np.concatenate([self._coordinates.slope(pairs), bias])
        return value, found


def _least_spread(like: BoltzmannMachine, settings: FitSettings) -> float:
    """Return what a unit's standard deviation is taken to be at least, so that a penalty curves no coordinate by much.

    l2/2 W^2 is l2/2 (D / (sigma_i sigma_j))^2 of scaled couplings D, which of units that hardly change is far more than
    rows tell of these.
    """
    s = of_log_odds(settings)
    return min(max(s.l2**0.25, s.l2_bias**0.5), like.convention.span / 2)


def _is_fresh(like: BoltzmannMachine, p: np.ndarray, beta: float) -> bool:
    """Return whether a machine says no more than that units are up with probabilities `p` each by itself, or nothing.

    That is what learning starts from unless another machine is given.
    """
    if any(array.any() for array in like.couplings.arrays):
        return False
    odds = beta * like.flat_bias * like.convention.span
    return not odds.any() or np.allclose(odds, np.log(p / (1.0 - p)), rtol=1e-9, atol=1e-12)
