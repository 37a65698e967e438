"""Persistent chains that react to bad mixing: by more sweeps an update, then by ladders of replicas.

Every answer is a function of R-hat over records of the chains (`fastbm.learning.monitor.chains`), which are part of a
run's state; so a run that is stopped and resumed answers as it would have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..._base import checks
from ..moments import Parameters
from ..monitor.chains import R_HAT_OF_CHAINS
from ..monitor.moment_test import Verdict
from ..phases.tempering import FreeTempering
from ..settings import FitSettings
from .protocol import Driver
from .restricted import RestrictedSteps
from .steps import Steps

DOUBLINGS = 4  # of n_sweeps, with chains and then with ladders


class AutoSteps:
    """Steps whose free phase is "gibbs" at first and "tempering" later, if chains do not mix.

    Answer k doubles n_sweeps; after four of these ladders take over where the chains stood, with the n_sweeps that was
    asked for, which doubles again up to four times.

    Parameters
    ----------
    settings : FitSettings
    make : callable
        The driver for settings with free="gibbs" or "tempering".
    """

    def __init__(self, settings: FitSettings, make: Callable[[FitSettings], Driver]) -> None:
        self._settings, self._make = settings, make
        self._n_answers = 0
        self._inner = make(self._present)

    @property
    def _present(self) -> FitSettings:
        """The settings of the learner at work; ladders come after any pretraining."""
        s = self._settings
        tempering, doublings = divmod(self._n_answers, DOUBLINGS + 1)
        n_sweeps = s.n_sweeps << doublings
        if tempering:
            return replace(s, free="tempering", engine="phases", n_sweeps=n_sweeps, pretrain_epochs=0)
        return replace(s, free="gibbs", n_sweeps=n_sweeps)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of an epoch's metrics."""
        return (*self._inner.metric_names, "n_sweeps", "n_betas")

    @property
    def parameters(self) -> Parameters:
        """The parameters as they are learned so far."""
        return self._inner.parameters

    @property
    def done(self) -> bool:
        """Whether there is nothing left to gain."""
        return self._inner.done

    @property
    def converged(self) -> bool | None:
        """Whether moments are the data's, by the steps in use; None where that was not tested."""
        return self._inner.converged

    @property
    def verdict(self) -> Verdict | None:
        """The last test of moments, by the steps in use."""
        return self._inner.verdict

    @property
    def chain_noise(self) -> float:
        """The chains' part of the last epoch's moment noise."""
        return self._inner.chain_noise

    def judge(self, number: int) -> None:
        """Test whether moments are the data's, by the steps in use."""
        self._inner.judge(number)

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Do (a part of) an epoch; `n_betas` is 1 where there are no ladders."""
        present = self._present
        n_betas = present.n_betas if present.free == "tempering" else 1
        more = {"n_sweeps": float(present.n_sweeps), "n_betas": float(n_betas)}
        return [{**row, **more} for row in self._inner.epoch(number)]

    def answer(self, r_hat: float, epoch: int) -> bool:
        """React to bad mixing after an epoch, where a measure is left; return whether one was taken."""
        if not r_hat > R_HAT_OF_CHAINS or self._n_answers == 2 * DOUBLINGS + 1:
            return False
        before = self._inner
        self._n_answers += 1
        now = self._present
        self._inner = self._make(now)
        self._inner.restore(_carried(before, self._inner))
        what = f"n_sweeps is {now.n_sweeps} from here on"
        if now.free == "tempering":
            what += f", with ladders of {now.n_betas} replicas"
        checks.warn(
            f"free chains do not mix: r_hat = {r_hat:.3g} after epoch {epoch}; {what}.",
        )
        return True

    def samples(self) -> np.ndarray | None:
        """Return packed states of the chains, or of the ladders' cold ends."""
        return self._inner.samples()

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit."""
        return {**self._inner.state(), "auto/n_answers": np.array(self._n_answers)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        n_answers = int(state["auto/n_answers"])
        if n_answers != self._n_answers:
            self._n_answers = n_answers
            self._inner = self._make(self._present)
        self._inner.restore(state)


def _carried(before: Driver, after: Driver) -> dict[str, np.ndarray]:
    """Return the state that `after` begins with: that of `before`, save chains that become ladders.

    It is taken between two epochs.
    """
    state = before.state()
    ladders = isinstance(after, Steps) and isinstance(after.free, FreeTempering)
    if not ladders or (isinstance(before, Steps) and isinstance(before.free, FreeTempering)):
        return state
    packed = before.samples()
    assert packed is not None and isinstance(after, Steps) and isinstance(after.free, FreeTempering)
    after.free.begin_at(packed)
    if isinstance(before, RestrictedSteps):
        mine = before.as_steps()
    else:
        mine = {name: array for name, array in state.items() if not name.startswith("free/")}
    return after.state() | mine
