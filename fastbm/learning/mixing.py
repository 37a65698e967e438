"""Whether the free chains mix as learning goes on.

Parameters move, and with them what chains are drawn from; but they move for all chains alike. So a few numbers of each
chain are recorded now and then, each record is brought to mean 0 and variance 1 over the chains, and rank-normalised
split R-hat tells whether chains that were high among the others stay high: 1 where they forget within the records.

Vehtari, Gelman, Simpson, Carpenter and Bürkner, Bayesian Anal. 16, 667 (2021), doi:10.1214/20-BA1221.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import diagnostics, rng
from ..model import BoltzmannMachine
from ..threads import single_threaded_blas
from .energies import energies

MOST_RECORDS = 32
FEWEST_RECORDS = 8
POWER_STEPS = 50
# A chain whose memory is tau records long has R-hat^2 = 1 + 2 tau / 16 or so over half of 32 records. The limit of
# samples that are to be averaged, 1.05, asks for a tau below 1; here tau may be 3.5, about 5 % of the epochs so far, as
# a gradient needs chains that follow the parameters, not independent ones.
R_HAT_OF_CHAINS = 1.2


def principal_axis(covariance: Callable[[np.ndarray], np.ndarray], n: int, seed: int) -> np.ndarray:
    """The direction (n,) in which data vary most, nearly; 0 where they do not vary. `covariance` multiplies by it."""
    axis = rng.keyed(seed, rng.MONITOR, 5).normal(size=n)
    with single_threaded_blas():  # the same bits whatever the number of threads
        for _ in range(POWER_STEPS):
            axis = covariance(axis)
            size = float(np.linalg.norm(axis))
            axis = axis / size if size > 0 else np.zeros(n)
    return axis


class Mixing:
    """Records of the energy, the number of units up and the projection of visible units on an axis, of each chain.

    One is taken an epoch at first and then fewer, so that at most 32 reach back over the last half of the epochs, or a
    bit more.

    Parameters
    ----------
    axis : (n_visible,) array
    beta : float
    n_chains : int
        Those that are recorded.
    """

    def __init__(self, axis: np.ndarray, beta: float, n_chains: int) -> None:
        self._axis, self._beta = axis, beta
        self._n_chains = n_chains
        self.forget()

    def forget(self) -> None:
        """Begin anew: chains move in another way from here on."""
        self._records = np.zeros((0, self._n_chains, 3), np.float32)
        self._n_epochs, self._spacing = 0, 1
        self._value: float | None = None

    def record(self, model: BoltzmannMachine, up: np.ndarray) -> bool:
        """An epoch is over, with chains in states (n_chains, n_units) of 0 and 1; whether that was recorded."""
        self._n_epochs += 1
        if self._n_epochs % self._spacing:
            return False
        values = model.convention.values(up, np.float64)
        numbers = np.stack(
            [
                energies(model, values, self._beta),
                up.sum(axis=1, dtype=np.float64),
                values[:, : model.n_visible] @ self._axis,
            ],
            axis=1,
        )
        self._records = np.concatenate([self._records, _standard(numbers)[None]])[-MOST_RECORDS:]
        if self._n_epochs >= 2 * MOST_RECORDS * self._spacing:
            self._records = self._records[1::2]
            self._spacing *= 2
        self._value = None
        return True

    @property
    def r_hat(self) -> float:
        """The largest R-hat of the three; nan with one chain, and until there are 8 records."""
        if self._value is None:
            enough = len(self._records) >= FEWEST_RECORDS and self._n_chains > 1
            self._value = float(np.max(diagnostics.r_hat(self._records))) if enough else float("nan")
        return self._value

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        return {"records": self._records, "count": np.array([self._n_epochs, self._spacing])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self._records = np.array(state["records"])
        self._n_epochs, self._spacing = (int(number) for number in state["count"])
        self._value = None


def _standard(numbers: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and variance 1, or 0 where they do not vary but for rounding."""
    centred = numbers - numbers.mean(axis=0)
    spread = centred.std(axis=0)
    varies = spread > 1e-12 * np.abs(numbers).max(axis=0, initial=0.0)
    scaled: np.ndarray = np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)
    return scaled.astype(np.float32)
