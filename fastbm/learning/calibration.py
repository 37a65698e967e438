"""Scores of classes to probabilities: one offset a class and one common scale, by logistic regression.

P(k | x) ~ pi_k exp(t (score_k(x) + c_k)), with t and c at the largest weighted log-likelihood of the labels, less a
slight ridge that keeps them finite where classes are told apart without error. Platt, in Advances in Large Margin
Classifiers (2000), p. 61; Guo et al., Proc. 34th ICML (2017), arXiv:1706.04599.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

RIDGE = 1e-4  # of the scale and of the offsets, in units of the spread of the scores
LEAST_SCALE = 1e-6


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
