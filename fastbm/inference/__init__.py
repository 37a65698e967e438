"""log Z and moments: many methods, one call, one result type."""

from .methods import METHODS, infer
from .result import Inference

__all__ = ["METHODS", "Inference", "infer"]
