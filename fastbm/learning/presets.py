"""Named learning methods: which phase is inferred how, and what is a good start for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _checks
from ..inference.hidden import hidden_are_independent
from ..model import BoltzmannMachine
from .clamped import ClampedExact, ClampedGibbs, ClampedMeanField
from .free import FreeContrastive, FreeExact, FreeGibbs, FreeMeanField

CLAMPED = {phase.name: phase for phase in (ClampedExact, ClampedGibbs, ClampedMeanField)}
FREE = {phase.name: phase for phase in (FreeExact, FreeGibbs, FreeContrastive, FreeMeanField)}


@dataclass(frozen=True)
class Preset:
    """Defaults of a method; `batch_size` 0 stands for all rows."""

    clamped: str
    free: str
    optimizer: str = "sgd"
    epochs: int = 100
    learning_rate: float = 0.05
    batch_size: int = 100
    n_sweeps: int = 1


PRESETS = {
    # maximum likelihood, all states summed
    "exact": Preset("exact", "exact", "l-bfgs", 500, 0.1, 0),
    # clamped and free chains, hidden units anywhere
    "monte-carlo": Preset("gibbs", "gibbs", "sgd", 200, 0.05, 0, 10),
    # persistent contrastive divergence
    "pcd": Preset("exact", "gibbs"),
    # contrastive divergence
    "cd": Preset("exact", "contrastive"),
    # the deterministic machine, with linear response
    "mean-field": Preset("mean-field", "mean-field", "sgd", 500, 0.05, 0),
}


def resolve(model: BoltzmannMachine, method: str, clamped: str | None, free: str | None) -> tuple[Preset, str, str]:
    """Return the preset and the names of both phases, checked against the machine."""
    preset = PRESETS[_checks.choice("method", method, PRESETS)]
    if clamped is None:
        clamped = preset.clamped
        if clamped == "exact" and preset.free != "exact" and not hidden_are_independent(model):
            clamped = "gibbs"  # hidden units that are coupled to one another have no closed form
    free = preset.free if free is None else free
    _checks.choice("clamped", clamped, CLAMPED)
    _checks.choice("free", free, FREE)
    if free == "contrastive" and not hidden_are_independent(model):
        raise ValueError(
            'free="contrastive" (method "cd") needs hidden units that are not coupled to one another. Use '
            'method="monte-carlo" '
            'or layout="restricted".'
        )
    return preset, clamped, free
