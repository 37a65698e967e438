"""Error bars by the bootstrap: a machine is learned from each of many resamples, rows drawn with replacement.

It asks nothing of the model: errors are right where the machine cannot be the truth, or the fit is no maximum of the
likelihood. Efron, Ann. Stat. 7, 1 (1979), doi:10.1214/aos/1176344552. Rows that follow one another in time depend on
one another, so that blocks of them are drawn: Künsch, Ann. Stat. 17, 1217 (1989), doi:10.1214/aos/1176347265.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..._base import checks, rng
from ..moments import Parameters
from .blocks import drawn_rows
from .errors import Errors

Refit = Callable[[np.ndarray], Parameters]


class Bootstrap:
    """The bootstrap, one resample after the other, so that a run can stop between any two.

    Mean and variance are updated by Welford, Technometrics 4, 419 (1962), doi:10.1080/00401706.1962.10490022.

    Parameters
    ----------
    n_rows : int
    n_resamples : int
    seed : int
        Resample k depends on (seed, k) alone.
    block : int
        Consecutive rows that are drawn together.
    """

    def __init__(self, n_rows: int, *, n_resamples: int = 100, seed: int = 0, block: int = 1) -> None:
        self.n_rows = checks.whole("n_rows", n_rows, least=1)
        self.n_resamples = checks.whole("n_resamples", n_resamples, least=2)
        self._seed, self.n_done, self.block = rng.resolve(seed), 0, block
        self._means: list[np.ndarray] = []
        self._squares: list[np.ndarray] = []
        self._infinite: list[np.ndarray] = []

    @property
    def done(self) -> bool:
        """Whether all resamples were learned from."""
        return self.n_done >= self.n_resamples

    def counts(self, k: int) -> np.ndarray:
        """Return how often each row is drawn in resample `k`."""
        drawn = drawn_rows(self.n_rows, self.block, self._seed, k)
        return np.bincount(drawn, minlength=self.n_rows).astype(np.int64)

    def add(self, learned: Parameters) -> None:
        """Update the mean and variance with what was learned from the next resample.

        What that does not determine may be infinite.
        """
        arrays = [np.asarray(array, np.float64) for array in learned.arrays]
        if not self._means:
            self._means, self._squares = ([np.zeros(array.shape) for array in arrays] for _ in range(2))
            self._infinite = [np.zeros(array.shape, bool) for array in arrays]
        shapes = [array.shape for array in arrays]
        if shapes != [mean.shape for mean in self._means]:
            raise ValueError(
                f"parameters must have the same shapes each time, {[m.shape for m in self._means]}; got "
                f"{shapes} in resample {self.n_done}."
            )
        self.n_done += 1
        for array, mean, squares, infinite in zip(arrays, self._means, self._squares, self._infinite, strict=True):
            infinite |= ~np.isfinite(array)
            change = np.where(infinite, 0.0, np.where(np.isfinite(array), array, 0.0) - mean)
            mean += change / self.n_done
            squares += change * change * ((self.n_done - 1) / self.n_done)

    def errors(self) -> Errors:
        """Return standard errors by the resamples so far; `inf` where any of them left a parameter undetermined."""
        if self.n_done < 2:
            raise ValueError(f"errors need at least two resamples; got {self.n_done}. Call add() first.")
        found = [
            np.where(infinite, np.inf, np.sqrt(squares / (self.n_done - 1)))
            for squares, infinite in zip(self._squares, self._infinite, strict=True)
        ]
        detail = {
            "n_resamples": self.n_done,
            "block": self.block,
            "relative_error": float(np.sqrt(0.5 / (self.n_done - 1))),
            "mean": Parameters.from_arrays(
                tuple(np.where(i, np.nan, m) for m, i in zip(self._means, self._infinite, strict=True))
            ),
            "unidentified": self._names(),
        }
        return Errors(tuple(found[:-1]), found[-1], "bootstrap", detail)

    def _names(self) -> tuple[str, ...]:
        """Return the indices of parameters that some resample left undetermined; a pair once."""
        names = []
        *weights, bias = self._infinite
        for k, array in enumerate(weights):
            name = "weights" if len(weights) == 1 else f"weights_{k}"
            full = array.shape == 2 * bias.shape
            places = np.argwhere(np.triu(array) if full else array).tolist()
            names += [f"{name}[{', '.join(map(str, place))}]" for place in places]
        return (*names, *(f"bias[{i}]" for i in np.flatnonzero(bias)))

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the bootstrap bit for bit."""
        groups = {"means": self._means, "squares": self._squares, "infinite": self._infinite}
        arrays = {f"{name}/{k}": np.array(a) for name, group in groups.items() for k, a in enumerate(group)}
        return {**arrays, "n_done": np.array(self.n_done)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""

        def group(name: str, dtype: Any) -> list[np.ndarray]:
            n = sum(key.startswith(f"{name}/") for key in state)
            return [np.array(state[f"{name}/{k}"], dtype) for k in range(n)]

        self._means, self._squares = group("means", np.float64), group("squares", np.float64)
        self._infinite, self.n_done = group("infinite", bool), int(state["n_done"])


def bootstrap_errors(refit: Refit, n_rows: int, *, n_resamples: int = 100, seed: int = 0, block: int = 1) -> Errors:
    """Return standard errors of what `refit` learns; other parameters as for `Bootstrap`.

    `refit` learns from how often each row was drawn, (n_rows,) int64, and returns `Parameters`. With hidden units it
    should start from the learned machine: units that change places would look like errors.
    """
    bootstrap = Bootstrap(n_rows, n_resamples=n_resamples, seed=seed, block=block)
    while not bootstrap.done:
        bootstrap.add(refit(bootstrap.counts(bootstrap.n_done)))
    return bootstrap.errors()
