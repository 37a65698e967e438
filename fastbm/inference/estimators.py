"""The methods of inference by name, each with its options: ``bm.methods``."""

from __future__ import annotations

from .ais.method import AIS, ReverseAIS
from .auto import BY_NAME, Auto
from .estimator import Estimator
from .exact.method import Exact
from .fixed_point.bethe import Bethe
from .fixed_point.mean_field import MeanField
from .fixed_point.tap import TAP
from .importance_sampling import ImportanceSampling
from .monte_carlo import Gibbs, Metropolis
from .population_annealing import PopulationAnnealing
from .sampled_states.method import SampledStates
from .tempering.method import Tempering

__all__ = [
    "AIS",
    "BY_NAME",
    "TAP",
    "Auto",
    "Bethe",
    "Estimator",
    "Exact",
    "Gibbs",
    "ImportanceSampling",
    "MeanField",
    "Metropolis",
    "PopulationAnnealing",
    "ReverseAIS",
    "SampledStates",
    "Tempering",
]
