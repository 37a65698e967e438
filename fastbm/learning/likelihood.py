"""Maximum likelihood with exact phases, by L-BFGS; an iteration counts as an epoch.

The optimiser sees centred and scaled parameters: couplings W_ij times the standard deviations of both units, and biases
b + W mu, with mu the data's means. Centring takes away most of what couples biases to couplings (Montavon and Mueller,
2012, doi:10.1007/978-3-642-35289-8_33), so that tens of iterations do where plain parameters take hundreds.
"""

from __future__ import annotations

import numpy as np

from ..model import BoltzmannMachine
from .lbfgs import Lbfgs
from .moments import PhaseMoments, Parameters, gradient, with_prefix, without_prefix
from .phase import Phase
from .settings import FitSettings

NARROWEST = 0.01  # a unit's standard deviation is taken to be at least this part of its span


class Centring:
    """The map between parameters and the vector that the optimiser sees."""

    def __init__(self, model: BoltzmannMachine, rows: np.ndarray) -> None:
        units = model.convention
        self._couplings = model.couplings
        self._means = np.full(model.n_units, (units.lo + units.hi) / 2)
        spread = np.full(model.n_units, units.span / 2)
        self._means[: model.n_visible] = rows.mean(axis=0)
        spread[: model.n_visible] = np.maximum(rows.std(axis=0), NARROWEST * units.span)
        self._scale = np.concatenate([self._pairs(spread), spread])

    def _pairs(self, x: np.ndarray) -> np.ndarray:
        """x_i x_j of all coupled pairs."""
        return self._couplings.to_vector(self._couplings.pair_sums(x[None]))

    def vector(self, parameters: Parameters) -> np.ndarray:
        """What the optimiser sees of parameters."""
        pull = self._couplings.with_arrays(parameters.weights).field(self._means[None])[0]
        return np.concatenate([self._couplings.to_vector(parameters.weights), parameters.bias + pull]) * self._scale

    def parameters(self, vector: np.ndarray) -> Parameters:
        """The way back from `vector`."""
        plain = vector / self._scale
        n_pairs = len(plain) - len(self._means)
        weights = self._couplings.from_vector(plain[:n_pairs])
        pull = self._couplings.with_arrays([np.array(w) for w in weights]).field(self._means[None])[0]
        return Parameters(weights, plain[n_pairs:] - pull)

    def slope(self, slope: Parameters) -> np.ndarray:
        """The gradient by the vector: dL/dW_ij - mu_i dL/db_j - dL/db_i mu_j, and dL/db, over the scale."""
        cross = self._pairs(self._means + slope.bias) - self._pairs(self._means) - self._pairs(slope.bias)
        return np.concatenate([self._couplings.to_vector(slope.weights) - cross, slope.bias]) / self._scale


class Likelihood:
    """Drives L-BFGS an iteration at a time."""

    def __init__(
        self, like: BoltzmannMachine, up: np.ndarray, settings: FitSettings, clamped: Phase, free: Phase
    ) -> None:
        self._like, self._settings, self._clamped, self._free = like, settings, clamped, free
        self._rows = like.convention.values(up, np.float64)
        self._centring = Centring(like, self._rows)
        self._data = None if like.n_hidden else clamped.moments(like, self._rows)
        self.parameters = Parameters.of(like)
        self._lbfgs = Lbfgs(self._objective, self._centring.vector(self.parameters), settings.tolerance)
        self._path: list[tuple[np.ndarray, float, np.ndarray]] = []
        self._n_done = 0

    @property
    def done(self) -> bool:
        """Whether the optimiser has stopped and all its iterations were reported."""
        return self._lbfgs.done and self._n_done >= len(self._path)

    @property
    def converged(self) -> bool:
        """Whether no entry of the gradient is above the tolerance."""
        return self._lbfgs.converged

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Return the metrics of iteration `number`; none if the optimiser stopped before it."""
        # one iteration ahead, so that the last one is known to be the last
        wanted = min(number + 2, self._settings.epochs)
        while len(self._path) < wanted and not self._lbfgs.done:
            self._path = self._lbfgs.run(min(max(2 * len(self._path), 8), self._settings.epochs))
        self._n_done = min(number + 1, len(self._path))
        if number >= len(self._path):
            return []
        point, value, slope = self._path[number]
        self.parameters = self._centring.parameters(point)
        likelihood = -value + self._penalty(self.parameters)
        return [{"log_likelihood": likelihood, "gradient": float(np.abs(slope).max())}]

    def _penalty(self, parameters: Parameters) -> float:
        pairs = self._like.couplings.to_vector(parameters.weights)
        return 0.5 * self._settings.l2 * float(pairs @ pairs) + 0.5 * self._settings.l2_bias * float(
            parameters.bias @ parameters.bias
        )

    def _objective(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the penalised mean log-likelihood of a row, and its gradient."""
        parameters = self._centring.parameters(vector)
        model = parameters.machine(self._like)
        free = self._free.moments(model, self._rows)
        clamped = (
            self._clamped.moments(model, self._rows) if self._data is None else self._clamped_data(model, self._data)
        )
        slope = gradient(clamped, free, self._settings.beta, parameters, self._settings.l2, self._settings.l2_bias)
        assert clamped.log_z is not None and free.log_z is not None
        return self._penalty(parameters) - clamped.log_z + free.log_z, -self._centring.slope(slope)

    def _clamped_data(self, model: BoltzmannMachine, data: PhaseMoments) -> PhaseMoments:
        """The data's moments, with the mean of -beta E, which is linear in them."""
        pairs = model.couplings.to_vector(model.couplings.arrays) @ model.couplings.to_vector(data.pairs)
        energy = model.offset - float(pairs) - float(model.flat_bias @ data.mean)
        return PhaseMoments(data.mean, data.pairs, -self._settings.beta * energy)

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        record = with_prefix("optimizer", self._lbfgs.state())
        return {**self.parameters.to_state(), **record, "n_done": np.array(self._n_done)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self.parameters = Parameters.from_state(state)
        self._lbfgs.restore(without_prefix("optimizer", state))
        self._n_done = int(state["n_done"])
