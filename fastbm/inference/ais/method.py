"""Annealed importance sampling, up the path for a lower bound on log Z and down it for an upper one.

The path f_t = f_0^(1 - t) f^t leads from a product model f_0 to f = exp(-beta E), and log w = sum_k (t_{k+1} - t_k)
(log f(s_k) - log f_0(s_k)) + log Z_0 along a walk up it, so that Z = <w>. Along a walk down it from states of f, 1 / Z
= <1 / w>. Of layered machines every second layer is summed out, both ways. Before an estimate may say that it has
converged, walks the other way and a scout are looked at.

Neal, Stat. Comput. 11, 125 (2001), eqs. 11-12, doi:10.1023/A:1008923215028; Burda, Grosse and Salakhutdinov, AISTATS
(2015), arXiv:1412.8566 (the way down).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import expit

from ..._base import checks
from ..._base.options import Least, options
from ...machine.machine import BoltzmannMachine
from ..estimator import BETAS, Drawing, Drawn, Examined, Knob, refuse_beside_betas
from ..result import Inference, check_pairs
from ..scout.bases import check_start, log_odds
from ..scout.scout import SCOUT, Scout
from ..verdict import UNASKED, Verdict, way_out
from .cold import Walks, look
from .election import tried
from .job import SECOND, Job, survey
from .path import N_SWEEPS, adapt_path, check_betas, make_path
from .verdict import of_walks
from .walks import check_walk
from .weights import Average, weighted_moments

SECOND_PART = 0.25  # of the time of a scout, for one that stands witness to a base from another's states
WIDEST = 0.5  # nats, of an error bar that says anything
MEANS = "start means"  # in `detail`, those of the base


@options
class _Paths(Examined):
    """The base of annealing in both directions along a path.

    Parameters
    ----------
    n_chains : int
        Independent annealing runs; `log_z_error` falls as its square root.
    n_betas : int
        Temperatures of the path; 1000 unless given.
    betas : (n_betas,) float array, optional
        The path itself: increasing from 0.0 (the product model) to 1.0 (the target).
    path : {"linear", "adaptive"}
        How temperatures are spread: equally, or, after a pilot run, so that each step adds as much to the variance of
        the weights.
    start : {"uniform", "biases", "data", "mean-field", "tempering"} or array, optional
        The product model: all units free; visible units by their biases, or by the base rates of the data that the
        machine learned from; mean-field means; the means of a short tempering; or means (n_visible,) or (n_units,).
        Left out, all that the machine has are tried shortly and the one with the highest lower end of log Z is taken.
    walk : {"blocks", "marginal"}, optional
        Of layered machines: layers drawn whole, or the units of the smaller side one after the other with the other
        side summed out. A sweep of that is better at leaving a mode and takes some ten times as long, in which blocks
        mostly bring more. "blocks" unless given.
    """

    knob: ClassVar[Knob | None] = BETAS
    itself: ClassVar[bool] = True
    cut: ClassVar[bool] = True

    n_chains: Annotated[int, Least(1)] = 128
    n_betas: Annotated[int | None, Least(2)] = None
    betas: Annotated[Any, check_betas] = None
    path: Literal["linear", "adaptive"] | None = None
    start: Any = None
    walk: Literal["blocks", "marginal"] | None = None
    source: Literal["tempering", "exact", "gibbs"] | None = None
    n_sweeps: Annotated[int | None, Least(2)] = None

    def _check_together(self) -> None:
        refuse_beside_betas(self)
        if self.n_sweeps is not None and self.source != "gibbs":
            raise ValueError(
                f"n_sweeps is for the chains of source='gibbs'; got source={self._source!r}. Leave n_sweeps out."
            )

    @property
    def _source(self) -> str:
        return self.source or "tempering"

    def _down(self, job: Job) -> tuple[np.ndarray, bool | None, dict[str, Any]]:
        return job.down(self._source, self.n_sweeps or N_SWEEPS)

    def _job(
        self, model: BoltzmannMachine, beta: float, seed: int, threads: int, executor: Executor | None, must: bool
    ) -> Job:
        """Check the options against the machine, and choose what they leave open.

        `must` asks for states of a scout in any case.
        """
        steps, kind, start = make_path(self.n_betas, self.betas), check_walk(model, self.walk), self.start
        check_start(model, start)
        found, before, named = None, None, start if isinstance(start, str) else None
        work, judged = self.n_chains * len(steps), self.witness or must
        if judged or named == "tempering":
            # means that are given may be those of the first scout
            purpose = SCOUT if start is None or named else SECOND
            found = survey(model, beta, kind, work, seed, threads, must or named == "tempering", purpose)
        rival, facts = None, {}
        if start is None and self.witness:
            trials = tried(model, beta, kind, len(steps), found, seed, threads)
            start, base = trials[0].name, trials[0].base
            facts = {"trials": {one.name: {"log_z": one.log_z, "ess": one.ess} for one in trials}}
            rival = (trials[1].name, trials[1].lower) if len(trials) > 1 else None
        else:
            if start is None:
                start = "uniform" if model.base_rates is None else "data"
            base = log_odds(model, beta, start, found)
        if isinstance(start, str) and start == "tempering":
            before, found = found, None  # what its states miss they would certify
            if judged:
                found = survey(model, beta, kind, SECOND_PART * work, seed, threads, must, SECOND)
        if self.path == "adaptive":
            steps = adapt_path(model, beta, base, len(steps), kind, seed, threads)
        name = start if isinstance(start, str) else "means"
        return Job(
            model, beta, name, base, steps, kind, self.n_chains, seed, threads, rival, found, before, facts, executor
        )  # fmt: skip


class _Walked(NamedTuple):
    """What walks up a path have brought, and those down it, for `AIS`.

    `judged` are walks down that stand witness, `back` those of a bracket, from states that `holds` says are samples;
    `chains` tells of chains that they begin at and that have not converged.
    """

    log_w: np.ndarray
    up: np.ndarray
    about: dict[str, Any]
    found: Average
    judged: Average | None
    back: Average | None
    holds: bool | None
    chains: dict[str, Any] | None
    bracket: dict[str, Any]


@options
class AIS(_Paths, Drawing):
    """Estimate log Z by annealed importance sampling.

    Parameters
    ----------
    bracket : bool
        Whether to go back down the path too, as "reverse-ais" does: `detail` then holds "log_z_lower", "log_z_upper",
        their errors "log_z_lower_error", "log_z_upper_error", and "upper_holds": whether walks down began at exact
        samples, or at states of chains that have converged or of a tempering that nothing contradicts. `log_z` is the
        lower one.
    source, n_sweeps
        For the way down; as for `ReverseAIS`.
    witness : bool
        Whether to look for what contradicts the result, in at most about the time of the walks, or a tenth of a second:
        a bound that holds for certain, a base that finds more, and walks down from states of an independent
        tempering, another than that of `start="tempering"`. Without, `converged` is None at best.

    Raises
    ------
    ValueError
        If `betas` does not increase from 0 to 1, or the machine does not have what `start` or `walk` takes.

    Notes
    -----
    `log_z` and `log_z_error` in nats; `ess` of the final weights. `exp(log_z)` is unbiased, so `log_z` is low on
    average. The error is the largest of those in `detail["log_z_errors"]`: by the delta method, where the weights
    are uneven (ess below 0.7 of their number) by the bootstrap and from a log-normal tail; where walks down that stand
    witness tell something else, half of what lies between, or as much as they scatter; and what states that no walk has
    met, a valley of one part in as many walks (unless there is one alone, for certain), and rounding may add.
    `converged` is True only if walks down from other states agree, and walks from low states at low temperature, and of
    up to 21 units the sum over all states; it is None where the error is above half a nat. ``detail["witness"]`` tells
    what was seen.

    Costs a sweep of all chains for each temperature; the weights cost next to nothing. Even weights are no sign of a
    right answer: chains that all end in one valley agree on its part of Z.
    """

    name: ClassVar[str] = "ais"
    all_pairs: ClassVar[bool] = True

    bracket: bool = False

    def _check_together(self) -> None:
        for name in ("source", "n_sweeps"):
            if getattr(self, name) is not None and not self.bracket:
                raise ValueError(
                    f"{name} is for the way down the path, which ais goes with bracket=True alone. Leave {name} out."
                )
        super()._check_together()

    def draw(
        self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int,
        executor: Executor | None = None,
    ) -> Drawn:  # fmt: skip
        """Walk up the path, and down it where a result is judged or bracketed."""
        if moments:
            check_pairs(model.n_units)
        must = self.bracket and self._source == "tempering"
        job = self._job(model, beta, seed, threads, executor, must)
        log_w, up, about = job.up()
        found = job.average(log_w)
        back, holds, chains, bracket = None, None, None, {}
        if self.bracket:
            log_down, holds, facts = self._down(job)
            back, chains = job.average(-log_down), facts if holds is False else None
            bracket["upper"] = {"log_weights": log_down, "ess": back.ess, "log_z_errors": back.errors, **facts}
        judged = None if self._source == "gibbs" and self.witness else back  # which chains that agree cannot vouch for
        if judged is None and self.witness and chains is None and found.healthy:
            judged = job.witness_down()
        walked = _Walked(log_w, up, about, found, judged, back, holds, chains, bracket)
        return Drawn(about, [job.seen], partial(self._judged, job, walked, moments))

    def _judged(self, job: Job, walked: _Walked, moments: bool, numbers: Sequence[Any]) -> Inference:
        """Put the result together, with a verdict by walks down and by what a scout has seen."""
        log_w, up, about, found, judged, back, holds, chains, bracket = walked
        (seen,) = numbers
        verdict = _judge("ais", job, seen, found, judged, chains, self.witness, up)
        found = found.beside(judged) if judged is not None and verdict.converged else found
        verdict = _wide(verdict, found)
        result: dict[str, Any] = {"log_z": found.log_mean, "log_z_error": found.error, "bound": "stochastic lower"}
        if moments:
            part = max(found.error or 0.0, *(found.errors.get(name, 0.0) for name in ("valley", "other way")))
            others = seen.up if seen is not None and "other way" in found.errors else None
            result |= weighted_moments(job.model, up, found.weights, found.log_mean, job.beta, part, others)
        detail = _detail(job, log_w, found) | about | bracket
        if back is not None:
            certain = self._source == "exact" or (holds is not False and verdict.converged is True)
            detail |= _ends(found, back.beside(found) if verdict.converged else back) | {"upper_holds": certain}
        return Inference(
            "ais", **result, converged=verdict.converged, n_samples=self.n_chains, ess=found.ess,
            detail=detail | verdict.facts,
        )  # fmt: skip


@options
class ReverseAIS(_Paths):
    """Estimate log Z by annealed importance sampling in reverse, from samples of the machine to the product model.

    Parameters
    ----------
    source : {"tempering", "exact", "gibbs"}
        Where samples come from: the states of a short tempering, unless told; drawn independently by the tables of
        exact sums; or the last states of Gibbs chains.
    n_sweeps : int
        Sweeps of the Gibbs chains from random states, 1000 unless given; the second half tells whether they have
        converged.
    witness : bool
        As for `AIS`; walks up are the witness.

    Notes
    -----
    `log_z_error` is found as that of `AIS`.
    `exp(-log_z)` is unbiased, so that `log_z` is high on average, if the samples are right: `bound` is None where
    they are not drawn exactly and something contradicts them, and `converged` is True only if walks up agree.
    """

    name: ClassVar[str] = "reverse-ais"

    def run(
        self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int,
        executor: Executor | None = None,
    ) -> Inference:  # fmt: skip
        """Infer log Z and moments; moments are in the machine's units."""
        job = self._job(model, beta, seed, threads, executor, self._source == "tempering")
        log_w, holds, about = self._down(job)
        found = job.average(-log_w)
        chains = about if holds is False else None
        up = job.witness_up() if self.witness else None
        met = None if self._source != "tempering" or job.scout is None else job.scout.up
        verdict = _judge("reverse-ais", job, job.seen(), up, found, chains, self.witness, met)
        found = found.beside(up) if up is not None and verdict.converged else found
        verdict = _wide(verdict, found)
        certain = self._source == "exact" or (holds is not False and verdict.converged is True)
        result = Inference(
            "reverse-ais",
            log_z=-found.log_mean,
            log_z_error=found.error,
            bound="stochastic upper" if certain else None,
            converged=verdict.converged,
            n_samples=self.n_chains,
            ess=found.ess,
            detail=_detail(job, log_w, found) | about | verdict.facts,
        )
        if not self.witness or met is None:
            return result
        return look(result, Walks(model, result.detail, beta, seed, threads), met)


def _wide(verdict: Verdict, found: Average) -> Verdict:
    """Return a verdict that tells nothing where an error bar, with all that was added to it, is too wide to."""
    if not verdict.converged or found.error is None or found.error <= WIDEST:
        return verdict
    reason = f"the error bar of {found.error:.2g} nats is too wide to tell; {way_out('raise n_betas')}"
    return Verdict(None, reason, verdict.seen)


def _detail(job: Job, log_w: np.ndarray, found: Average) -> dict[str, Any]:
    about = {"log_weights": log_w, "n_betas": len(job.path), "start": job.start, "log_z_errors": found.errors}
    if job.start == "tempering":  # can be passed as `start`, where another tempering would only cost
        units = job.model.convention
        about[MEANS] = units.lo + units.span * expit(job.base)
    return about | job.facts


def _ends(lower: Average, upper: Average) -> dict[str, Any]:
    """Both ends of the bracket, for `detail`."""
    return {
        "log_z_lower": lower.log_mean,
        "log_z_lower_error": lower.error,
        "log_z_upper": -upper.log_mean,
        "log_z_upper_error": upper.error,
    }


def _judge(
    name: str, job: Job, seen: Scout | None, up: Average | None, down: Average | None, chains: dict[str, Any] | None,
    witness: bool, met: np.ndarray | None,
) -> Verdict:  # fmt: skip
    """Return whether walks, up for "ais" and down for "reverse-ais", are believed; a warning says why not.

    `chains` tells of Gibbs chains that walks down begin at and that have not converged; `met` as for `of_walks`.
    """
    own = up if name == "ais" else down
    assert own is not None
    verdict = Verdict(None, UNASKED)
    if chains is not None:
        reason = (
            f"the Gibbs chains it starts down from have not converged (r_hat = {chains['r_hat']:.3g}), so that they "
            'bound nothing. Raise n_sweeps, or pass source="tempering"'
        )
        verdict = Verdict(False, reason)
    elif not own.healthy:
        reason = f"{own.ess:.1f} of {len(own.weights)} weights carry the average. Raise n_betas or n_chains"
        verdict = Verdict(False, reason)
    elif witness or (up is not None and down is not None):
        verdict = of_walks(up, down, own, seen if witness else None, job.rival, met)
        if verdict.converged and not witness:
            verdict = Verdict(None, UNASKED, verdict.seen)
        if verdict.converged is False:
            verdict = replace(verdict, reason=f"{verdict.reason}; {way_out('raise n_betas')}")
    if verdict.converged is False:
        checks.warn(f"{name} has not converged, and its error bar is not to be trusted: {verdict.reason}.")
    return verdict
