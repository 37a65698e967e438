"""scikit-learn's own checks of estimators, and what its users do with them."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import fastbm as bm
from fastbm.sklearn import Classifier, PairwiseMachine, RestrictedMachine

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16.0
BITS = (DIGITS > 0.5).astype(float)
TRAIN, TEST = slice(0, 1200), slice(1200, None)


def small(**options: Any) -> RestrictedMachine:
    return RestrictedMachine(**{"n_components": 12, "n_iter": 3, "random_state": 0, **options})


@parametrize_with_checks([small(n_chains=10), PairwiseMachine(), Classifier()])
def test_scikit_learns_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of data that some checks make
        check(estimator)


def test_features_and_likelihood_are_better_than_those_of_bernoulli_rbm() -> None:
    """Of grey rows, by the defaults of both, which take about as long."""
    theirs, ours = BernoulliRBM(random_state=0).fit(DIGITS[TRAIN]), RestrictedMachine(random_state=0).fit(DIGITS[TRAIN])
    same = bm.BoltzmannMachine(
        [theirs.components_.T], [theirs.intercept_visible_, theirs.intercept_hidden_], units="binary"
    )
    assert ours.score(DIGITS[TEST]) > bm.pseudo_likelihood(same, BITS[TEST].astype(int)).mean
    accuracy = [
        make_pipeline(one, RidgeClassifier()).fit(DIGITS[TRAIN], LABELS[TRAIN]).score(
            DIGITS[TEST], LABELS[TEST]
        )
        for one in (theirs, clone(ours))
    ]  # fmt: skip
    assert accuracy[1] > accuracy[0]


def test_features_are_those_of_the_machine() -> None:
    machine = small().fit(BITS)
    assert machine.components_.shape == (12, 64)
    rows = BITS[:20]
    np.testing.assert_allclose(machine.transform(rows), bm.transform(machine.machine_, rows.astype(int)), rtol=1e-12)
    up = machine.transform(rows) > 0.5
    field = machine.machine_.field(np.concatenate([np.zeros((20, 64), int), up], axis=1))[:, :64]
    np.testing.assert_allclose(machine.inverse_transform(up), 1 / (1 + np.exp(-field)), rtol=1e-12)
    np.testing.assert_allclose(
        machine.score_samples(rows), bm.pseudo_likelihood(machine.machine_, rows.astype(int)).each
    )
    with pytest.raises(ValueError, match="X must have 12 columns, one a component; got 3"):
        machine.inverse_transform(np.zeros((2, 3)))
    for name, value in (
        ("n_iter", 0), ("n_iter", "many"), ("n_components", 0), ("batch_size", None), ("method", "exact"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
            small(**{name: value}).fit(BITS[:20])


@pytest.mark.parametrize("rows", [BITS, DIGITS], ids=["bits", "grey"])
def test_sparse_rows_are_the_dense_ones(rows: np.ndarray) -> None:
    dense, sparse = small().fit(rows), small().fit(scipy.sparse.csr_array(rows))
    assert np.array_equal(dense.components_, sparse.components_)
    few = scipy.sparse.csr_array(rows[:30])
    np.testing.assert_allclose(dense.transform(rows[:30]), sparse.transform(few), rtol=1e-12)
    assert np.array_equal(dense.score_samples(rows[:30]), sparse.score_samples(few))
    twice = scipy.sparse.csr_matrix((np.ones(2), [0, 0], [0, 2]), shape=(1, rows.shape[1]))  # 2 where it counts as 1
    with pytest.warns(UserWarning, match="values are from 0 to 2"):
        np.testing.assert_allclose(dense.transform(twice), dense.transform(twice.toarray()), rtol=1e-12)


def test_grey_rows_are_drawn_anew_and_others_saturate() -> None:
    """A machine of one pixel of grey 0.3 learns how bright it is; values beyond 0 and 1 count as these and are told."""
    rows = np.full((400, 1), 0.3)
    machine = small(n_components=1, n_iter=60, learning_rate=0.2).fit(rows)
    up = bm.infer(machine.machine_, "exact").mean[0]
    assert abs(up - 0.3) < 0.05
    far = np.where(BITS > 0, 7.5, -2.0)
    machine, classes = small().fit(BITS), Classifier().fit(BITS, LABELS)
    calls: list[Callable[[Any], Any]] = [
        lambda rows: small().fit(rows).components_,
        lambda rows: small().partial_fit(rows).components_,
        machine.transform,
        machine.score,
        lambda rows: machine.inverse_transform(rows[:, :12]),
        lambda rows: Classifier(random_state=0).fit(rows, LABELS).predict(BITS),
        classes.predict,
    ]
    for call in calls:
        with pytest.warns(UserWarning, match="from 0 to 1; values are from -2 to 7.5.*MinMaxScaler") as told:
            found = call(far)
        assert len(told) == 1 and np.array_equal(found, call(BITS * (1.0 + 1e-7)))


def test_the_same_state_gives_the_same_machine_and_partial_fit_goes_on() -> None:
    one, other = small().fit(DIGITS), clone(small(n_jobs=-1)).fit(DIGITS)
    assert np.array_equal(one.components_, other.components_)
    again = pickle.loads(pickle.dumps(one))
    assert np.array_equal(again.transform(DIGITS), one.transform(DIGITS))
    part = small()
    for _ in range(2):
        part.partial_fit(BITS[:200])
    before = part.components_.copy()
    part.partial_fit(BITS[200:400])
    assert not np.array_equal(part.components_, before)
    with pytest.raises(ValueError, match="features"):
        part.partial_fit(BITS[:, :10])


def test_searches_and_tables() -> None:
    search = GridSearchCV(small(n_iter=20), {"n_components": [1, 30], "method": ["pcd", "cd"]}, cv=3).fit(BITS[:300])
    assert search.best_params_["n_components"] == 30  # one quantity for all
    table = pandas.DataFrame(BITS[:50], columns=[f"pixel{k}" for k in range(64)])
    machine = small().set_output(transform="pandas").fit(table)
    assert list(machine.transform(table).columns) == [f"restrictedmachine{k}" for k in range(12)]
    assert list(machine.feature_names_in_) == list(table.columns) == list(machine.machine_.names)[:64]
    assert list(machine.partial_fit(table).machine_.names)[:64] == list(table.columns)
    assert PairwiseMachine().fit(table.iloc[:, 20:24]).machine_.names == tuple(table.columns[20:24])


def test_pairs_are_the_density_that_fit_learns() -> None:
    rows = BITS[:600, 18:26]
    machine = PairwiseMachine(random_state=0).fit(rows)
    run = bm.fit(rows.astype(int), "pseudolikelihood", epochs=200, l2=1e-3, l2_bias=1e-4, units="binary")
    np.testing.assert_allclose(machine.coupling_, run.model.weights, atol=1e-10)
    assert machine.score(rows) > PairwiseMachine(l2=10.0).fit(rows).score(rows)
    drawn = machine.sample(2000, random_state=1)
    assert drawn.shape == (2000, 8) and set(np.unique(drawn)) <= {0, 1}
    np.testing.assert_allclose(drawn.mean(axis=0), rows.mean(axis=0), atol=0.08)
    assert np.array_equal(machine.sample(5, random_state=2), machine.sample(5, random_state=2))


def test_formulas_take_no_option_of_other_rules() -> None:
    rows = BITS[:600, [18, 19, 20, 21, 26]]
    run = bm.fit(rows.astype(int), "tap", units="binary")
    for options in ({}, {"l2": 0.0, "l2_bias": 0.0}):
        assert np.array_equal(PairwiseMachine("tap", **options).fit(rows).coupling_, run.model.weights)
    for name, value in (("n_iter", 50), ("l2", 0.1), ("l2_bias", 0.1)):
        with pytest.raises(ValueError, match=f"{name} goes with other rules; method='tap' is a formula. Leave it"):
            PairwiseMachine("tap", **{name: value}).fit(rows)
    with pytest.raises(ValueError, match="n_iter must be at least 1"):
        PairwiseMachine(n_iter=0).fit(rows)


def test_classes_of_any_labels() -> None:
    names = np.array([f"digit {k}" for k in range(10)])[LABELS]
    machine = Classifier(flip_noise=0.14, random_state=0).fit(BITS[TRAIN], names[TRAIN])
    assert machine.score(BITS[TEST], names[TEST]) > 0.9
    same = bm.BoltzmannClassifier(priors="counts", flip_noise=0.14).fit(BITS[TRAIN].astype(int), LABELS[TRAIN])
    np.testing.assert_allclose(machine.predict_log_proba(BITS[TEST]), same.predict_log_proba(BITS[TEST].astype(int)))
    assert np.mean(cross_val_score(Classifier(), BITS[:600], names[:600], cv=3)) > 0.85
    two = Classifier().fit(BITS[:300], LABELS[:300] > 4)
    odds = two.decision_function(BITS[:300])
    assert np.array_equal(two.predict(BITS[:300]), odds > 0)
    np.testing.assert_allclose(two.predict_proba(BITS[:300])[:, 1], 1 / (1 + np.exp(-odds)), rtol=1e-9)
    with pytest.raises(ValueError, match="one class"):
        Classifier().fit(BITS[:5], np.zeros(5))
    with pytest.raises(ValueError, match="class 'z' has 1"):
        Classifier().fit(BITS[:5], np.array(list("aabbz")))
