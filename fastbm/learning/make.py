"""The choice of a learner, which moves the parameters, and of the two phases, by the settings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from .._base import rng
from .._base.threads import single_threaded_blas
from ..machine.machine import BoltzmannMachine
from . import rules
from .learners.adaptive import AutoSteps
from .learners.closed import ClosedForm
from .learners.likelihood import Likelihood
from .learners.local import LocalRules
from .learners.pretraining import Pretraining
from .learners.protocol import Driver
from .learners.restricted import RestrictedSteps
from .learners.steps import Steps
from .methods import PRESETS
from .phases.exact import GapsExact
from .phases.gibbs import GapsAnnealed, GapsGibbs
from .phases.mean_field import GapsMeanField
from .phases.phase import Phase, PhaseSettings
from .settings import FitSettings
from .training_set import Sample

CLAMPED_WITH_GAPS = {phase.name: phase for phase in (GapsExact, GapsGibbs, GapsAnnealed, GapsMeanField)}


@single_threaded_blas()  # the same bits whatever the number of its threads
def make(
    start: BoltzmannMachine, sample: Sample, settings: FitSettings, threads: int, free_seed: int | None = None
) -> Driver:
    """Make the learner that the settings ask for; `free_seed` is the free phase's, by default the run's."""
    if settings.free == "auto":
        other = rng.derive(settings.seed, rng.SWAPS)  # ladders that take over must not repeat the chains' numbers
        return AutoSteps(settings, lambda s: make(start, sample, s, threads, other if s.free == "tempering" else None))
    kind = PRESETS[settings.method].driver
    if kind == "closed":
        return ClosedForm(start, sample, settings)
    if kind == "local":
        return LocalRules(start, sample.rows, settings, threads, sample.weights)
    if settings.engine == "lanes":
        return RestrictedSteps(start, sample.rows, settings, threads, sample.weights)
    if settings.pretrain_epochs:
        return Pretraining(start, sample, settings, partial(phases, threads=threads))
    clamped, free = phases(start, sample, settings, threads, free_seed)
    if settings.optimizer == "l-bfgs":
        return Likelihood(start, sample, settings, clamped, free)
    return Steps(start, sample, settings, clamped, free, threads)


def phases(
    start: BoltzmannMachine, sample: Sample, settings: FitSettings, threads: int, free_seed: int | None = None
) -> tuple[Phase, Phase]:
    """Make the clamped and the free phase, with their chains."""
    common = PhaseSettings(
        beta=settings.beta,
        seed=settings.seed,
        threads=threads,
        n_chains=settings.n_chains,
        n_sweeps=settings.n_sweeps,
        clamped_sweeps=settings.clamped_sweeps,
        batch_size=settings.batch_size,
        wants_log_z=settings.optimizer == "l-bfgs",
        n_betas=settings.n_betas,
    )
    of_free = common if free_seed is None else replace(common, seed=free_seed)
    ways = CLAMPED_WITH_GAPS if sample.has_gaps else rules.CLAMPED
    clamped, free = ways[settings.clamped](common), rules.FREE[settings.free](of_free)
    if isinstance(clamped, GapsExact) and settings.optimizer == "l-bfgs":
        clamped.hold(start, sample.rows, sample.weights)
    for phase in (clamped, free):
        phase.prepare(start)
    return clamped, free
