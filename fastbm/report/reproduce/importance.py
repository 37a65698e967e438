"""Annealed importance sampling against exact sums, and MNIST by ten machines without hidden units.

Salakhutdinov and Murray, ICML 2008, doi:10.1145/1390156.1390266, table 1: log Z of restricted machines of 20 hidden
units, taught by CD-1, CD-3 and PCD, comes out within the errors that annealing claims.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from ..._base.checks import ConvergenceWarning, StorageError, no_file
from ...data.datasets import load
from ...learning.classifier.classifier import BoltzmannClassifier
from ...runs.fit.verb import fit
from ...runs.infer.verb import infer
from .found import Found

HIDDEN, NOISE = 20, 0.14
SALAKHUTDINOV = "Salakhutdinov and Murray (2008), table 1"
ONE_SHOT = "One-shot mean field with linear response at flip noise 0.14: 3.46 % of 10,000 test images"


def ais(*, threads: int | None, data: Any, effort: float) -> list[Found]:
    """Return log Z by annealing beside the exact one, of machines that learned scikit-learn's digits."""
    rows = (load("sklearn:digits").rows > 7).astype(np.uint8)
    found = []
    rules: list[tuple[str, str, dict[str, Any]]] = [
        ("CD-1", "cd", {}), ("CD-3", "cd", {"n_sweeps": 3}), ("PCD", "pcd", {}),
    ]  # fmt: skip
    for name, method, more in rules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            run = fit(
                rows, method, n_hidden=HIDDEN, epochs=max(5, int(30 * effort)), weights_every=0, evaluate="none",
                seed=1, threads=threads, **more,
            )  # fmt: skip
        exact = infer(run.model, "exact", moments=False, threads=threads).log_z
        annealed = infer(run.model, "ais", n_chains=100, seed=1, moments=False, threads=threads)
        found.append(
            Found(f"log Z, {name}", annealed.log_z, float(annealed.log_z_error or 0.0), exact, 0.05, SALAKHUTDINOV)
        )
    return found


def mnist(*, threads: int | None, data: Any, effort: float) -> list[Found]:
    """Return the test error in per cent; `data` is ``mnist.npz`` with its four usual members."""
    if not Path(data).is_file():
        raise StorageError(f"{data} {no_file(data)}.")
    if not is_zipfile(data):
        raise ValueError(f"{data} is no .npz file. Give mnist.npz with its four usual members.")
    with np.load(data) as file:
        names = ("train_images", "train_labels", "test_images", "test_labels")
        if missing := [name for name in names if name not in file.files]:
            raise ValueError(f"{data} has no member {missing[0]!r}; it has {', '.join(file.files)}.")
        images, labels, others, truth = (file[name] for name in names)
    rows, held = ((one.reshape(len(one), -1) > 127).astype(np.uint8) for one in (images, others))
    classifier = BoltzmannClassifier(flip_noise=NOISE, threads=threads).fit(rows, labels)
    return [Found("test error, %", 100.0 * classifier.error(held, truth), 0.0, 3.46, 0.06, ONE_SHOT)]
