"""The table of learning rules: the options of each, and its phases and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .._base.options import options, pick
from .settings import Convex, FitSettings, Formula, Monitor, Phased, Rule

__all__ = [
    "CD",
    "PCD",
    "RULES",
    "TAP",
    "Bethe",
    "Exact",
    "IndependentPair",
    "LogRise",
    "MeanField",
    "MinimumProbabilityFlow",
    "Monitor",
    "MonteCarlo",
    "NaiveMeanField",
    "Pseudolikelihood",
    "Rise",
    "Rule",
    "SessakMonasson",
]


@dataclass(frozen=True)
class Preset:
    """The defaults of a rule; `batch_size` 0 stands for all rows.

    `driver` is what moves the parameters: "phases", the difference of two phases, or "local", a rule for each unit
    given the others, or "closed", a formula; these have no phases (theirs are then called "none").
    """

    clamped: str
    free: str
    optimizer: str = "sgd"
    epochs: int = 100
    learning_rate: float = 0.05
    batch_size: int = 100
    n_sweeps: int = 1
    driver: str = "phases"
    settles: bool = False


CONVEX = Preset("none", "none", "l-bfgs", 1000, 0.1, 0, driver="local")
CLOSED = Preset("none", "none", "none", 1, 0.1, 0, driver="closed")


@options
class Exact(Phased):
    """Maximum likelihood, all states summed: 500 iterations of L-BFGS, or Newton's, at most.

    References
    ----------
    Ackley, Hinton and Sejnowski, Cognitive Science 9, 147 (1985), doi:10.1207/s15516709cog0901_7.
    """

    name: ClassVar[str] = "exact"
    preset: ClassVar[Preset] = Preset("exact", "exact", "l-bfgs", 500, 0.1, 0)


@options
class MonteCarlo(Phased):
    """Boltzmann learning: clamped and free phases are both sampled by chains; hidden units may be anywhere.

    By natural steps (800 epochs at most) until moments are the data's; or by 200 epochs of plain steps of all rows, at
    a learning rate of 0.05 and 10 sweeps each.

    References
    ----------
    Ackley, Hinton and Sejnowski, Cognitive Science 9, 147 (1985), doi:10.1207/s15516709cog0901_7.
    """

    name: ClassVar[str] = "monte-carlo"
    preset: ClassVar[Preset] = Preset("gibbs", "gibbs", "sgd", 200, 0.05, 0, 10, settles=True)


@options
class PCD(Phased):
    """Persistent contrastive divergence: free chains continue from one update to the next.

    100 epochs of mini-batches of 100 rows, one sweep each, at a learning rate of 0.05.

    References
    ----------
    Tieleman, ICML (2008), doi:10.1145/1390156.1390290; Salakhutdinov and Hinton, AISTATS (2009), PMLR 5, 448 (deep
    machines).
    """

    name: ClassVar[str] = "pcd"
    preset: ClassVar[Preset] = Preset("exact", "gibbs")


@options
class CD(Phased):
    """Contrastive divergence: free chains start at the rows of each mini-batch of 100, for one sweep.

    100 epochs at a learning rate of 0.05.

    References
    ----------
    Hinton, Neural Computation 14, 1771 (2002), doi:10.1162/089976602760128018.
    """

    name: ClassVar[str] = "cd"
    preset: ClassVar[Preset] = Preset("exact", "contrastive")


@options
class MeanField(Phased):
    """The deterministic machine: both phases by mean field with linear response; 500 epochs of all rows.

    References
    ----------
    Peterson and Anderson, Complex Systems 1, 995 (1987); Kappen and Rodriguez, Neural Computation 10, 1137 (1998),
    doi:10.1162/089976698300017386.
    """

    name: ClassVar[str] = "mean-field"
    preset: ClassVar[Preset] = Preset("mean-field", "mean-field", "sgd", 500, 0.05, 0)


@options
class Pseudolikelihood(Convex):
    """Each unit given all others: minimises sum_i <log(1 + exp(-u_i))>, u_i the log-odds of what unit i is.

    References
    ----------
    Besag, J. R. Stat. Soc. B 36, 192 (1974), doi:10.1111/j.2517-6161.1974.tb00999.x.
    """

    name: ClassVar[str] = "pseudolikelihood"
    preset: ClassVar[Preset] = CONVEX


@options
class Rise(Convex):
    """Interaction screening: minimises sum_i <exp(-u_i / 2)>, u_i the log-odds of what unit i is given all others.

    References
    ----------
    Lokhov, Vuffray, Misra and Chertkov, Sci. Adv. 4, e1700791 (2018), doi:10.1126/sciadv.1700791.
    """

    name: ClassVar[str] = "rise"
    preset: ClassVar[Preset] = CONVEX


@options
class LogRise(Convex):
    """Interaction screening by logarithms: minimises sum_i log <exp(-u_i / 2)>.

    References
    ----------
    Lokhov, Vuffray, Misra and Chertkov, Sci. Adv. 4, e1700791 (2018), doi:10.1126/sciadv.1700791.
    """

    name: ClassVar[str] = "log-rise"
    preset: ClassVar[Preset] = CONVEX


@options
class MinimumProbabilityFlow(Convex):
    """The flow of probability to all states that differ by one flip; the objective of "rise" by another name.

    References
    ----------
    Sohl-Dickstein, Battaglino and DeWeese, Phys. Rev. Lett. 107, 220601 (2011), doi:10.1103/PhysRevLett.107.220601.
    """

    name: ClassVar[str] = "minimum-probability-flow"
    preset: ClassVar[Preset] = CONVEX


@options
class IndependentPair(Formula):
    """Each pair of units as if it were alone (`fastbm.learning.closed_forms.independent_pair`).

    References
    ----------
    Roudi, Aurell and Hertz, Front. Comput. Neurosci. 3:22 (2009), doi:10.3389/neuro.10.022.2009.
    """

    name: ClassVar[str] = "independent-pair"
    preset: ClassVar[Preset] = CLOSED


@options
class NaiveMeanField(Formula):
    """Minus the inverse of the covariance, by linear response (`fastbm.learning.closed_forms.naive_mean_field`).

    References
    ----------
    Kappen and Rodriguez, Neural Comput. 10, 1137 (1998), doi:10.1162/089976698300017386.
    """

    name: ClassVar[str] = "naive-mean-field"
    preset: ClassVar[Preset] = CLOSED


@options
class TAP(Formula):
    """Linear response with Onsager's correction (`fastbm.learning.closed_forms.tap`).

    References
    ----------
    Tanaka, Phys. Rev. E 58, 2302 (1998), doi:10.1103/PhysRevE.58.2302.
    """

    name: ClassVar[str] = "tap"
    preset: ClassVar[Preset] = CLOSED


@options
class SessakMonasson(Formula):
    """The expansion in small correlations, loops summed (`fastbm.learning.closed_forms.sessak_monasson`).

    References
    ----------
    Sessak and Monasson, J. Phys. A 42, 055001 (2009), doi:10.1088/1751-8113/42/5/055001.
    """

    name: ClassVar[str] = "sessak-monasson"
    preset: ClassVar[Preset] = CLOSED


@options
class Bethe(Formula):
    """The Bethe approximation with linear response, exact on trees (`fastbm.learning.closed_forms.bethe`).

    References
    ----------
    Ricci-Tersenghi, J. Stat. Mech. P08015 (2012), doi:10.1088/1742-5468/2012/08/P08015; Nguyen and Berg, Phys. Rev.
    Lett. 109, 050602 (2012), doi:10.1103/PhysRevLett.109.050602.
    """

    name: ClassVar[str] = "bethe"
    preset: ClassVar[Preset] = CLOSED


RULES: dict[str, type[Rule]] = {
    cls.name: cls
    for cls in (
        Exact, MonteCarlo, PCD, CD, MeanField, IndependentPair, NaiveMeanField, TAP, SessakMonasson, Bethe,
        Pseudolikelihood, Rise, LogRise, MinimumProbabilityFlow,
    )
}  # fmt: skip
PRESETS: dict[str, Preset] = {name: cls.preset for name, cls in RULES.items()}  # type: ignore[attr-defined]
OF_RULES = tuple(dict.fromkeys(name for cls in RULES.values() for name in cls.names()))
OF_MONITOR = Monitor.names()


# what says in any spec how a run is learned, whatever its rule
ALWAYS = ("method", "seed", "engine", "clamped", "free", "optimizer", "epochs", "batch_size", "look_seconds")


def as_spec(settings: FitSettings) -> dict[str, Any]:
    """Return settings as plain values, for the spec: those of the rule and of the monitor."""
    kept = {*ALWAYS, *RULES[settings.method].names(), *OF_MONITOR}
    return {name: value for name, value in settings.as_dict().items() if name in kept}


def named(method: Any, monitor: Any, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a rule, and its options and those of the monitor; objects may hold either.

    Raises
    ------
    TypeError, ValueError
        For a rule or monitor that is none, and for options beside an object that bears them.
    """
    of_monitor = {name: value for name, value in given.items() if name in OF_MONITOR and value is not None}
    of_rule = {name: value for name, value in given.items() if name not in of_monitor and value is not None}
    rule = pick("method", method, RULES, of_rule)
    if monitor is not None:
        of_monitor = pick("monitor", monitor, {Monitor.name: Monitor}, of_monitor).given()
    return (rule.name, rule.given() | of_monitor) if isinstance(rule, Rule) else (method, of_rule | of_monitor)
