"""Scores of rows by machines that have not seen them, a fold at a time.

Stone, J. R. Stat. Soc. B 36, 111 (1974), doi:10.1111/j.2517-6161.1974.tb00994.x. Folds of the one-shot rule cost one
pass over the data: the sums of all rows less those of a fold are the sums of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import rng
from ..threads import fan_out, single_threaded_blas
from .one_shot import SpinSums, one_shot_of_sums

FLIP_NOISES = (0.02, 0.05, 0.08, 0.1, 0.12, 0.14, 0.16, 0.2, 0.25)
N_FOLDS = 5
LEAST_ROWS = 3  # of a class: one is held out, and two are left


def deal(codes: np.ndarray, classes: np.ndarray, seed: int, n_folds: int = N_FOLDS) -> np.ndarray:
    """Return the fold of each row: every class is shuffled and dealt out in turn.

    `codes` number the classes. Where a class has fewer rows than `n_folds`, there are as many folds as it has rows.
    """
    counts = np.bincount(codes)
    if counts.min() < LEAST_ROWS:
        few = int(counts.argmin())
        raise ValueError(
            f"cross-validation needs at least {LEAST_ROWS} rows of each class; class {classes.tolist()[few]!r} has "
            f"{counts[few]}. Give flip_noise as a number, and calibrate=False."
        )
    n_folds = min(n_folds, int(counts.min()))
    folds = np.empty(len(codes), np.int64)
    for k in range(len(counts)):
        rows = np.flatnonzero(codes == k)
        folds[rng.keyed(seed, rng.SPLIT, k).permutation(rows)] = np.arange(len(rows)) % n_folds
    return folds


def held_out(
    folds: np.ndarray, n_classes: int, scores_of: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Scores of all rows, (n_rows, n_classes); `scores_of(learned, scored)` learns from some rows and scores others."""
    found = np.empty((len(folds), n_classes))
    for fold in range(int(folds.max()) + 1):
        inside = folds == fold
        found[inside] = scores_of(np.flatnonzero(~inside), np.flatnonzero(inside))
    return found


def held_out_one_shot(
    up: np.ndarray, codes: np.ndarray, folds: np.ndarray, noises: Sequence[float], threads: int
) -> np.ndarray:
    """Scores of all rows by one-shot machines at several flip noises, (n_noises, n_rows, n_classes).

    Energies are summed in float32, whose rounding is far below the differences between classes.
    """
    n_classes, parts = int(codes.max()) + 1, [np.flatnonzero(folds == k) for k in range(int(folds.max()) + 1)]
    values = [2.0 * up[part].astype(np.float32) - 1.0 for part in parts]
    found = np.empty((len(noises), len(up), n_classes))

    def one(job: tuple[int, int, int]) -> None:
        k, noise, fold = job
        machine, log_z = one_shot_of_sums(total.without(sums[fold]), flip_noise=noises[noise], units="spin")
        field = values[fold] @ (0.5 * machine.couplings.arrays[0]).astype(np.float32)
        field += machine.flat_bias.astype(np.float32)
        energy = machine.offset - np.einsum("ri,ri->r", field, values[fold])
        found[noise, parts[fold], k] = -energy - log_z

    with single_threaded_blas():
        for k in range(n_classes):
            sums = fan_out(lambda part, k=k: SpinSums.of(up[part[codes[part] == k]]), parts, threads)  # type: ignore[misc]
            total = SpinSums.total(sums)
            fan_out(one, [(k, noise, fold) for noise in range(len(noises)) for fold in range(len(parts))], threads)
    return found
