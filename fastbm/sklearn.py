"""Estimators for scikit-learn: a restricted machine, a pairwise one, and a classifier of one machine per class.

They follow scikit-learn's rules: `clone`, `Pipeline`, `GridSearchCV`, `set_output` and pickle work. Values of X are
probabilities of ones, as for ``BernoulliRBM``: rows that are not all 0 and 1 are drawn anew for every epoch, and what
lies outside of 0 to 1 counts as the nearer end, with a warning (`fastbm.fit` refuses it; scikit-learn's checks want
estimators that take any numbers). Rows may be sparse; they are packed into bits a block at a time. Needs
``pip install "fastbm[sklearn]"``.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from scipy.special import expit

try:
    from joblib import effective_n_jobs
    from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ImportError:
    raise ImportError('fastbm.sklearn needs scikit-learn: pip install "fastbm[sklearn]"') from None

from ._base import checks
from .data.probabilities import BLOCK_ROWS, bits, dense_block, drawn_bits, probabilities
from .data.sources import Packed
from .inference.likelihood import pseudo_likelihood
from .learning.classifier.classifier import BoltzmannClassifier
from .learning.closed_forms.learn import CLOSED_FORMS
from .learning.settings import Monitor
from .machine.machine import BoltzmannMachine
from .runs.fit.verb import fit
from .runs.sample.verb import sample

__all__ = ["Classifier", "PairwiseMachine", "RestrictedMachine"]

MOST_BYTES = 1 << 28  # of drawn rows that are kept at a time
MANY_SEEDS = 1 << 31
QUIET = Monitor(evaluate="none", weights_every=0, monitor_every=1 << 20)


class _Machine(BaseEstimator):
    """What machines have in common: rows, draws and scores."""

    machine_: BoltzmannMachine

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _rows(self, X: Any, *, reset: bool = False) -> Any:
        """Return checked rows with values from 0 to 1, dense or CSR."""
        kinds = [np.float64, np.float32]
        return probabilities(validate_data(self, X, accept_sparse="csr", reset=reset, dtype=kinds))

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log pseudo-likelihood of rows, the sum over units of log P(unit | all others).

        Nothing of it is random, and it needs no normalising constant, so that machines of any size are compared by one
        quantity. Of values that are not 0 or 1 the likelier bit is taken.

        Parameters
        ----------
        X : (n_rows, n_features) array or sparse matrix

        Returns
        -------
        (n_rows,) array
        """
        check_is_fitted(self)
        rows = self._rows(X)
        found = [
            pseudo_likelihood(self.machine_, bits(dense_block(rows, first)), threads=_threads(self.n_jobs)).each
            for first in range(0, rows.shape[0], BLOCK_ROWS)
        ]
        return np.concatenate(found)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples`; `y` is ignored."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, *, n_sweeps: int = 1000, random_state: Any = None) -> np.ndarray:
        """Draw rows, each from a chain of its own, by Gibbs sampling.

        Parameters
        ----------
        n_samples : int
        n_sweeps : int
            Sweeps before a row is taken.
        random_state : int, RandomState or None

        Returns
        -------
        (n_samples, n_features) int8 array of 0 and 1
        """
        check_is_fitted(self)
        run = sample(
            self.machine_, n_chains=checks.whole("n_samples", n_samples, least=1), n_sweeps=1,
            burn_in=checks.whole("n_sweeps", n_sweeps), seed=_seed(random_state), threads=_threads(self.n_jobs),
        )  # fmt: skip
        return np.asarray(run.states[-1][:, : self.machine_.n_visible])

    def _learn(self, rows: Any, n_epochs: int, seed: int, init: BoltzmannMachine | None, **options: Any) -> None:
        """Learn from rows of probabilities, drawn anew for each epoch unless all are 0 or 1."""
        values = rows.data if scipy.sparse.issparse(rows) else rows
        same = not ((values > 0.0) & (values < 1.0)).any()
        generator, n_bytes = np.random.default_rng(seed), rows.shape[0] * -(-rows.shape[1] // 8)
        at_once = 1 if same else int(max(1, min(n_epochs, MOST_BYTES // max(1, n_bytes))))
        machine, left = init, n_epochs
        while left:
            n_draws = min(at_once, left)
            drawn = [drawn_bits(rows, generator) for _ in range(n_draws)]
            epochs = left if same else 1
            if machine is not None:
                options.pop("n_hidden", None)  # which it says
            machine = fit(
                Packed(np.concatenate(drawn), rows.shape[1]), init=machine, epochs=epochs, seed=seed, monitor=QUIET,
                threads=_threads(self.n_jobs), **options,
            ).model  # fmt: skip
            left, seed = left - (left if same else n_draws), (seed + 1) % MANY_SEEDS
        assert machine is not None
        self.machine_ = self._named(machine)

    def _named(self, machine: BoltzmannMachine) -> BoltzmannMachine:
        """Return the machine with the names of a table's columns, where rows came with some."""
        return machine.with_names(getattr(self, "feature_names_in_", None))


class RestrictedMachine(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Machine):
    """Restricted Boltzmann machine: features of rows, and a density.

    Parameters
    ----------
    n_components : int
        Hidden units.
    method : {"pcd", "cd"}
        Contrastive divergence with persistent chains, or from the rows.
    learning_rate, batch_size, n_iter, l2
        As for `fastbm.fit`; `n_iter` is its epochs.
    n_chains : int
        Persistent chains.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads; all unless given.

    Attributes
    ----------
    machine_ : BoltzmannMachine
        For `fastbm.infer`, `fastbm.sample` and the like.
    components_ : (n_components, n_features) array
    intercept_hidden_, intercept_visible_ : arrays
    n_features_in_ : int
    feature_names_in_ : array
        Where the columns of X had names.

    Examples
    --------
    >>> from fastbm.sklearn import RestrictedMachine
    >>> rows = [[0, 1, 1], [1, 0, 0], [0, 1, 1], [1, 0, 0]]
    >>> RestrictedMachine(n_components=2, n_iter=50, random_state=0).fit_transform(rows).shape
    (4, 2)
    """

    def __init__(
        self, n_components: int = 256, *, method: str = "pcd", learning_rate: float = 0.05, batch_size: int = 20,
        n_iter: int = 30, n_chains: int = 100, l2: float = 0.0, random_state: Any = None, n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self.n_components, self.method = n_components, method
        self.learning_rate, self.batch_size = learning_rate, batch_size
        self.n_iter, self.n_chains, self.l2, self.random_state, self.n_jobs = n_iter, n_chains, l2, random_state, n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows; `y` is ignored.

        Parameters
        ----------
        X : (n_rows, n_features) array or sparse matrix
            Probabilities of ones.
        """
        rows = self._rows(X, reset=True)
        return self._climb(rows, self.n_iter, _seed(self.random_state), None)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning, for one epoch of these rows; chains start anew."""
        first = not hasattr(self, "machine_")
        rows = self._rows(X, reset=first)
        self.n_batches_seen_ = 1 if first else getattr(self, "n_batches_seen_", 0) + 1
        seed = (_seed(self.random_state) + self.n_batches_seen_) % MANY_SEEDS
        return self._climb(rows, 1, seed, None if first else self.machine_)

    def _climb(self, rows: Any, n_epochs: int, seed: int, init: BoltzmannMachine | None) -> Self:
        method = checks.choice("method", self.method, ("pcd", "cd"))
        chains = {"n_chains": self.n_chains} if method == "pcd" else {}
        n_epochs = checks.whole("n_iter", n_epochs, least=1)
        n_hidden = checks.whole("n_components", self.n_components, least=1)
        batch_size = checks.whole("batch_size", self.batch_size, least=1)
        self._learn(
            rows, n_epochs, seed, init, method=method, n_hidden=n_hidden, l2=self.l2,
            learning_rate=self.learning_rate, batch_size=min(batch_size, rows.shape[0]), **chains,
        )  # fmt: skip
        self.components_ = np.array(self.machine_.weights[0].T)
        self.intercept_visible_, self.intercept_hidden_ = (np.array(one) for one in self.machine_.bias)
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: Any) -> np.ndarray:
        """Return P(hidden unit up | row), (n_rows, n_components), in X's precision."""
        check_is_fitted(self)
        rows = self._rows(X)
        found = expit(rows @ self.components_.T.astype(rows.dtype) + self.intercept_hidden_.astype(rows.dtype))
        return np.asarray(found)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return P(unit up | hidden units), (n_rows, n_features), for hidden values from 0 to 1."""
        check_is_fitted(self)
        hidden = probabilities(check_array(X, dtype=[np.float64, np.float32]))
        if hidden.shape[1] != self._n_features_out:
            raise ValueError(f"X must have {self._n_features_out} columns, one a component; got {hidden.shape[1]}.")
        found = hidden @ self.components_.astype(hidden.dtype) + self.intercept_visible_.astype(hidden.dtype)
        return np.asarray(expit(found))


class PairwiseMachine(_Machine):
    """Density of the units and all pairs of them: a fully visible machine (pairwise maximum-entropy model).

    Parameters
    ----------
    method : {"pseudolikelihood", "exact", "monte-carlo", "mean-field", "tap", ...}
        A rule of `fastbm.fit`. Formulas, such as "tap", have no penalties and no epochs, and refuse them unless they
        are the default ones.
        "pseudolikelihood" never looks at the machine's own states: of many features that are seldom 1 it may come to a
        machine that prefers states unlike any row, which `score` does not show but the means of `sample` do. Raise
        l2, or take "monte-carlo".
    l2, l2_bias : float
        Penalties of couplings and biases; the latter keeps those of units finite that are always on or off.
    n_iter : int
        Epochs at most; iterations of L-BFGS.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads; all unless given.

    Attributes
    ----------
    machine_ : BoltzmannMachine
    coupling_ : (n_features, n_features) array
    bias_ : (n_features,) array
    n_features_in_, feature_names_in_
    """

    def __init__(
        self, method: str = "pseudolikelihood", *, l2: float = 1e-3, l2_bias: float = 1e-4, n_iter: int = 200,
        random_state: Any = None, n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self.method, self.l2, self.l2_bias, self.n_iter = method, l2, l2_bias, n_iter
        self.random_state, self.n_jobs = random_state, n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows of probabilities of ones; `y` is ignored. Rows that are not all 0 and 1 are drawn once."""
        rows = self._rows(X, reset=True)
        seed = _seed(self.random_state)
        packed = Packed(drawn_bits(rows, np.random.default_rng(seed)), rows.shape[1])
        run = fit(packed, self.method, seed=seed, monitor=QUIET, threads=_threads(self.n_jobs), **self._options())
        self.machine_ = self._named(run.model)
        self.coupling_, self.bias_ = np.array(run.model.weights), np.array(run.model.bias)
        return self

    def _options(self) -> dict[str, Any]:
        """Return the options of the rule, of which formulas have none."""
        n_iter = checks.whole("n_iter", self.n_iter, least=1)
        if self.method not in tuple(CLOSED_FORMS):
            return {"epochs": n_iter, "l2": self.l2, "l2_bias": self.l2_bias}
        usual = type(self)().get_params()
        for name in ("n_iter", "l2", "l2_bias"):
            if getattr(self, name) not in (0, usual[name]):
                raise ValueError(f"{name} goes with other rules; method={self.method!r} is a formula. Leave it out.")
        return {}


class Classifier(ClassifierMixin, BaseEstimator):
    """One Boltzmann machine a class; a row belongs to the class whose machine finds it most probable.

    It wraps `fastbm.BoltzmannClassifier`. Of probabilities of ones those above 1/2 count as ones.

    Parameters
    ----------
    method : str
        How each machine is learned; "mean-field" in one step.
    flip_noise : float or "cv", optional
    n_hidden : int
    priors : {"uniform", "counts"}
    calibrate : bool
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads; all unless given.

    Attributes
    ----------
    classes_ : array
    classifier_ : BoltzmannClassifier
    n_features_in_, feature_names_in_

    References
    ----------
    Kappen and Rodriguez, Neural Comput. 10, 1137 (1998), doi:10.1162/089976698300017386.
    """

    def __init__(
        self, method: str = "mean-field", *, flip_noise: float | str | None = None, n_hidden: int = 0,
        priors: str = "counts", calibrate: bool = False, random_state: Any = None, n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self.method, self.flip_noise, self.n_hidden, self.priors = method, flip_noise, n_hidden, priors
        self.calibrate, self.random_state, self.n_jobs = calibrate, random_state, n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of rows that are no bits
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Learn a machine for each class.

        Parameters
        ----------
        X : (n_rows, n_features) array
        y : (n_rows,) array
            Labels of any kind.
        """
        rows, labels = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError("Classifier needs rows of at least two classes; the data have one class.")
        made = BoltzmannClassifier(
            self.method, flip_noise=self.flip_noise, n_hidden=self.n_hidden, priors=self.priors,
            calibrate=self.calibrate, seed=_seed(self.random_state), threads=_threads(self.n_jobs),
        )  # fmt: skip
        self.classifier_ = made.fit(bits(probabilities(rows)), labels)
        return self

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return log P(class | row), (n_rows, n_classes)."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self.classifier_.predict_log_proba(bits(probabilities(rows)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return P(class | row), (n_rows, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return log P(class | row), and of two classes the log-odds of the second one, (n_rows,)."""
        found = self.predict_log_proba(X)
        return found[:, 1] - found[:, 0] if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> np.ndarray:
        """Return the likeliest class of each row."""
        log_p = self.predict_log_proba(X)
        return np.asarray(self.classes_[np.argmax(log_p, axis=1)])


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(MANY_SEEDS))


def _threads(n_jobs: Any) -> int | None:
    """Return `n_jobs` as threads: None is all of them, and -1, -2, ... count as everywhere in scikit-learn."""
    return None if n_jobs is None else int(effective_n_jobs(n_jobs))
