"""Every kind of run there is, as a small one with several blocks: what begins it, by name.

A kind that is added to fastbm is added here; `store/crash/test_kinds.py` tells which are missing, and holds each to the
promise that a run which was stopped or killed ends as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fastbm as bm
from fastbm.runs.begin import begin
from fastbm.runs.infer.verb import infer_run
from tests.support import machines
from tests.support.machines import machine


@dataclass(frozen=True)
class Kind:
    """One kind of run: a verb, what it is applied to, and its options.

    Attributes
    ----------
    functions : dict
        Observables that no file can hold, which a resume is given again.
    """

    verb: str
    subject: Any
    options: Mapping[str, Any]
    functions: Mapping[str, Callable[[np.ndarray], Any]] = field(default_factory=dict)

    def begin(self, out: Path | None, **options: Any) -> Any:
        """Begin the run, and bring it to its end unless it is stopped."""
        return VERBS[self.verb](self.subject, out, {"threads": 1, **self.options, **options})

    def resume(self, out: Path, **options: Any) -> bm.Run:
        """Go on with the run where its last commit left it."""
        return bm.resume(out, **{"threads": 1, "observables": self.functions or None, **options})


def _infer(subject: Any, out: Path | None, options: dict[str, Any]) -> Any:
    common = ("beta", "clamp", "moments", "seed", "threads", "overwrite", "commit_seconds", "commit_bytes", "progress")
    own = {name: value for name, value in options.items() if name not in (*common, "method")}
    shared = {name: value for name, value in options.items() if name in common}
    return infer_run(subject, options["method"], own, out=out, **shared)


def _shard(spec: Any, out: Path | None, options: dict[str, Any]) -> Any:
    common = {name: options.pop(name, other) for name, other in (("threads", 1), ("overwrite", False))}
    more = [options.pop(name, None) for name in ("max_seconds", "progress", "stop")]
    return begin(spec, {}, common["threads"], out, common["overwrite"], *more, options)


VERBS: dict[str, Callable[[Any, Path | None, dict[str, Any]], Any]] = {
    "sample": lambda subject, out, options: bm.sample(subject, out=out, **options),
    "fit": lambda subject, out, options: bm.fit(subject, out=out, **options),
    "infer": _infer,
    "compare": lambda subject, out, options: bm.compare(subject, out=out, **options),
    "compare_rules": lambda subject, out, options: bm.compare_rules(subject, out=out, **options),
    "cells": lambda subject, out, options: _shard(subject, out, options),
}
STOPPED_BY_THE_CLOCK = ("sample", "fit", "compare_rules")  # the verbs that take max_seconds

DENSE, LAYERED, SPARSE = machine("general", offset=0.5), machine("layers"), machine("sparse")
LATTICE = bm.models.ising((4, 4))
SMALL_LATTICE = bm.models.ising((3, 3), periodic=False)
TWELVE = bm.models.random_machine(12, scale=1.0, bias_scale=0.4, seed=5)


def _sampling(model: Any = DENSE, functions: Any = None, **options: Any) -> Kind:
    return Kind("sample", model, {"n_chains": 4, "n_sweeps": 8, "thin": 2, "burn_in": 2, **options}, functions or {})


def _scheduled(model: Any = DENSE, **options: Any) -> Kind:
    return Kind("sample", model, {"n_chains": 4, "n_sweeps": 8, **options})


def _up(states: np.ndarray) -> np.ndarray:
    return (states > 0).sum(axis=1)


SAMPLING = {
    "gibbs": _sampling(),
    "gibbs-binary": _sampling(machine("general", "binary"), kernel="dense"),
    "gibbs-permuted": _sampling(kernel="dense", order="permuted"),
    "gibbs-random": _sampling(kernel="dense", order="random"),
    "gibbs-coloured": _sampling(SPARSE, kernel="sparse", order="coloured"),
    "gibbs-layered": _sampling(LAYERED, kernel="layered"),
    "gibbs-lookup": _sampling(LATTICE, kernel="lookup", n_chains=64, beta=0.4),
    "gibbs-multispin": _sampling(LATTICE, kernel="multispin", n_chains=64, beta=0.4),
    "gibbs-betas": _sampling(beta=[0.5, 1.0]),
    "gibbs-clamped": _sampling(clamp=([0, 2], [[1, 1], [-1, 1]])),
    "gibbs-best": _sampling(keep="best", k=3),
    "gibbs-until": _sampling(until={"ess": 8}, n_sweeps=300, thin=1),
    "gibbs-r-hat": _sampling(until={"r_hat": 1.5}, n_sweeps=1_000, thin=1, n_chains=8),
    "gibbs-burn-in": _sampling(burn_in="auto", n_sweeps=40, thin=1),
    "gibbs-logarithmic": _sampling(thin="log"),
    "gibbs-initial": _sampling(initial="up", first_chain=3, kernel="dense"),
    "gibbs-observables": _sampling(functions={"up": _up}, observables={"magnetisation": "magnetisation", "up": _up}),
    "gibbs-overlaps": _sampling(observables=["overlap", "link_overlap"]),
    "gibbs-structure": _sampling(LATTICE, observables=["structure_factor", "overlap_structure_factor"]),
    "metropolis": _sampling(sampler="metropolis"),
    "metropolis-sparse": _sampling(SPARSE, sampler="metropolis", kernel="sparse", order="random"),
    "tempering": _sampling(sampler="tempering", betas=[0.2, 0.5, 1.0]),
    "tempering-pilot": _sampling(sampler="tempering", n_betas=3, swap_every=2),
    "tempering-lookup": _sampling(LATTICE, sampler="tempering", kernel="lookup", betas=[0.2, 0.5, 1.0], n_chains=6),
    "tempering-metropolis": _sampling(sampler="tempering", rule="metropolis", betas=[0.2, 1.0]),
    "tempering-clusters": _sampling(SPARSE, sampler="tempering", betas=[0.2, 0.5, 1.0], cluster=True),
    "tempering-best": _sampling(sampler="tempering", betas=[0.2, 1.0], keep="best", k=3),
    "tempering-whole": _sampling(sampler="tempering", betas=[0.2, 1.0], record="all", observables=["overlap"]),
    "annealing": _scheduled(sampler="annealing"),
    "annealing-adaptive": _scheduled(sampler="annealing", schedule="adaptive"),
    "annealing-metropolis": _scheduled(sampler="annealing", rule="metropolis", schedule="geometric"),
    "annealing-best": _scheduled(sampler="annealing", keep="best", k=3, n_sweeps=16),
    "population-annealing": _scheduled(sampler="population-annealing", n_chains=64, n_sweeps=1),
    "population-annealing-best": _scheduled(
        sampler="population-annealing", n_chains=64, n_sweeps=1, rule="metropolis", keep="best", k=3
    ),
    "wolff": _sampling(SMALL_LATTICE, sampler="wolff", beta=0.4),
    "swendsen-wang": _sampling(SMALL_LATTICE, sampler="swendsen-wang", beta=0.4),
    "exact-blocks": _sampling(sampler="exact", engine="blocks", burn_in=0),
    "exact-layers": _sampling(LAYERED, sampler="exact", engine="layers", burn_in=0),
    "exact-elimination": _sampling(SMALL_LATTICE, sampler="exact", engine="elimination", burn_in=0),
}

ROWS = bm.data.bars_and_stripes(2)
SPINS = 2 * ROWS.astype(int) - 1
MANY = machines.draw(machine("visible", scale=0.2), 120)
WITH_GAPS = np.where(np.random.default_rng(3).random(MANY[:24].shape) < 0.15, np.nan, MANY[:24])
STUCK = bm.BoltzmannMachine(2.0 * (1 - np.eye(4)), np.full(4, -3.0), units="binary")


def _fitting(data: Any = ROWS, **options: Any) -> Kind:
    return Kind("fit", data, {"epochs": 4, "evaluate": "none", **options})


def _chains(data: Any = ROWS, **options: Any) -> Kind:
    return _fitting(data, **{"n_chains": 8, "batch_size": 2, **options})


LEARNING = {
    "pcd": _chains(n_hidden=3, samples_every=1, momentum=0.5),
    "pcd-adam": _chains(n_hidden=3, optimizer="adam", schedule="cosine", l2=1e-3),
    "pcd-visible": _chains(momentum=0.5, weights_every=2, monitor_every=2),
    "pcd-patience": _chains(n_hidden=3, patience=2, holdout=ROWS[:3], epochs=8, learning_rate=0.5),
    "pcd-until": _chains(n_hidden=3, until={"moment_error": 1e-6}),
    "pcd-ais": _chains(n_hidden=3, ais_every=2),
    "pcd-ais-evaluation": _chains(n_hidden=3, evaluate="ais", holdout=ROWS[:3], epochs=2),
    "pcd-centring": _chains(n_hidden=3, centring=True, momentum=0.5),
    "pcd-weights": _chains(n_hidden=3, row_weights=[1, 2, 3, 1, 1, 2]),
    "pcd-classifier": _chains(
        n_hidden=2, labels=[0, 1, 0, 1, 0, 1], holdout=ROWS, holdout_labels=[0, 1, 0, 1, 0, 1],
        classify={"method": "cd", "epochs": 2},
    ),
    "deep": _chains(n_hidden=[3, 2], momentum=0.5),
    "deep-pretraining": _chains(n_hidden=[3, 2], pretrain_epochs=1, epochs=4),
    "deep-centring": _chains(n_hidden=[3, 2], centring=True),
    "cd": _fitting(n_hidden=3, method="cd", momentum=0.5, batch_size=2),
    "cd-spin": _fitting(SPINS, n_hidden=3, method="cd", units="spin", optimizer="adam", batch_size=2),
    "monte-carlo": _chains(n_hidden=2, layout="general", method="monte-carlo", momentum=0.5, clamped_sweeps=2),
    "monte-carlo-natural": _chains(method="monte-carlo", optimizer="natural"),
    "monte-carlo-adam": _chains(method="monte-carlo", optimizer="adam", n_sweeps=2, fidelity=True, evaluate="auto"),
    "annealed-phases": _chains(n_hidden=2, layout="general", clamped="annealed", free="annealed", clamped_sweeps=2),
    "restarted": _chains(n_hidden=2, free="restarted", n_sweeps=2),
    "tempering-phase": _chains(n_hidden=2, free="tempering", n_betas=3),
    "auto-phase": _chains(
        method="monte-carlo", init=STUCK, free="auto", n_sweeps=1, epochs=20, learning_rate=1e-3, n_chains=16,
        n_betas=3, batch_size=6,
    ),
    "exact": _fitting(method="exact", l2=1e-3, epochs=8, evaluate="auto", holdout=ROWS[:3]),
    "exact-hidden": _fitting(method="exact", n_hidden=2, layout="general", l2=1e-2, epochs=6),
    "exact-sgd": _fitting(method="exact", n_hidden=2, optimizer="sgd", momentum=0.5, batch_size=2),
    "exact-starts": _fitting(method="exact", n_hidden=2, n_starts=2),
    "exact-adam": _fitting(method="exact", optimizer="adam"),
    "exact-fisher": _fitting(MANY, method="exact", l2=1e-3, epochs=8, errors="fisher"),
    "exact-bootstrap": _fitting(MANY, method="exact", l2=1e-3, epochs=8, errors="bootstrap", n_resamples=3, block=2),
    "mean-field": _fitting(method="mean-field", n_hidden=2, momentum=0.5),
    "tap-phases": _fitting(MANY, n_hidden=2, clamped="tap", free="tap", optimizer="sgd", batch_size=20, momentum=0.5),
    "variational": _chains(n_hidden=2, layout="general", clamped="variational"),
    "gaps-exact": _fitting(WITH_GAPS, method="exact", l2=1e-2, epochs=5),
    "gaps-gibbs": _chains(WITH_GAPS, method="monte-carlo", clamped="gibbs", batch_size=8, clamped_sweeps=2),
    "gaps-annealed": _chains(WITH_GAPS, method="monte-carlo", clamped="annealed", batch_size=8, clamped_sweeps=2),
    "gaps-mean-field": _chains(WITH_GAPS, clamped="mean-field", batch_size=8),
    **{
        rule: _fitting(MANY, method=rule, l2=1e-3, epochs=8)
        for rule in ("pseudolikelihood", "rise", "log-rise", "minimum-probability-flow")
    },
    "rise-sparse": _fitting(MANY, method="rise", l1=0.02, epochs=8),
    **{
        rule: _fitting(MANY, method=rule, epochs=None, flip_noise=0.02)
        for rule in ("independent-pair", "naive-mean-field", "tap", "sessak-monasson", "bethe")
    },
}  # fmt: skip

PATTERNS = ([0], [[1], [-1]])


def _inferring(method: str, model: Any = LAYERED, **options: Any) -> Kind:
    return Kind("infer", model, {"method": method, **options})


INFERRING = {
    "infer-gray": _inferring("exact", TWELVE, engine="gray", n_lowest=3),
    "infer-blocks": _inferring("exact", TWELVE, engine="blocks"),
    "infer-blocks-clamped": _inferring("exact", TWELVE, engine="blocks", clamp=PATTERNS),
    "infer-layers": _inferring("exact", machine("restricted"), engine="layers", clamp=PATTERNS),
    "infer-elimination": _inferring("exact", SMALL_LATTICE, engine="elimination", clamp=PATTERNS),
    "infer-sampled-states": _inferring("sampled-states", n_chains=16, n_sweeps=20),
    "infer-mean-field": _inferring("mean-field"),
    "infer-tap": _inferring("tap"),
    "infer-bethe": _inferring("bethe", SMALL_LATTICE),
    "infer-ais": _inferring("ais", n_chains=16, n_betas=20),
    "infer-reverse-ais": _inferring("reverse-ais", machine("restricted"), n_chains=16, n_betas=20),
    "infer-importance-sampling": _inferring("importance-sampling", machine("restricted"), n_samples=100, n_sweeps=25),
    "infer-gibbs": _inferring("gibbs", n_chains=16, n_sweeps=20),
    "infer-metropolis": _inferring("metropolis", n_chains=16, n_sweeps=20),
    "infer-tempering": _inferring("tempering", n_chains=4, n_sweeps=50),
    "infer-population-annealing": _inferring("population-annealing", n_chains=64, n_sweeps=1),
    "infer-auto": _inferring("auto"),
}

COMPARING = {
    "compare": Kind(
        "compare",
        {"a": machine("visible"), "b": LAYERED},
        {"methods": {"exact": {}, "mean-field": {}, "ais": {"n_chains": 8, "n_betas": 10}}, "beta": [0.3, 0.6]},
    ),
    "compare_rules": Kind(
        "compare_rules",
        machine("visible"),
        {"rules": ["independent-pair", "pseudolikelihood", "exact"], "n_rows": 60},
    ),
}

CAMPAIGNS = {
    "cells": Kind(
        "cells",
        {
            "kind": "cells",
            "verb": "sample",
            "keep": "summary",
            "base": {"model": {"name": "ising", "shape": [3, 3]}, "sample": {"n_sweeps": 4, "n_chains": 4}},
            "cells": [{"id": f"{k:016x}", "keys": {}, "set": {"sample.beta": 0.1 * k}, "at": [0, k]} for k in range(4)],
            "shard": [0, 0],
        },
        {},
    )
}

KINDS: dict[str, Kind] = {**SAMPLING, **LEARNING, **INFERRING, **COMPARING, **CAMPAIGNS}
