"""fastbm: simulate, measure and train Boltzmann machines.

Names are resolved when they are first used (PEP 562), so that importing fastbm costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data, diagnostics, lattice, models
    from ._checks import ConvergenceWarning, Interrupted, StorageError
    from .inference.comparison import Comparison
    from .inference.likelihood import LogLikelihood, log_likelihood, pseudo_likelihood
    from .inference.result import Inference
    from .inference.temperatures import Temperatures
    from .inference.use import complete, reconstruct, transform
    from .learning.classifier import BoltzmannClassifier
    from .learning.fidelity import fidelity
    from .learning.inverse_comparison import RuleComparison
    from .model import BoltzmannMachine
    from .modelfile import load
    from .moments import Moments, smoothed_rates
    from .run import merge, open, resume
    from .run_compare import compare
    from .run_extend import extend
    from .run_fit import fit
    from .run_infer import infer
    from .run_rules import compare_rules
    from .run_sample import sample
    from .run_view import Run
    from .sources import Packed, Source
    from .store.verifying import Verification, verify

__version__ = "0.1.0"

_PLACES = {
    "BoltzmannClassifier": "learning.classifier",
    "BoltzmannMachine": "model",
    "Comparison": "inference.comparison",
    "ConvergenceWarning": "_checks",
    "Inference": "inference.result",
    "Interrupted": "_checks",
    "LogLikelihood": "inference.likelihood",
    "Moments": "moments",
    "Packed": "sources",
    "RuleComparison": "learning.inverse_comparison",
    "Run": "run_view",
    "Source": "sources",
    "StorageError": "_checks",
    "Temperatures": "inference.temperatures",
    "Verification": "store.verifying",
    "compare": "run_compare",
    "compare_rules": "run_rules",
    "complete": "inference.use",
    "extend": "run_extend",
    "fidelity": "learning.fidelity",
    "fit": "run_fit",
    "infer": "run_infer",
    "load": "modelfile",
    "log_likelihood": "inference.likelihood",
    "merge": "run",
    "open": "run",
    "pseudo_likelihood": "inference.likelihood",
    "reconstruct": "inference.use",
    "resume": "run",
    "sample": "run_sample",
    "smoothed_rates": "moments",
    "transform": "inference.use",
    "verify": "store.verifying",
}
_MODULES = ("data", "diagnostics", "lattice", "models")

__all__ = [
    "BoltzmannClassifier",
    "BoltzmannMachine",
    "Comparison",
    "ConvergenceWarning",
    "Inference",
    "Interrupted",
    "LogLikelihood",
    "Moments",
    "Packed",
    "RuleComparison",
    "Run",
    "Source",
    "StorageError",
    "Temperatures",
    "Verification",
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
    "models",
    "open",
    "pseudo_likelihood",
    "reconstruct",
    "resume",
    "sample",
    "smoothed_rates",
    "transform",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _PLACES:
        return getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
