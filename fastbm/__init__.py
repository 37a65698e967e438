"""fastbm: simulate, measure and train Boltzmann machines.

Names are resolved when they are first used (PEP 562), so that importing fastbm costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data, diagnostics, models
    from ._base.checks import ConvergenceWarning, Interrupted, StorageError
    from .campaigns.campaign import Campaign
    from .campaigns.verb import campaign, open
    from .data.moments import Moments, smoothed_rates
    from .data.sources import Packed, Source
    from .inference import estimators as methods
    from .inference.comparison import Comparison
    from .inference.conditional.apply import complete, reconstruct, transform
    from .inference.likelihood import LogLikelihood, log_likelihood, pseudo_likelihood
    from .inference.result import Inference
    from .inference.temperatures import Temperatures
    from .learning import methods as rules
    from .learning.classifier.classifier import BoltzmannClassifier
    from .learning.fidelity.fidelity import fidelity
    from .learning.fidelity.patterns import PatternFrequencies, pattern_frequencies
    from .learning.planted.comparison import RuleComparison
    from .machine.file import load
    from .machine.machine import BoltzmannMachine
    from .models import square_lattice as lattice
    from .report import plots
    from .runs import workers
    from .runs.begin import merge, resume
    from .runs.extend import extend
    from .runs.fit.pairs import PairInformation, pair_information
    from .runs.fit.verb import fit
    from .runs.infer.compare import compare
    from .runs.infer.verb import infer
    from .runs.planted.verb import compare_rules
    from .runs.run import Run
    from .runs.sample.verb import sample
    from .sampling import samplers
    from .store.verification import Verification, verify

__version__ = "0.1.0"

_PLACES = {
    "BoltzmannClassifier": "learning.classifier.classifier",
    "BoltzmannMachine": "machine.machine",
    "Campaign": "campaigns.campaign",
    "Comparison": "inference.comparison",
    "ConvergenceWarning": "_base.checks",
    "Inference": "inference.result",
    "Interrupted": "_base.checks",
    "LogLikelihood": "inference.likelihood",
    "Moments": "data.moments",
    "Packed": "data.sources",
    "PairInformation": "runs.fit.pairs",
    "PatternFrequencies": "learning.fidelity.patterns",
    "RuleComparison": "learning.planted.comparison",
    "Run": "runs.run",
    "Source": "data.sources",
    "StorageError": "_base.checks",
    "Temperatures": "inference.temperatures",
    "Verification": "store.verification",
    "campaign": "campaigns.verb",
    "compare": "runs.infer.compare",
    "compare_rules": "runs.planted.verb",
    "complete": "inference.conditional.apply",
    "extend": "runs.extend",
    "fidelity": "learning.fidelity.fidelity",
    "fit": "runs.fit.verb",
    "infer": "runs.infer.verb",
    "load": "machine.file",
    "log_likelihood": "inference.likelihood",
    "merge": "runs.begin",
    "open": "campaigns.verb",
    "pair_information": "runs.fit.pairs",
    "pattern_frequencies": "learning.fidelity.patterns",
    "pseudo_likelihood": "inference.likelihood",
    "reconstruct": "inference.conditional.apply",
    "resume": "runs.begin",
    "sample": "runs.sample.verb",
    "smoothed_rates": "data.moments",
    "transform": "inference.conditional.apply",
    "verify": "store.verification",
}
_MODULES = {
    "data": "data",
    "diagnostics": "diagnostics",
    "lattice": "models.square_lattice",
    "methods": "inference.estimators",
    "models": "models",
    "plots": "report.plots",
    "rules": "learning.methods",
    "samplers": "sampling.samplers",
    "workers": "runs.workers",
}

__all__ = [
    "BoltzmannClassifier",
    "BoltzmannMachine",
    "Campaign",
    "Comparison",
    "ConvergenceWarning",
    "Inference",
    "Interrupted",
    "LogLikelihood",
    "Moments",
    "Packed",
    "PairInformation",
    "PatternFrequencies",
    "RuleComparison",
    "Run",
    "Source",
    "StorageError",
    "Temperatures",
    "Verification",
    "campaign",
    "compare",
    "compare_rules",
    "complete",
    "data",
    "diagnostics",
    "extend",
    "fidelity",
    "fit",
    "infer",
    "lattice",
    "load",
    "log_likelihood",
    "merge",
    "methods",
    "models",
    "open",
    "pair_information",
    "pattern_frequencies",
    "plots",
    "pseudo_likelihood",
    "reconstruct",
    "resume",
    "rules",
    "sample",
    "samplers",
    "smoothed_rates",
    "transform",
    "verify",
    "workers",
]


def __getattr__(name: str) -> Any:
    place = _MODULES.get(name) or _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._base.system import keeping

    with keeping:
        module = importlib.import_module(f".{place}", __name__)
    found: Any = module if name in _MODULES else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
