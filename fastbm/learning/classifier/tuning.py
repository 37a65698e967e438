"""Calibration of a classifier: probabilities of classes, from scores of rows by machines that have not seen them.

One offset a class and one common scale come from logistic regression: P(k | x) ~ pi_k exp(t (score_k(x) + c_k)), with t
and c at the largest weighted log-likelihood of the labels, less a slight ridge that keeps them finite where classes are
told apart without error. Platt, in Advances in Large Margin Classifiers (2000), p. 61; Guo et al., Proc. 34th ICML
(2017), arXiv:1706.04599.

Rows are scored a fold at a time. Folds of the one-shot rule cost one pass over the data: the sums of all rows less
those of a fold are the sums of the others. Stone, J. R. Stat. Soc. B 36, 111 (1974),
doi:10.1111/j.2517-6161.1974.tb00994.x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import log_softmax

from ..._base import rng
from ..._base.threads import fan_out, single_threaded_blas
from .machines import SpinSums, one_shot_of_sums

RIDGE = 1e-4  # of the scale and of the offsets, in units of the spread of the scores
LEAST_SCALE = 1e-6
FLIP_NOISES = (0.02, 0.05, 0.08, 0.1, 0.12, 0.14, 0.16, 0.2, 0.25)
N_FOLDS = 5
LEAST_ROWS = 3  # of a class: one is held out, and two are left


def calibrate(scores: np.ndarray, labels: np.ndarray, log_prior: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the offsets c (n_classes,), of mean 0, and the scale t.

    `labels` (n_rows,) number the columns of `scores`. Rows weigh so that classes count as in the prior.
    """
    n_classes = scores.shape[1]
    centred = scores - scores.mean(axis=1, keepdims=True)
    spread = float(centred.std()) or 1.0
    centred /= spread
    weights = (np.exp(log_prior) / np.bincount(labels, minlength=n_classes))[labels]
    hits = np.arange(n_classes) == labels[:, None]

    from scipy.optimize import minimize  # which takes a tenth of a second to import

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        log_p = log_softmax(theta[0] * centred + theta[1:] + log_prior, axis=1)
        excess = weights[:, None] * (np.exp(log_p) - hits)
        value = -(weights * log_p[hits]).sum() + 0.5 * RIDGE * theta @ theta
        slope = np.concatenate([[(excess * centred).sum()], excess.sum(axis=0)])
        return float(value), slope + RIDGE * theta

    start = np.concatenate([[1.0], np.zeros(n_classes)])
    bounds = [(LEAST_SCALE, None), *[(None, None)] * n_classes]
    options = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}
    theta = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    scale = float(theta[0]) / spread
    offsets = theta[1:] / scale
    return offsets - offsets.mean(), scale


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
    """Return scores of all rows by machines that have not seen them, (n_rows, n_classes).

    `scores_of(learned, scored)` learns from some rows and scores others.
    """
    found = np.empty((len(folds), n_classes))
    for fold in range(int(folds.max()) + 1):
        inside = folds == fold
        found[inside] = scores_of(np.flatnonzero(~inside), np.flatnonzero(inside))
    return found


def held_out_one_shot(
    up: np.ndarray, codes: np.ndarray, folds: np.ndarray, noises: Sequence[float], threads: int
) -> np.ndarray:
    """Return scores of all rows by one-shot machines that have not seen them, (n_noises, n_rows, n_classes).

    There is one for each of several flip noises.

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
