"""One machine per class: the formulas of one-shot mean field with linear response, and the classes they tell apart."""

from __future__ import annotations

import numpy as np
import pytest

import fastbm as bm
from fastbm.learning.classifier.machines import one_shot
from tests.support import machines
from tests.support.classifier import blobs, by_hand
from tests.twins import reference


@pytest.mark.parametrize("eps", [0.02, 0.14, 0.4])
def test_one_shot_is_its_formula(eps: float) -> None:
    up = blobs(90, 6)[0]
    weights, bias, log_z, _ = by_hand(2.0 * up - 1, eps)
    model, found = one_shot(up, flip_noise=eps, units="spin")
    assert found == pytest.approx(log_z, abs=1e-10)
    np.testing.assert_allclose(model.weights, weights - np.diag(np.diagonal(weights)), atol=1e-10)
    np.testing.assert_allclose(model.bias, bias, atol=1e-10)
    assert model.offset == pytest.approx(-0.5 * np.trace(weights), abs=1e-10)
    state = 2 * up[0].astype(int) - 1
    assert model.energy(state) == pytest.approx(-(0.5 * state @ weights @ state + bias @ state), abs=1e-9)


def test_its_moments_are_those_of_mean_field() -> None:
    """The machine is made so that mean field and linear response, with the diagonal, give back the data's moments."""
    up = blobs(300, 5)[0]
    weights, bias, _, _ = by_hand(2.0 * up - 1, 0.14)
    m = 0.72 * (2.0 * up - 1).mean(axis=0)
    np.testing.assert_allclose(np.tanh(weights @ m + bias), m, atol=1e-12)


@pytest.mark.parametrize("units", machines.UNITS)
def test_rows_go_to_the_class_whose_machine_finds_them_most_probable(units: str) -> None:
    up, labels = blobs(600, 20)
    data = up if units == "binary" else 2 * up - 1
    names = np.array(["a", "b", "c"])[labels]
    classifier = bm.BoltzmannClassifier(units=units).fit(data[:300], names[:300])
    assert classifier.classes.tolist() == ["a", "b", "c"]
    assert classifier.error(data[300:], names[300:]) < 0.02
    scores = classifier.log_likelihoods(data[300:])
    assert scores.shape == (300, 3)
    assert np.array_equal(classifier.predict(data[300:]), classifier.classes[scores.argmax(axis=1)])
    for k, model in enumerate(classifier.machines):
        assert model.units == units
        expected = [
            -reference.energy(row, model.weights, model.bias, model.offset) - classifier.log_z[k]
            for row in data[300:303]
        ]
        np.testing.assert_allclose(scores[:3, k], expected, atol=1e-9)
    wrong = classifier.predict(data[300:]) != names[300:]
    assert classifier.error(data[300:], names[300:]) == wrong.mean()


def test_both_conventions_say_the_same() -> None:
    up, labels = blobs(300, 12)
    binary = bm.BoltzmannClassifier(units="binary").fit(up, labels)
    spin = bm.BoltzmannClassifier(units="spin").fit(2 * up - 1, labels)
    np.testing.assert_allclose(binary.log_likelihoods(up), spin.log_likelihoods(2 * up - 1), atol=1e-9)
    np.testing.assert_allclose(binary.log_likelihoods(up[0]), spin.log_likelihoods(2 * up[:1] - 1), atol=1e-9)


def test_units_that_never_change_need_flip_noise() -> None:
    up, labels = blobs(60, 8)
    up[:, 3] = 0
    assert bm.BoltzmannClassifier(flip_noise=0.1).fit(up, labels).error(up, labels) < 0.1
    with pytest.raises(ValueError, match="flip_noise must be above 0 for these data"):
        bm.BoltzmannClassifier(flip_noise=0.0).fit(up, labels)


@pytest.mark.parametrize("seed", range(8))
def test_a_singular_covariance_is_refused_also_where_rounding_hides_it(seed: int) -> None:
    up, labels = blobs(90, 7, seed)
    combined = np.concatenate([up, up[:, :2], 1 - up[:, 3:4]], axis=1)
    with pytest.raises(ValueError, match="flip_noise must be above 0 for these data"):
        bm.BoltzmannClassifier(flip_noise=0.0).fit(combined, labels)


def test_fit_learns_a_classifier_beside_the_machine() -> None:
    up, labels = blobs(200, 9)
    run = bm.fit(
        up[:150], n_hidden=2, epochs=2, labels=labels[:150], holdout=up[150:], holdout_labels=labels[150:], classify={}
    )
    alone = bm.BoltzmannClassifier().fit(up[:150], labels[:150]).error(up[150:], labels[150:])
    assert run.evaluation["classifier_error"].tolist() == [alone]
    assert run.summary()["error of one machine a class"] == alone


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (ValueError, "classify needs labels, holdout and holdout_labels", {"labels": None}),
        (ValueError, "classify needs labels, holdout and holdout_labels", {"holdout_labels": None}),
        (ValueError, "labels must have one entry for each row", {"labels": np.zeros(3)}),
        (ValueError, "holdout_labels must have one entry for each row", {"holdout_labels": np.zeros(3)}),
        (ValueError, "labels must name at least two classes", {"labels": np.zeros(60)}),
        (ValueError, "classify learns from rows that count alike", {"row_weights": np.arange(60) % 3}),
        (TypeError, "labels must be numbers or texts", {"labels": np.array([None, 1] * 30, object)}),
        (ValueError, "class 1.0 has 1", {"labels": (np.arange(60) == 7).astype(float)}),
        (TypeError, "classify has no .*'epoch'.*Did you mean 'epochs'", {"classify": {"method": "cd", "epoch": 1}}),
        (TypeError, "classify has no .*'flip_nois'.*Did you mean 'flip_noise'", {"classify": {"flip_nois": 0.1}}),
        (ValueError, "flip_noise must be below 0.5", {"classify": {"flip_noise": 0.5}}),
    ],
)
def test_what_a_classifier_lacks_is_said_before_learning_begins(
    error: type[Exception], text: str, arguments: dict[str, object]
) -> None:
    up, labels = blobs(60, 6)
    whole = {"labels": labels, "holdout": up, "holdout_labels": labels, "classify": {}, "epochs": 2, **arguments}
    seen = []
    with pytest.raises(error, match=text):
        bm.fit(up, n_hidden=2, progress=lambda task, rows: seen.append(rows), **whole)
    assert not seen


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (ValueError, "method must be one of 'mean-field', 'deterministic', .*; got 'one-shot'", {"method": "one-shot"}),
        (ValueError, "flip_noise must be at least 0", {"flip_noise": -0.1}),
        (ValueError, "flip_noise must be below 0.5; got 0.5", {"flip_noise": 0.5}),
        (ValueError, "units must be one of 'spin', 'binary'", {"units": "bits"}),
        (ValueError, "flip_noise must be a number, or \"cv\"; got 'auto'", {"flip_noise": "auto"}),
        (ValueError, "log_z must be one of .*; got 'gibbs'", {"log_z": "gibbs"}),
        (ValueError, "priors must be one of 'uniform', 'counts'", {"priors": "flat"}),
        (TypeError, "calibrate must be True or False", {"calibrate": "cv"}),
        (ValueError, "n_hidden must be 0 for 'mean-field'.* use 'deterministic' or 'pcd'", {"n_hidden": 3}),
        (TypeError, "'mean-field' is one step and takes no 'epochs'", {"epochs": 3}),
        (TypeError, "no option 'epoch'. Did you mean 'epochs'", {"method": "pcd", "epoch": 3}),
        (ValueError, "epochs must be at least 1", {"method": "pcd", "epochs": 0}),
        (ValueError, "n_hidden", {"method": "pseudolikelihood", "n_hidden": 3}),
    ],
)
def test_bad_settings_are_named(error: type[Exception], text: str, arguments: dict[str, object]) -> None:
    with pytest.raises(error, match=text):
        bm.BoltzmannClassifier(**arguments)


def test_bad_data_are_named() -> None:
    up, labels = blobs(30, 5)
    classifier = bm.BoltzmannClassifier()
    with pytest.raises(
        ValueError, match=r"labels must have one entry for each row of data; got \(3,\) for data of shape \(30, 5\)"
    ):
        classifier.fit(up, labels[:3])
    with pytest.raises(ValueError, match=r"labels must name at least two classes; got \[1\]"):
        classifier.fit(up, np.ones(30, int))
    with pytest.raises(ValueError, match="at least two rows of each class; class 'rare' has 1"):
        classifier.fit(up, np.where(np.arange(30) == 4, "rare", "often"))
    with pytest.raises(ValueError, match=r"data must be 0 or 1 .*pass \(s \+ 1\) // 2"):
        classifier.fit(2 * up - 1, labels)
    with pytest.raises((ValueError, RuntimeError, AttributeError), match="fit"):
        bm.BoltzmannClassifier().predict(up)
    with pytest.raises(ValueError, match="labels must have one entry for each row"):
        classifier.fit(up, labels).error(up, labels[:3])


@pytest.mark.slow
def test_mnist() -> None:
    """The published one-shot figure at flip noise 0.14: 3.46 % of the test set; offsets of classes make it 3.27 %."""
    with np.load(machines.data_file("mnist.npz")) as mnist:
        train, test = ((mnist[f"{part}_images"].reshape(-1, 784) > 127).astype(np.uint8) for part in ("train", "test"))
        labels, truth = mnist["train_labels"], mnist["test_labels"]
    plain = bm.BoltzmannClassifier(flip_noise=0.14).fit(train, labels)
    assert plain.error(test, truth) == pytest.approx(0.0346, abs=5e-4)
    mended = bm.BoltzmannClassifier(flip_noise=0.14, calibrate=True).fit(train, labels)
    assert mended.error(test, truth) == pytest.approx(0.0327, abs=5e-4)
    rows = np.arange(len(truth))
    assert mended.predict_log_proba(test)[rows, truth].mean() > plain.predict_log_proba(test)[rows, truth].mean() + 0.1


def test_labels_without_an_order_are_named() -> None:
    up, _ = blobs(60, 6)
    with pytest.raises(TypeError, match="labels must be all numbers, or all texts"):
        bm.BoltzmannClassifier().fit(up, np.array([None, 1] * 30, object))
    with pytest.raises(ValueError, match="data must have no masked entries here"):
        bm.BoltzmannClassifier().fit(np.ma.masked_array(up, up == 1), np.arange(60) % 2)
