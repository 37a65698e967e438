"""Whether to believe a Monte Carlo average: autocorrelation, effective samples, R-hat, error bars, reweighting.

Arrays are (n_samples, n_chains); several quantities at once are (n_samples, n_chains, ...). Axes of xarray's that are
called "draw" and "chain" are taken by these names, in whatever order they stand.
"""

from __future__ import annotations

from .autocorrelation import (
    MANY_CHAINS as MANY_CHAINS,
    autocorrelation as autocorrelation,
    ess,
    standard_error,
    tau_int,
)
from .binning import Binned
from .jackknife import Estimate, jackknife as jackknife
from .ranks import R_HAT_LIMIT, ess_bulk, ess_tail, r_hat
from .reweighting import Reweighted, reweight
from .stationarity import LogBins, is_stationary
from .thermodynamics import (
    OverlapDistribution,
    binder_cumulant,
    correlation_length,
    overlap_distribution,
    specific_heat,
    susceptibility,
)

__all__ = [
    "R_HAT_LIMIT",
    "Binned",
    "Estimate",
    "LogBins",
    "OverlapDistribution",
    "Reweighted",
    "autocorrelation",
    "binder_cumulant",
    "correlation_length",
    "ess",
    "ess_bulk",
    "ess_tail",
    "is_stationary",
    "jackknife",
    "overlap_distribution",
    "r_hat",
    "reweight",
    "specific_heat",
    "standard_error",
    "susceptibility",
    "tau_int",
]
