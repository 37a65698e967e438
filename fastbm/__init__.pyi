"""What the package offers, each verb with the options of each method; ``python -m tests.support.stub`` makes it."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np

from .inference.estimator import Estimator
from .learning.settings import Monitor, Rule
from .runs.fit.run import FitRun
from .runs.loop import Progress
from .runs.sample.run import SampleRun
from .runs.stop import Stop
from .sampling.settings import Sampler
from . import data as data, diagnostics as diagnostics, models as models
from ._base.checks import (
    ConvergenceWarning as ConvergenceWarning,
    Interrupted as Interrupted,
    StorageError as StorageError,
)
from .campaigns.campaign import Campaign as Campaign
from .campaigns.verb import campaign as campaign, open as open
from .data.moments import Moments as Moments, smoothed_rates as smoothed_rates
from .data.sources import Packed as Packed, Source as Source
from .inference import estimators as methods
from .inference.comparison import Comparison as Comparison
from .inference.conditional.apply import complete as complete, reconstruct as reconstruct, transform as transform
from .inference.likelihood import (
    LogLikelihood as LogLikelihood,
    log_likelihood as log_likelihood,
    pseudo_likelihood as pseudo_likelihood,
)
from .inference.result import Inference as Inference
from .inference.temperatures import Temperatures as Temperatures
from .learning import methods as rules
from .learning.classifier.classifier import BoltzmannClassifier as BoltzmannClassifier
from .learning.fidelity.fidelity import fidelity as fidelity
from .learning.fidelity.patterns import (
    PatternFrequencies as PatternFrequencies,
    pattern_frequencies as pattern_frequencies,
)
from .learning.planted.comparison import RuleComparison as RuleComparison
from .machine.file import load as load
from .machine.machine import BoltzmannMachine as BoltzmannMachine
from .models import square_lattice as lattice
from .report import plots as plots
from .runs import workers as workers
from .runs.begin import merge as merge, resume as resume
from .runs.extend import extend as extend
from .runs.fit.pairs import PairInformation as PairInformation, pair_information as pair_information
from .runs.infer.compare import compare as compare
from .runs.planted.verb import compare_rules as compare_rules
from .runs.run import Run as Run
from .sampling import samplers as samplers
from .store.verification import Verification as Verification, verify as verify

__version__: str
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

class _Sample(TypedDict, total=False):
    n_chains: int
    n_sweeps: int | None
    burn_in: int | str | None
    thin: int | str
    beta: float | Sequence[float] | None
    clamp: tuple[Any, Any] | None
    observables: Sequence[str] | Mapping[str, str | Callable[[np.ndarray], Any]]
    keep: str
    k: int | None
    until: Mapping[str, float] | None
    initial: Any
    seed: int | None
    first_chain: int
    threads: int | None
    out: str | Path | None
    overwrite: bool
    max_seconds: float | None
    executor: Executor | None
    progress: bool | Progress | None
    stop: Stop | None
    about: Mapping[str, str] | None
    commit_seconds: float
    commit_bytes: int
    compression: str | None
    merge: bool

class _SampleGibbs(_Sample, total=False):
    order: Literal["sequential", "permuted", "random", "coloured"]
    kernel: Literal["dense", "sparse", "layered", "lookup", "multispin"]

class _SampleMetropolis(_Sample, total=False):
    order: Literal["sequential", "permuted", "random", "coloured"]
    kernel: Literal["dense", "sparse", "layered", "lookup", "multispin"]

class _SampleTempering(_Sample, total=False):
    order: Literal["sequential", "permuted", "random", "coloured"]
    kernel: Literal["dense", "sparse", "layered", "lookup", "multispin"]
    rule: Literal["gibbs", "metropolis"]
    betas: Sequence[float] | np.ndarray
    lowest_beta: float | None
    n_betas: int | None
    swap_every: int
    cluster: bool | Literal["houdayer"]
    record: Literal["observables", "target", "all"]

class _SampleAnnealing(_Sample, total=False):
    order: Literal["sequential", "permuted", "random", "coloured"]
    kernel: Literal["dense", "sparse", "layered", "lookup", "multispin"]
    rule: Literal["gibbs", "metropolis"]
    betas: Sequence[float] | np.ndarray
    lowest_beta: float | None
    schedule: Literal["linear", "geometric", "adaptive"] | None

class _SamplePopulationAnnealing(_Sample, total=False):
    order: Literal["sequential", "permuted", "random", "coloured"]
    kernel: Literal["dense", "sparse", "layered", "lookup", "multispin"]
    rule: Literal["gibbs", "metropolis"]
    target_ess: float

class _SampleExact(_Sample, total=False):
    engine: Literal["blocks", "layers", "elimination"]
    max_forecast_seconds: float
    max_gigabytes: float

@overload
def sample(model: BoltzmannMachine, sampler: Literal["gibbs"] = ..., **options: Unpack[_SampleGibbs]) -> SampleRun: ...
@overload
def sample(
    model: BoltzmannMachine, sampler: Literal["metropolis"], **options: Unpack[_SampleMetropolis]
) -> SampleRun: ...
@overload
def sample(
    model: BoltzmannMachine, sampler: Literal["tempering"], **options: Unpack[_SampleTempering]
) -> SampleRun: ...
@overload
def sample(
    model: BoltzmannMachine, sampler: Literal["annealing"], **options: Unpack[_SampleAnnealing]
) -> SampleRun: ...
@overload
def sample(
    model: BoltzmannMachine, sampler: Literal["population-annealing"], **options: Unpack[_SamplePopulationAnnealing]
) -> SampleRun: ...
@overload
def sample(model: BoltzmannMachine, sampler: Literal["wolff"], **options: Unpack[_Sample]) -> SampleRun: ...
@overload
def sample(model: BoltzmannMachine, sampler: Literal["swendsen-wang"], **options: Unpack[_Sample]) -> SampleRun: ...
@overload
def sample(model: BoltzmannMachine, sampler: Literal["exact"], **options: Unpack[_SampleExact]) -> SampleRun: ...
@overload
def sample(model: BoltzmannMachine, sampler: Sampler, **options: Unpack[_Sample]) -> SampleRun: ...
@overload
def sample(model: BoltzmannMachine, sampler: str, **options: Any) -> SampleRun: ...

class _Infer(TypedDict, total=False):
    beta: float
    clamp: tuple[Any, Any] | None
    moments: bool
    seed: int | None
    threads: int | None
    out: str | Path | None
    overwrite: bool
    executor: Executor | None
    progress: bool | Progress | None

class _InferExact(_Infer, total=False):
    engine: Literal["gray", "blocks", "layers", "elimination"] | None
    max_forecast_seconds: float
    max_gigabytes: float
    energy_variance: bool | None
    pairs: Any
    n_lowest: int
    distribution: Any

class _InferSampledStates(_Infer, total=False):
    witness: bool
    n_chains: int
    n_sweeps: int
    burn_in: int | Literal["auto"]
    thin: int
    order: Literal["sequential", "permuted", "random", "coloured"] | None
    source: Literal["chains", "tempering", "annealing"]
    n_betas: int | None
    max_gigabytes: float

class _InferMeanField(_Infer, total=False):
    n_starts: int
    tolerance: float
    damping: float
    max_sweeps: int

class _InferTAP(_Infer, total=False):
    n_starts: int
    tolerance: float
    damping: float
    max_sweeps: int

class _InferBethe(_Infer, total=False):
    n_starts: int
    tolerance: float
    damping: float
    max_sweeps: int

class _InferAIS(_Infer, total=False):
    witness: bool
    n_chains: int
    n_betas: int | None
    betas: Any
    path: Literal["linear", "adaptive"] | None
    start: Any
    walk: Literal["blocks", "marginal"] | None
    source: Literal["tempering", "exact", "gibbs"] | None
    n_sweeps: int | None
    bracket: bool

class _InferGibbs(_Infer, total=False):
    witness: bool
    n_chains: int
    n_sweeps: int
    burn_in: int | Literal["auto"]
    thin: int
    order: Literal["sequential", "permuted", "random", "coloured"] | None
    initial: Any

class _InferMetropolis(_Infer, total=False):
    witness: bool
    n_chains: int
    n_sweeps: int
    burn_in: int | Literal["auto"]
    thin: int
    order: Literal["sequential", "permuted", "random", "coloured"] | None
    initial: Any

class _InferTempering(_Infer, total=False):
    witness: bool
    n_chains: int
    n_sweeps: int
    burn_in: int | Literal["auto"]
    thin: int
    n_betas: int | None
    betas: Any
    engine: Literal["bennett", "mbar", "ti"]
    swap_every: int
    start: Any

class _InferPopulationAnnealing(_Infer, total=False):
    witness: bool
    n_chains: int
    n_populations: int
    n_sweeps: int
    target_ess: float | None
    betas: Any
    start: Any

class _InferReverseAIS(_Infer, total=False):
    witness: bool
    n_chains: int
    n_betas: int | None
    betas: Any
    path: Literal["linear", "adaptive"] | None
    start: Any
    walk: Literal["blocks", "marginal"] | None
    source: Literal["tempering", "exact", "gibbs"] | None
    n_sweeps: int | None

class _InferImportanceSampling(_Infer, total=False):
    n_samples: int
    n_sweeps: int

class _InferAuto(_Infer, total=False):
    budget: float
    exact: bool
    start: Any

@overload
def infer(model: BoltzmannMachine, method: Literal["exact"], **options: Unpack[_InferExact]) -> Inference: ...
@overload
def infer(
    model: BoltzmannMachine, method: Literal["sampled-states"], **options: Unpack[_InferSampledStates]
) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: Literal["mean-field"], **options: Unpack[_InferMeanField]) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: Literal["tap"], **options: Unpack[_InferTAP]) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: Literal["bethe"], **options: Unpack[_InferBethe]) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: Literal["ais"], **options: Unpack[_InferAIS]) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: Literal["gibbs"], **options: Unpack[_InferGibbs]) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: Literal["metropolis"], **options: Unpack[_InferMetropolis]) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: Literal["tempering"], **options: Unpack[_InferTempering]) -> Inference: ...
@overload
def infer(
    model: BoltzmannMachine, method: Literal["population-annealing"], **options: Unpack[_InferPopulationAnnealing]
) -> Inference: ...
@overload
def infer(
    model: BoltzmannMachine, method: Literal["reverse-ais"], **options: Unpack[_InferReverseAIS]
) -> Inference: ...
@overload
def infer(
    model: BoltzmannMachine, method: Literal["importance-sampling"], **options: Unpack[_InferImportanceSampling]
) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: Literal["auto"], **options: Unpack[_InferAuto]) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: Estimator | methods.Auto, **options: Unpack[_Infer]) -> Inference: ...
@overload
def infer(model: BoltzmannMachine, method: str, **options: Any) -> Inference: ...

class _Fit(TypedDict, total=False):
    n_hidden: int | Sequence[int]
    layout: str | None
    units: str | None
    init: BoltzmannMachine | None
    row_weights: Any
    holdout: Any
    labels: Any
    holdout_labels: Any
    classify: Mapping[str, Any] | None
    monitor: Monitor | None
    seed: int | None
    threads: int | None
    out: str | Path | None
    overwrite: bool
    max_seconds: float | None
    progress: bool | Progress | None
    stop: Stop | None
    executor: Executor | None
    about: Mapping[str, str] | None
    commit_seconds: float
    commit_bytes: int
    compression: str | None
    merge: bool

class _Watched(_Fit, total=False):
    weights_every: int
    samples_every: int
    monitor_every: int
    until: Mapping[str, float] | None
    patience: int
    evaluate: Literal["auto", "exact", "ais", "none"] | None
    errors: Literal["fisher", "bootstrap"] | None
    n_resamples: int
    block: int | Literal["auto"]
    fidelity: bool
    ais_every: int
    ais_start: Any

class _FitExact(_Watched, total=False):
    beta: float
    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"]
    epochs: int
    batch_size: int
    l2: float
    l2_bias: float
    tolerance: float
    clamped: Literal["exact", "gibbs", "annealed", "mean-field", "variational", "tap"]
    free: Literal["exact", "gibbs", "contrastive", "restarted", "annealed", "tempering", "auto", "mean-field", "tap"]
    learning_rate: float
    momentum: float
    schedule: Literal["constant", "linear", "cosine", "inverse"]
    centring: bool
    n_chains: int
    n_sweeps: int
    clamped_sweeps: int
    n_betas: int
    n_starts: int
    pretrain_epochs: int

class _FitMonteCarlo(_Watched, total=False):
    beta: float
    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"]
    epochs: int
    batch_size: int
    l2: float
    l2_bias: float
    tolerance: float
    clamped: Literal["exact", "gibbs", "annealed", "mean-field", "variational", "tap"]
    free: Literal["exact", "gibbs", "contrastive", "restarted", "annealed", "tempering", "auto", "mean-field", "tap"]
    learning_rate: float
    momentum: float
    schedule: Literal["constant", "linear", "cosine", "inverse"]
    centring: bool
    n_chains: int
    n_sweeps: int
    clamped_sweeps: int
    n_betas: int
    n_starts: int
    pretrain_epochs: int

class _FitPCD(_Watched, total=False):
    beta: float
    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"]
    epochs: int
    batch_size: int
    l2: float
    l2_bias: float
    tolerance: float
    clamped: Literal["exact", "gibbs", "annealed", "mean-field", "variational", "tap"]
    free: Literal["exact", "gibbs", "contrastive", "restarted", "annealed", "tempering", "auto", "mean-field", "tap"]
    learning_rate: float
    momentum: float
    schedule: Literal["constant", "linear", "cosine", "inverse"]
    centring: bool
    n_chains: int
    n_sweeps: int
    clamped_sweeps: int
    n_betas: int
    n_starts: int
    pretrain_epochs: int

class _FitCD(_Watched, total=False):
    beta: float
    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"]
    epochs: int
    batch_size: int
    l2: float
    l2_bias: float
    tolerance: float
    clamped: Literal["exact", "gibbs", "annealed", "mean-field", "variational", "tap"]
    free: Literal["exact", "gibbs", "contrastive", "restarted", "annealed", "tempering", "auto", "mean-field", "tap"]
    learning_rate: float
    momentum: float
    schedule: Literal["constant", "linear", "cosine", "inverse"]
    centring: bool
    n_chains: int
    n_sweeps: int
    clamped_sweeps: int
    n_betas: int
    n_starts: int
    pretrain_epochs: int

class _FitMeanField(_Watched, total=False):
    beta: float
    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"]
    epochs: int
    batch_size: int
    l2: float
    l2_bias: float
    tolerance: float
    clamped: Literal["exact", "gibbs", "annealed", "mean-field", "variational", "tap"]
    free: Literal["exact", "gibbs", "contrastive", "restarted", "annealed", "tempering", "auto", "mean-field", "tap"]
    learning_rate: float
    momentum: float
    schedule: Literal["constant", "linear", "cosine", "inverse"]
    centring: bool
    n_chains: int
    n_sweeps: int
    clamped_sweeps: int
    n_betas: int
    n_starts: int
    pretrain_epochs: int

class _FitIndependentPair(_Watched, total=False):
    beta: float
    flip_noise: float
    ridge: float

class _FitNaiveMeanField(_Watched, total=False):
    beta: float
    flip_noise: float
    ridge: float

class _FitTAP(_Watched, total=False):
    beta: float
    flip_noise: float
    ridge: float

class _FitSessakMonasson(_Watched, total=False):
    beta: float
    flip_noise: float
    ridge: float

class _FitBethe(_Watched, total=False):
    beta: float
    flip_noise: float
    ridge: float

class _FitPseudolikelihood(_Watched, total=False):
    beta: float
    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"]
    epochs: int
    batch_size: int
    l2: float
    l2_bias: float
    tolerance: float
    l1: float

class _FitRise(_Watched, total=False):
    beta: float
    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"]
    epochs: int
    batch_size: int
    l2: float
    l2_bias: float
    tolerance: float
    l1: float

class _FitLogRise(_Watched, total=False):
    beta: float
    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"]
    epochs: int
    batch_size: int
    l2: float
    l2_bias: float
    tolerance: float
    l1: float

class _FitMinimumProbabilityFlow(_Watched, total=False):
    beta: float
    optimizer: Literal["sgd", "adam", "natural", "l-bfgs"]
    epochs: int
    batch_size: int
    l2: float
    l2_bias: float
    tolerance: float
    l1: float

@overload
def fit(data: Any, method: Literal["exact"], **options: Unpack[_FitExact]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["monte-carlo"], **options: Unpack[_FitMonteCarlo]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["pcd"] = ..., **options: Unpack[_FitPCD]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["cd"], **options: Unpack[_FitCD]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["mean-field"], **options: Unpack[_FitMeanField]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["independent-pair"], **options: Unpack[_FitIndependentPair]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["naive-mean-field"], **options: Unpack[_FitNaiveMeanField]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["tap"], **options: Unpack[_FitTAP]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["sessak-monasson"], **options: Unpack[_FitSessakMonasson]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["bethe"], **options: Unpack[_FitBethe]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["pseudolikelihood"], **options: Unpack[_FitPseudolikelihood]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["rise"], **options: Unpack[_FitRise]) -> FitRun: ...
@overload
def fit(data: Any, method: Literal["log-rise"], **options: Unpack[_FitLogRise]) -> FitRun: ...
@overload
def fit(
    data: Any, method: Literal["minimum-probability-flow"], **options: Unpack[_FitMinimumProbabilityFlow]
) -> FitRun: ...
@overload
def fit(data: Any, method: Rule, **options: Unpack[_Watched]) -> FitRun: ...
@overload
def fit(data: Any, method: str, **options: Any) -> FitRun: ...
