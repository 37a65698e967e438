"""Learning by mini-batch steps: how parameters move in one epoch, and a test of moments at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data.rows import Rows
from ...machine.machine import BoltzmannMachine
from ..errors.statistics import Statistics
from ..minibatches import order_of_rows
from ..moments import Parameters, PhaseMoments, gradient, with_prefix, without_prefix
from ..monitor.metrics import root_mean_square
from ..monitor.moment_test import N_CALLS, MomentTest, Verdict
from ..optimise.centring import Offsets
from ..optimise.natural import Metric, Natural
from ..optimise.sgd import PLAIN, rate
from ..optimise.uphill import Uphill
from ..phases.noise import MomentNoise
from ..phases.phase import OWN_CHAINS, PART_NUMBERS, SAMPLED, Phase, clamped_moments, parts_of
from ..settings import FitSettings
from ..training_set import Sample, values_of

FIRST_TEST = 100  # epochs before moments are first held against the data's, which are then doubled
NO_ROWS = np.zeros((0, 0))
CALL_WORK = 1 << 28  # batch rows times couplings a call: about a tenth of a second, so that a stop is prompt


class Steps:
    """The learner by steps, mini-batches in a new order every epoch; rows that fill no batch are left out of the epoch.

    The moment error is the root mean square, over coupled pairs, of <s_i s_j>_clamped - <s_i s_j>_free averaged over an
    epoch; its noise is told by `fastbm.learning.phases.noise`.
    """

    metric_names = ("moment_error", "moment_noise")

    def __init__(
        self,
        like: BoltzmannMachine,
        sample: Sample,
        settings: FitSettings,
        clamped: Phase,
        free: Phase,
        threads: int = 1,
    ) -> None:
        self._like, self._settings, self._clamped, self.free = like, settings, clamped, free
        self.parameters = Parameters.of(like)
        self._noise = MomentNoise(like, settings.seed, sample.n_rows, own_chains=settings.free in OWN_CHAINS)
        if settings.free in OWN_CHAINS:
            free.noise = self._noise
        self._metric: Metric | None = None
        self._optimizer: Any
        if settings.optimizer == "natural":
            self._metric = Metric(sample, settings, threads)
            self._optimizer = Natural(like, self._metric, settings.learning_rate)
        else:
            kind = PLAIN[settings.optimizer]
            self._optimizer = kind(self.parameters, settings.learning_rate, settings.momentum)
        # all rows, nothing hidden or missing: the clamped phase is the data's moments; no other phase needs the rows
        whole = sample.up is None or sample.by_moments(settings)
        self._whole = sample.clamped() if whole else None
        self._weights = sample.weights
        self._up = Rows.of(np.zeros((1, like.n_visible), np.uint8)) if sample.up is None else sample.up
        # a mini-batch of all rows that are too many to be worked on at once
        self._in_parts = (
            self._whole is None
            and settings.batch_size == len(self._up)
            and settings.free != "contrastive"
            and len(self._up) * like.n_units > PART_NUMBERS
        )
        self._offsets: Offsets | None = None
        if settings.centring:
            self._offsets = Offsets(like, sample.mean)
        self._dtype = SAMPLED if settings.free in ("gibbs", "contrastive") and like.is_layered else np.float64
        self._n_batches = len(self._up) // settings.batch_size
        self._batch = 0  # of the present epoch
        self._gap = [np.zeros_like(array) for array in like.couplings.arrays]
        work = settings.batch_size * max(sum(array.size for array in like.couplings.arrays), 1)
        self._batches_a_call = max(1, CALL_WORK // work)
        self._test: MomentTest | None = None
        self._uphill: Uphill | None = None
        if judged(settings) and settings.batch_size == len(self._up):
            if like.n_hidden:
                self._test = MomentTest(Statistics(like), sample.n_rows)
            else:
                self._metric = self._metric or Metric(sample, settings, threads)
                # rows that are drawn by weight are so once for a test, whose halves then lead uphill by their noise
                if self._whole is not None or sample.weights is None:
                    self._uphill = Uphill(sample)
                climb = None if self._uphill is None else self._climb
                self._test = MomentTest(Statistics(like), sample.n_rows, self._combined, climb)
        self._tested = 0  # epochs at the last test
        self.verdict: Verdict | None = None

    @property
    def done(self) -> bool:
        """Whether moments are the data's within noise, by a test on the way; never with hidden units.

        The moments of hidden units are the machine's own, and agree at saddles too.
        """
        return self.verdict is not None and self.verdict.settled and not self._like.n_hidden

    @property
    def converged(self) -> bool | None:
        """Whether moments are the data's; None where that was not tested, or, with hidden units, decides nothing."""
        if self.verdict is None or (self.verdict.passed and self._like.n_hidden):
            return None
        return self.verdict.passed

    @property
    def chain_noise(self) -> float:
        """The chains' part of the last epoch's moment noise."""
        return self._noise.of_chains

    def judge(self, number: int) -> None:
        """Test moments against the data's after `number` epochs, the last, unless that was done.

        It is left out where it would take longer than the epochs did. Every call takes all rows again where hidden
        units are sampled given these.
        """
        if self._whole is None and number < N_CALLS:
            return
        while self._test is not None and self._tested < number and self._run_test(number):
            pass

    def _run_test(self, number: int) -> bool:
        """Add one call of both phases at constant parameters to the test; return whether it needs more."""
        assert self._test is not None
        model = self.parameters.machine(self._like)
        rows, clamped = self._clamped_of_all(model, number)
        self._test.add(clamped, self.free.moments(model, rows))
        self._noise.forget()
        if self._test.full:
            self.verdict, self._tested = self._test.verdict(self._pull()), number
            self._test.begin()
        return self._tested < number

    def _combined(self, gap: Parameters) -> np.ndarray:
        """Return the gradient by the metric's coordinates that differences of moments are."""
        assert self._metric is not None
        beta = self._settings.beta
        return self._metric.slope(Parameters(tuple(beta * one for one in gap.weights), beta * gap.bias))

    def _climb(self, gap: Parameters) -> Parameters:
        """Return the direction in which the likelihood rises most, less the penalty, whose curvature is left out."""
        assert self._uphill is not None
        pull = self._pull()
        weights = tuple(one - other for one, other in zip(gap.weights, pull.weights, strict=True))
        return self._uphill(Parameters(weights, gap.bias - pull.bias))

    def _pull(self) -> Parameters:
        """Return the difference of both phases' moments at which the gradient of the penalised likelihood vanishes."""
        s, now = self._settings, self.parameters
        return Parameters(tuple(s.l2 / s.beta * w for w in now.weights), s.l2_bias / s.beta * now.bias)

    def _clamped_of_all(self, model: BoltzmannMachine, number: int) -> tuple[np.ndarray, PhaseMoments]:
        """Return the rows of a mini-batch that is all of them, where they are needed, and its clamped moments."""
        if self._in_parts:
            return NO_ROWS, self._clamped_in_parts(model, number)
        if self._whole is not None:
            return NO_ROWS, self._whole
        order = order_of_rows(len(self._up), self._settings.seed, number, self._weights, slice(None))
        rows = values_of(model.convention, self._up, order, self._dtype)
        return rows, self._clamped.moments(model, rows)

    def _is_due(self, number: int) -> bool:
        """Return whether moments are to be tested against the data's before epoch `number`."""
        doublings, rest = divmod(number, FIRST_TEST)
        if self._like.n_hidden or self._test is None:
            return False
        return self._tested < number and not rest and doublings & (doublings - 1) == 0

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Do some mini-batches of an epoch, or of a test of moments before it.

        Returns the row of metrics when the epoch is over, and nothing before.
        """
        settings = self._settings
        if settings.optimizer == "natural" and self._is_due(number):
            self._run_test(number)
            return []
        last = min(self._batch + self._batches_a_call, self._n_batches)
        order = np.zeros(0, np.int64)
        if self._whole is None and not self._in_parts:
            places = slice(self._batch * settings.batch_size, last * settings.batch_size)
            order = order_of_rows(len(self._up), settings.seed, number, self._weights, places)
        self._optimizer.learning_rate = rate(settings.schedule, settings.learning_rate, number, settings.epochs)
        for k in range(last - self._batch):
            model = self.parameters.machine(self._like)
            rows = NO_ROWS
            if self._in_parts:
                clamped = self._clamped_in_parts(model, number)
            elif self._whole is None:
                chosen = order[k * settings.batch_size : (k + 1) * settings.batch_size]
                rows = values_of(model.convention, self._up, chosen, self._dtype)
                clamped = self._clamped.moments(model, rows)
            else:
                clamped = self._whole
            free = self.free.moments(model, rows)
            slope = gradient(
                clamped, free, settings.beta, self.parameters, settings.l2, settings.l2_bias, self._offsets
            )
            self.parameters = self._optimizer.step(self.parameters, slope)
            if self._offsets is not None:
                self._offsets.follow(clamped.mean[model.n_visible :])
            self._noise.add_clamped(clamped.pairs)
            for total, c, f in zip(self._gap, clamped.pairs, free.pairs, strict=True):
                total += c - f
            self._batch += 1
        if self._batch < self._n_batches:
            return []
        error = root_mean_square(self._like.couplings, self._gap) / self._n_batches
        self._batch = 0
        for total in self._gap:
            total[:] = 0.0
        return [{"moment_error": error, "moment_noise": self._noise.take()}]

    def _clamped_in_parts(self, model: BoltzmannMachine, number: int) -> PhaseMoments:
        """Return the clamped moments of all rows, a part at a time; with weights, of as many rows drawn by weight."""
        chosen = None
        if self._weights is not None:
            chosen = order_of_rows(len(self._up), self._settings.seed, number, self._weights, slice(None))
        parts = parts_of(self._up, model.n_units, chosen)
        return clamped_moments(self._clamped, model, self._up, parts, self._dtype)

    def samples(self) -> np.ndarray | None:
        """Return packed states of the free chains, where they persist."""
        return self.free.samples()

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit."""
        optimizer = with_prefix("optimizer", self._optimizer.state())
        gap = {f"epoch/gap/{k}": total for k, total in enumerate(self._gap)}
        offsets = {} if self._offsets is None else {"offsets": self._offsets.values}
        phases = with_prefix("clamped", self._clamped.state()) | with_prefix("free", self.free.state())
        mine = {**self.parameters.to_state(), **optimizer, **gap, **offsets, "epoch/batch": np.array(self._batch)}
        test = {} if self._test is None else with_prefix("test", self._test.state() | self._test_state())
        return mine | phases | with_prefix("noise", self._noise.state()) | test

    def _test_state(self) -> dict[str, np.ndarray]:
        """Return the results of tests of moments, for a checkpoint."""
        found = {"tested": np.array(self._tested)}
        return found if self.verdict is None else found | {"verdict": self.verdict.to_array()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.parameters = Parameters.from_state(state)
        self._optimizer.restore(without_prefix("optimizer", state))
        if self._offsets is not None:
            self._offsets.values = np.array(state["offsets"])
        self._clamped.restore(without_prefix("clamped", state))
        self.free.restore(without_prefix("free", state))
        self._noise.restore(without_prefix("noise", state))
        self._batch = int(state["epoch/batch"])
        self._gap = [np.array(state[f"epoch/gap/{k}"]) for k in range(len(self._gap))]
        if self._test is not None and (test := without_prefix("test", state)):
            self._test.restore(test)
            self._tested = int(test["tested"])
            self.verdict = Verdict.from_array(test["verdict"]) if "verdict" in test else None


def judged(settings: FitSettings) -> bool:
    """Return whether moments are tested against the data's when learning is over."""
    return settings.free in OWN_CHAINS and (settings.optimizer == "natural" or settings.method == "monte-carlo")
