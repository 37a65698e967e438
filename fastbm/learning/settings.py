"""Options of learning: those that rules share, those of the monitor, and the settings of a whole run.

Each option is a field of one class here; rules are made of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from .._base import checks
from .._base.options import CHOSEN, Above, Least, Options, options

Clamped = Literal["exact", "gibbs", "annealed", "mean-field", "variational", "tap"]
Free = Literal["exact", "gibbs", "contrastive", "restarted", "annealed", "tempering", "auto", "mean-field", "tap"]


def inverse_temperature(name: str, value: Any) -> float:
    """Check an inverse temperature; parameters are log-odds over it."""
    found = checks.real(name, value, above=0.0)
    if not SMALLEST <= found <= 1.0 / SMALLEST:
        raise ValueError(
            f"{name} must be from {SMALLEST:g} to {1.0 / SMALLEST:g}; got {found:g}. Measure energies in another unit."
        )
    return found


def momentum(name: str, value: Any) -> float:
    """Check a momentum."""
    if (found := checks.real(name, value, least=0.0)) >= 1.0:
        raise ValueError(f"{name} must be below 1, or steps grow without end; got {found:g}.")
    return found


def until(name: str, given: Any) -> dict[str, float]:
    """Check metrics that learning may wait for, and their values."""
    if not isinstance(given, Mapping) or not given:
        raise TypeError(f'{name} must be a dict such as {{"moment_error": 0.02}}; got {given!r}.')
    return {
        checks.choice(name, metric, STOPPING): checks.real(f"{name}[{metric!r}]", value, above=0.0)
        for metric, value in given.items()
    }


def rows_together(name: str, given: Any) -> int | str:
    """Check how many rows are drawn together."""
    return "auto" if isinstance(given, str) and given == "auto" else checks.whole(name, given, least=1)


SMALLEST = 1e-100  # beta, and the largest over 1
STOPPING = ("moment_error", "gradient")  # metrics that a run may wait for


@options
class Rule(Options):
    """A rule of learning.

    Parameters
    ----------
    beta : float
        Inverse temperature at which the machine is learned.
    """

    kind: ClassVar[str] = "rule of learning"

    beta: Annotated[float, inverse_temperature] = 1.0


@options
class Repeated(Rule):
    """Rules that learn in epochs.

    Parameters
    ----------
    optimizer : {"sgd", "adam", "natural", "l-bfgs"}, optional
        "natural" takes steps in the data's own metric that shorten as noise takes over
        (`fastbm.learning.optimise.natural`), and is what "monte-carlo" does unless `learning_rate`, `momentum`,
        `schedule` or `centring` say how to step; then, as with the other methods of chains, it is "sgd" with these.
        Convex rules are learned by "l-bfgs" alone, and so is "exact" unless told otherwise. The likelihood of up to 12
        units, none of them hidden, is climbed by Newton's steps in its place.
    epochs, batch_size : int
        Rows that fill no mini-batch sit an epoch out; for "l-bfgs" an epoch is one iteration with all rows.
    l2, l2_bias : float
        l2 subtracts l2/2 sum_{i<j} W_ij^2 from the mean log-likelihood of a row, or adds it to a convex rule's
        objective; biases are free unless `l2_bias` says otherwise.
    tolerance : float
        For "l-bfgs": converged when no entry of the (scaled) gradient is larger.
    """

    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"] = CHOSEN
    epochs: Annotated[int, Least(1)] = CHOSEN
    batch_size: Annotated[int, Least(1)] = CHOSEN
    l2: Annotated[float, Least(0.0)] = 0.0
    l2_bias: Annotated[float, Least(0.0)] = 0.0
    tolerance: Annotated[float, Above(0.0)] = 1e-6


@options
class Phased(Repeated):
    """Rules that learn from the difference of a clamped and a free phase.

    Parameters
    ----------
    clamped : {"exact", "gibbs", "annealed", "mean-field", "variational", "tap"}, optional
        How hidden units and missing entries are inferred given the rows, in place of the rule's own way. "mean-field"
        takes correlations from linear response; "variational" takes none, which makes the slope that of a lower bound
        of the likelihood, and is what "pcd" does on deep machines; "tap" on both sides climbs the likelihood that TAP
        gives (`fastbm.learning.phases.tap`).
    free : {"exact", "gibbs", "contrastive", "restarted", "annealed", "tempering", "auto", "mean-field", "tap"}
        How the machine is inferred when it is free. Chains of "gibbs" persist, those of "restarted" start anew for
        every update, those of "annealed" are cooled before; "tempering" takes `n_chains` persistent ladders of
        `n_betas` replicas from beta 0 on. "auto" is "gibbs" that answers chains which do not mix: `n_sweeps` doubles,
        up to four times; then ladders take over.
    learning_rate, momentum : float
        Of "natural" steps `learning_rate` is the first gain (0.3), 1 a full step. Log-odds are beta times parameters,
        so that plain steps at another beta go as far with a `learning_rate` over beta^2 (of "adam" over beta).
    schedule : {"constant", "linear", "cosine", "inverse"}
        How the learning rate falls over the epochs: to 0, or ("inverse") as 1 / (1 + 9 x), x the part that is over.
    centring : bool
        Units count from offsets: the data's means, and sliding means of hidden units
        (`fastbm.learning.optimise.centring`).
    n_chains, n_sweeps : int
        Free chains, and sweeps for each update. 128 chains; restricted machines of binary units that are learned by
        "pcd" have as many as rows of a mini-batch, from 16 to 128.
    clamped_sweeps : int
        Sweeps thrown away, and as many averaged, of each row's hidden units and missing entries where they are sampled.
    n_betas : int
        Replicas of a ladder, for free="tempering" and "auto".
    n_starts : int, optional
        For "l-bfgs" with hidden units, whose likelihood has saddles and several maxima: draws of their couplings to
        start from, the best of which is learned to the end. 8, or with `init`, which is the first of them, 1.
    pretrain_epochs : int
        For deep machines: of the epochs, how many each two neighbouring layers are learned for by contrastive
        divergence, from below, before the whole machine is (`fastbm.learning.learners.pretraining`).
    """

    clamped: Clamped = CHOSEN
    free: Free = CHOSEN
    learning_rate: Annotated[float, Above(0.0)] = CHOSEN
    momentum: Annotated[float, momentum] = 0.0
    schedule: Literal["constant", "linear", "cosine", "inverse"] = "constant"
    centring: bool = False
    n_chains: Annotated[int, Least(1)] = 128
    n_sweeps: Annotated[int, Least(1)] = CHOSEN
    clamped_sweeps: Annotated[int, Least(1)] = 10
    n_betas: Annotated[int, Least(2)] = 10
    n_starts: Annotated[int, Least(1)] = CHOSEN
    pretrain_epochs: int = 0


@options
class Convex(Repeated):
    """Rules of each unit given the others, which need no log Z and no chains.

    Parameters
    ----------
    l1 : float
        Adds l1 sum_{i<j} |W_ij| to the objective; couplings that it puts out are exactly 0.
    """

    l1: Annotated[float, Least(0.0)] = 0.0


@options
class Formula(Rule):
    """Couplings and biases from means and covariances, in one step.

    Parameters
    ----------
    flip_noise : float
        The probability that a unit of the data is flipped, applied to the moments.
    ridge : float
        What is added to the diagonal of the covariance, in units of the mean variance.
    """

    flip_noise: Annotated[float, Least(0.0)] = 0.0
    ridge: Annotated[float, Least(0.0)] = 0.0


@options
class Monitor(Options):
    """Options of what is recorded as a machine is learned, and of what is measured at the end.

    Parameters
    ----------
    weights_every, samples_every, monitor_every : int
        Epochs between two records of weights, of the free chains' states (0: never; there are none where chains start
        anew), of metrics. Of these, pseudo-likelihoods are those of 256 rows at most, drawn once by `seed`; exact
        likelihoods are there where a look takes 0.1 s at most and, if learning takes no exact sums itself, as many as a
        rule has epochs by default about 5 s.
    until : dict, optional
        Stop when these metrics ("moment_error", "gradient") are down to these values. Where "moment_error" comes down
        to the noise of the chains, which is above its target, learning ends too, with a warning that says how many
        chains the target needs.
    patience : int
        Stop when so many looks at held-out rows brought no new best, and take the parameters of the best. 0: never.
        Looked at is the exact likelihood of all of them where it is cheap, else the pseudo-likelihood of 256 at most.
    evaluate : {"auto", "exact", "ais", "none"}
        How log Z, and so the likelihood, is computed at the end. Asked for "ais", layered machines get the way back
        down too: both ends of log Z and of the likelihoods, in `run.evaluation`. "auto" is "exact" where that takes a
        minute at most, else "ais"; after rules that need no log Z with as many temperatures as are walked in about a
        second.
    errors : {"fisher", "bootstrap"}, optional
        Standard errors of couplings and biases, from the Fisher information (of rules of maximum likelihood: "exact",
        "monte-carlo", "pcd", of whole rows, which are taken for independent) or from `n_resamples` fits to rows drawn
        again (of any rule). Where a formula has no solution for rows that were drawn, as with a unit that they hold
        still, errors of what these leave open are inf. Those by "fisher" are of the maximum, and with "sgd" and "adam"
        of what their steps leave beside it too, unless a schedule has the rate fall to 0
        (`fastbm.learning.noise_of_steps`). However many rows there are, that is about (learning_rate / (1 - momentum)
        (1 / batch_size + 1 / n_chains) / 2)^(1/2) for "sgd"; more where persistent chains are slow, which is measured
        at the end, and, with centring, of biases. With a penalty (l1, l2) both kinds are errors of the penalised
        estimate about its own mean and leave out how far the penalty pulls that towards 0; "fisher" warns where this is
        more than the error of a coupling.
    n_resamples : int
        Fits of the bootstrap.
    block : int or "auto"
        Consecutive rows that the bootstrap draws together, as neighbours in time depend on one another; "auto" takes
        ten autocorrelation times of the slowest of units, the number of units up, and leading principal axes. 1: rows
        are independent.
    fidelity : bool
        Hold the learned machine against the data at the end (`fastbm.fidelity`).
    ais_every : int
        Epochs between two looks at log Z by annealed importance sampling (128 chains, 1000 temperatures; about the work
        of 500 mini-batches of 100 rows), and so at the likelihood of at most 4096 rows and of all held-out ones, in
        `run.likelihood`; of deep machines at lower bounds of these, "log_likelihood_bound" and
        "holdout_log_likelihood_bound". 0: never. Not for machines of other layouts whose hidden units are coupled to
        one another.
    ais_start : {"uniform", "biases", "data", "mean-field", "tempering"} or array, optional
        The product model that annealed importance sampling begins at, on the way and at the end; see `start` of
        `bm.methods.AIS`. Left out, the base rates of the data on the way, and at the end what short trials choose.
    """

    name: ClassVar[str] = "monitor"
    kind: ClassVar[str] = "monitor"

    weights_every: int = 1
    samples_every: int = 0
    monitor_every: Annotated[int, Least(1)] = 1
    until: Annotated[dict[str, float] | None, until] = None
    patience: int = 0
    evaluate: Literal["auto", "exact", "ais", "none"] | None = "auto"
    errors: Literal["fisher", "bootstrap"] | None = None
    n_resamples: Annotated[int, Least(2)] = 100
    block: Annotated[int | Literal["auto"], rows_together] = 1
    fidelity: bool = False
    ais_every: int = 0
    ais_start: Any = None


@options
class FitSettings(Phased, Convex, Formula, Monitor):
    """All settings that a machine is learned with, nothing left to choose; options that its rule lacks have defaults.

    `clamped`, `free` are "none" of rules without phases, and so is the `optimizer` of formulas; `evaluate` is None
    where it was "none". Defaults stand for what versions did that did not write an option into their specs.
    """

    method: str
    seed: int
    n_starts: int = 1
    engine: str = "phases"
    look_seconds: float = 0.1  # that the exact likelihood may take at each look

    def __post_init__(self) -> None:
        """Do nothing: all is checked when the settings are resolved."""


def of_log_odds(s: FitSettings) -> FitSettings:
    """Return the settings of the same problem in parameters times beta, which are learned at beta = 1."""
    if s.beta == 1.0:
        return s
    l1, l2, l2_bias = s.l1 / s.beta, s.l2 / s.beta / s.beta, s.l2_bias / s.beta / s.beta
    return replace(s, beta=1.0, l1=l1, l2=l2, l2_bias=l2_bias)
