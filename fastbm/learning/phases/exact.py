"""The clamped phase: moments with the visible units held at the data, hidden units inferred.

Each way to infer is one class with `moments(model, rows)`; `rows` are values (m, n_visible) in the machine's units.
`GapsExact` is for rows that lack entries: only what is known of a row is held, and all else is summed.
"""

from __future__ import annotations

import numpy as np

from ..._base import rng
from ..._base.checks import Diverged
from ..._base.threads import single_threaded_blas
from ...data.rows import Rows
from ...inference.conditional.completions import Alike, Filled, Gapped, log_sum, log_weights, sum_alike
from ...inference.fixed_point.mean_field import linear_response, solve
from ...inference.methods import run_method
from ...machine.clamping import Clamped
from ...machine.couplings import Layered
from ...machine.hidden import hidden_are_independent
from ...machine.machine import BoltzmannMachine
from ...sampling.chains import couple_chains
from ..minibatches import distinct
from ..moments import (
    PhaseMoments,
    from_matrix,
    from_patterns,
    from_values,
    hidden_means,
    learned_pairs,
    without_diagonal,
)
from ..training_set import values_of
from .phase import Phase

HOTTEST = 0.1  # of the machine's beta, where cooling begins


class ClampedExact(Phase):
    """Clamped phase, hidden units summed exactly: in closed form where they are independent, else over all their
    states.
    """

    name = "exact"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        if model.n_hidden == 0:
            log_z = -self.settings.beta * self._average(model.energy(rows))
            return from_values(model.couplings, rows, log_z, self.row_weights)
        if hidden_are_independent(model):
            return self._independent(model, rows)
        unique, inverse = np.unique(rows, axis=0, return_inverse=True)
        counts = np.bincount(inverse.ravel(), weights=self.row_weights, minlength=len(unique))
        exact = run_method(
            model,
            "exact",
            beta=self.settings.beta,
            clamp=(np.arange(model.n_visible), unique),
            moments=True,
            seed=self.settings.seed,
            threads=self.settings.threads,
            energy_variance=False,
            pairs=learned_pairs(model.couplings),
        )
        return from_patterns(model.couplings, exact, counts / counts.sum())

    def _independent(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        beta = self.settings.beta
        means = hidden_means(model, rows, beta)
        log_z = -self._average(model.free_energy(rows, beta=beta)) if self.settings.wants_log_z else None
        return from_values(model.couplings, np.concatenate([rows, means], axis=1), log_z, self.row_weights)

    def _average(self, numbers: np.ndarray) -> float:
        return float(np.average(numbers, weights=self.row_weights))


class ClampedGibbs(Phase):
    """Clamped phase, hidden units sampled: one chain for each row, with the row's pull as its bias.

    Chains start anew for every batch; `clamped_sweeps` sweeps are thrown away and as many are averaged.
    """

    name = "gibbs"
    cooled = False

    def __init__(self, settings: object) -> None:
        super().__init__(settings)
        self._n_calls = 0

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        if model.n_hidden == 0:
            return from_values(model.couplings, rows)
        settings = self.settings
        clamped = Clamped.of(model, np.arange(model.n_visible), rows)
        seed = rng.derive(settings.seed, rng.CLAMPED, self._n_calls)
        self._n_calls += 1
        up = rng.keyed(seed, rng.INITIAL).integers(0, 2, (len(rows), model.n_hidden), dtype=np.uint8)
        layered = isinstance(clamped.couplings, Layered)
        chains = couple_chains(
            clamped.couplings,
            clamped.bias,
            model.convention,
            up,
            rng.streams(seed, len(rows)),
            beta=settings.beta,
            rule="gibbs",
            order="sequential",
            seed=seed,
            threads=settings.threads,
        )
        if self.cooled:
            for beta in np.linspace(HOTTEST * settings.beta, settings.beta, settings.clamped_sweeps + 1)[:-1]:
                chains.set_beta(np.full(len(rows), beta))
                chains.sweep(1)
            chains.set_beta(np.full(len(rows), settings.beta))
        else:
            chains.sweep(settings.clamped_sweeps)
        mean = np.zeros(model.n_units)
        pairs = [np.zeros_like(array) for array in model.couplings.arrays]
        n_averaged = 1 if layered and len(model.couplings.sizes) == 2 else settings.clamped_sweeps
        for _ in range(n_averaged):
            chains.sweep(1)
            values = np.concatenate([rows, model.convention.values(chains.bits(), np.float64)], axis=1)
            one = from_values(model.couplings, values)
            mean += one.mean / n_averaged
            for total, part in zip(pairs, one.pairs, strict=True):
                total += part / n_averaged
        return PhaseMoments(mean, tuple(pairs))

    def state(self) -> dict[str, np.ndarray]:
        return {"n_calls": np.array(self._n_calls)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._n_calls = int(state["n_calls"])


class ClampedAnnealed(ClampedGibbs):
    """Clamped phase, hidden units sampled after cooling for `clamped_sweeps` sweeps from a tenth of beta.

    Ackley, Hinton and Sejnowski, Cognitive Science 9, 147 (1985), doi:10.1207/s15516709cog0901_7.
    """

    name = "annealed"
    cooled = True


class ClampedMeanField(Phase):
    """Clamped phase, hidden units by mean field, their correlations by linear response."""

    name = "mean-field"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        if model.n_hidden == 0:
            return from_values(model.couplings, rows)
        spin = model.to_units("spin")
        spin_rows = rows if model.units == "spin" else 2 * rows - 1
        unique, counts = np.unique(spin_rows, axis=0, return_counts=True)
        clamped = Clamped.of(spin, np.arange(model.n_visible), unique)
        beta = self.settings.beta
        solution = solve(
            clamped.couplings,
            clamped.bias.T,
            beta,
            np.zeros_like(clamped.bias.T),
            tolerance=1e-8,
            damping=0.0,
            max_sweeps=1000,
        )
        weights = counts / counts.sum()
        means = np.concatenate([unique, solution.means.T], axis=1)
        second = (means * weights[:, None]).T @ means
        hidden = slice(model.n_visible, None)
        if not hidden_are_independent(model):
            for weight, arguments in zip(weights, solution.arguments.T, strict=True):
                response = linear_response(clamped.couplings, beta, arguments)
                if response is None:
                    raise Diverged("the clamped phase has no finite linear response.")
                second[hidden, hidden] += weight * response
        mean = weights @ means
        if model.units == "binary":
            second = (second + mean[:, None] + mean[None, :] + 1) / 4
            mean = (1 + mean) / 2
        return from_matrix(model.couplings, mean, second)


class GapsExact(Phase):
    """Clamped phase of incomplete rows: averages of moments given what is known of a row, which are the gradient of log
    p(known).

    Louis, J. R. Stat. Soc. B 44, 226 (1982), eq. 3.1, doi:10.1111/j.2517-6161.1982.tb01203.x.
    """

    name = "exact"

    _held: Gapped | None = None

    def hold(self, model: BoltzmannMachine, rows: Rows, weights: np.ndarray | None) -> None:
        """Take all rows once; the rows that `moments` is told are then not looked at."""
        rows, shares = distinct(rows, weights)
        self._held = Gapped(model, values_of(model.convention, rows, slice(None)), shares)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        gapped = Gapped(model, rows) if self._held is None else self._held
        mean, log_z = np.zeros(model.n_units), 0.0
        pairs = [np.zeros_like(array) for array in model.couplings.arrays]
        with single_threaded_blas():
            parts = [self._listed(model, some, gapped.shares[some.rows]) for some in gapped.filled()]
        parts += [self._summed(model, some, gapped.shares[some.rows]) for some in gapped.summed()]
        for part in parts:
            assert part.log_z is not None
            mean, log_z = mean + part.mean, log_z + part.log_z
            for total, one in zip(pairs, part.pairs, strict=True):
                total += one
        return without_diagonal(PhaseMoments(mean, tuple(pairs), log_z))

    def _listed(self, model: BoltzmannMachine, filled: Filled, shares: np.ndarray) -> PhaseMoments:
        """Sums over rows, and over their fillings by probability."""
        beta = self.settings.beta
        log_f = log_weights(model, filled, beta)
        log_z = log_sum(log_f)
        weights = (shares[:, None] * np.exp(log_f - log_z[:, None])).ravel()
        values = filled.values
        if model.n_hidden:
            values = np.concatenate([values, hidden_means(model, values, beta)], axis=1)
        pairs = model.couplings.pair_sums(values * np.sqrt(weights)[:, None])
        return PhaseMoments(weights @ values, pairs, float(shares @ log_z))

    def _summed(self, model: BoltzmannMachine, alike: Alike, shares: np.ndarray) -> PhaseMoments:
        """Sums over rows that lack the same entries."""
        found = sum_alike(
            model, alike, self.settings.beta, self.settings.threads, moments=True, energy_variance=False,
            pairs=learned_pairs(model.couplings),
        )  # fmt: skip
        return from_patterns(model.couplings, found, shares)
