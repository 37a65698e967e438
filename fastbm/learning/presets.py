"""Named learning methods: which phase is inferred how, and what is a good start for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _checks
from ..couplings import Dense
from ..inference.hidden import hidden_are_independent
from ..inference.hidden_layers import is_deep
from ..model import BoltzmannMachine
from .clamped import ClampedAnnealed, ClampedExact, ClampedGibbs, ClampedMeanField
from .clamped_variational import ClampedVariational
from .closed_forms import CLOSED_FORMS
from .free import FreeContrastive, FreeExact, FreeGibbs, FreeMeanField
from .free_restarted import FreeAnnealed, FreeRestarted
from .free_tempering import FreeTempering
from .local_objectives import RULES
from .tap import ClampedTap, FreeTap

CLAMPED = {
    phase.name: phase
    for phase in (ClampedExact, ClampedGibbs, ClampedAnnealed, ClampedMeanField, ClampedVariational, ClampedTap)
}
FREE = {
    phase.name: phase
    for phase in (
        FreeExact, FreeGibbs, FreeContrastive, FreeRestarted, FreeAnnealed, FreeTempering, FreeMeanField, FreeTap,
    )
}  # fmt: skip
AUTO = "auto"  # "gibbs" first, "tempering" if need be: `fastbm.learning.free_auto`


@dataclass(frozen=True)
class Preset:
    """Defaults of a method; `batch_size` 0 stands for all rows.

    `driver` tells what moves the parameters: "phases", by the difference of two phases, or "local", by a rule for each
    unit given the others, or "closed", by a formula; these have no phases (theirs are then called "none").
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


PRESETS = {
    # maximum likelihood, all states summed
    "exact": Preset("exact", "exact", "l-bfgs", 500, 0.1, 0),
    # clamped and free chains, hidden units anywhere
    "monte-carlo": Preset("gibbs", "gibbs", "sgd", 200, 0.05, 0, 10, settles=True),
    # persistent contrastive divergence
    "pcd": Preset("exact", "gibbs"),
    # contrastive divergence
    "cd": Preset("exact", "contrastive"),
    # the deterministic machine, with linear response
    "mean-field": Preset("mean-field", "mean-field", "sgd", 500, 0.05, 0),
    # closed forms for visible machines
    **{name: Preset("none", "none", "none", 1, 0.1, 0, driver="closed") for name in CLOSED_FORMS},
    # convex rules for visible machines
    **{rule: Preset("none", "none", "l-bfgs", 1000, 0.1, 0, driver="local") for rule in RULES},
}


def resolve(model: BoltzmannMachine, method: str, clamped: str | None, free: str | None) -> tuple[Preset, str, str]:
    """Return the preset and the names of both phases, checked against the machine."""
    preset = PRESETS[_checks.choice("method", method, PRESETS)]
    if preset.driver != "phases":
        _check_visible(model, method, clamped, free)
        if preset.driver == "closed" and not isinstance(model.couplings, Dense):
            raise ValueError(
                f"method={method!r} couples all pairs; init has {model.couplings.kind} couplings. Leave init out, "
                'or use method="exact" or "pseudolikelihood", which keep to its pairs.'
            )
        return preset, preset.clamped, preset.free
    if clamped is None:
        clamped = preset.clamped
        if clamped == "exact" and preset.free != "exact" and not hidden_are_independent(model):
            # hidden units that are coupled to one another have no closed form
            clamped = "variational" if is_deep(model) else "gibbs"
    free = preset.free if free is None else free
    _checks.choice("clamped", clamped, CLAMPED)
    _checks.choice("free", free, (*FREE, AUTO))
    if free == "contrastive" and not hidden_are_independent(model):
        raise ValueError(
            'free="contrastive" (method "cd") needs hidden units that are not coupled to one another. Use '
            'method="monte-carlo", "pcd" for layers, or layout="restricted".'
        )
    return preset, clamped, free


def _check_visible(model: BoltzmannMachine, method: str, clamped: str | None, free: str | None) -> None:
    if model.n_hidden:
        raise ValueError(
            f"method={method!r} needs all units visible; got n_hidden={model.n_hidden}. "
            'Use method="pcd" or "monte-carlo".'
        )
    for name, phase in (("clamped", clamped), ("free", free)):
        if phase is not None:
            raise ValueError(
                f'method={method!r} has no phases; got {name}={phase!r}. Leave it out, or use method="pcd".'
            )
