"""What classifiers choose from their training rows: flip noise by cross-validation, offsets by calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.learning.classifier import tuning
from fastbm.learning.classifier.machines import one_shot, one_shot_of_sums
from fastbm.learning.classifier.tuning import calibrate
from tests.support.classifier import blobs, by_hand
from tests.twins import classifier


def test_the_flip_noise_of_the_one_shot_rule_is_found_by_cross_validation_unless_given() -> None:
    up, labels = blobs(120, 6)
    asked = bm.BoltzmannClassifier(flip_noise="cv").fit(up, labels)
    for options in ({}, {"log_z": "exact"}):
        found = bm.BoltzmannClassifier(**options).fit(up, labels)
        assert found.settings["flip_noise"] == "cv"
        assert (found.flip_noise, found.cross_validation) == (asked.flip_noise, asked.cross_validation)
    few = np.concatenate([np.flatnonzero(labels == k)[:2] for k in range(3)])
    assert bm.BoltzmannClassifier().fit(up[few], labels[few]).flip_noise == 0.14
    assert bm.BoltzmannClassifier("cd", epochs=1).fit(up, labels).flip_noise == 0.0


@pytest.mark.parametrize("options", [{}, {"log_z": "exact"}, {"method": "cd", "n_hidden": 2, "epochs": 2}])
def test_flip_noise_by_cross_validation(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every error is that of classifiers learned without the fold that they judge, and the best noise is used."""
    noises = (0.02, 0.2)
    monkeypatch.setattr("fastbm.learning.classifier.classifier.FLIP_NOISES", noises)
    up, labels = blobs(120, 9, flip=0.3)
    found = bm.BoltzmannClassifier(flip_noise="cv", **options).fit(up, labels)
    folds = tuning.deal(labels, np.arange(3), 0)
    for noise in noises:
        wrong = 0.0
        for k in range(5):
            alone = bm.BoltzmannClassifier(flip_noise=noise, **options).fit(up[folds != k], labels[folds != k])
            wrong += alone.error(up[folds == k], labels[folds == k]) * (folds == k).sum()
        assert found.cross_validation[noise] == pytest.approx(wrong / 120)
    assert found.flip_noise == min(noises, key=found.cross_validation.__getitem__)
    again = bm.BoltzmannClassifier(flip_noise=found.flip_noise, **options).fit(up, labels)
    assert np.array_equal(found.log_likelihoods(up), again.log_likelihoods(up))


def test_scores_of_folds_are_those_of_machines_learned_without_them() -> None:
    up, labels = blobs(120, 9, flip=0.3)
    folds = tuning.deal(labels, np.arange(3), 0)
    parts = [tuning.held_out_one_shot(up, labels, folds, (0.1,), threads) for threads in (1, 2, 3)]
    assert np.array_equal(parts[0], parts[1])
    assert np.array_equal(parts[0], parts[2])
    for fold in range(5):
        for k in range(3):
            weights, bias, log_z, _ = by_hand(2.0 * up[(folds != fold) & (labels == k)] - 1, 0.1)
            states = 2.0 * up[folds == fold] - 1
            scores = 0.5 * np.einsum("ri,ij,rj->r", states, weights, states) + states @ bias - log_z
            np.testing.assert_allclose(parts[0][0][folds == fold, k], scores, rtol=1e-5, atol=1e-4)


def test_folds_hold_every_class_alike() -> None:
    labels = np.repeat([0, 1, 2], [50, 23, 12])
    folds = tuning.deal(labels, np.arange(3), 0)
    for k, size in enumerate([50, 23, 12]):
        counts = np.bincount(folds[labels == k], minlength=5)
        assert counts.sum() == size
        assert counts.max() - counts.min() <= 1
    assert not np.array_equal(folds, tuning.deal(labels, np.arange(3), 1))
    assert tuning.deal(np.repeat([0, 1], [9, 3]), np.arange(2), 0).max() == 2
    with pytest.raises(ValueError, match="at least 3 rows of each class; class 'b' has 2"):
        tuning.deal(np.repeat([0, 1], [9, 2]), np.array(["a", "b"]), 0)


@pytest.mark.parametrize("prior", [(1 / 3, 1 / 3, 1 / 3), (0.6, 0.3, 0.1)])
def test_calibration_is_the_best_there_is(prior: tuple[float, ...]) -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    scores = 20.0 * (np.arange(3) == labels[:, None]) + generator.normal(scale=30.0, size=(100, 3)) + [500.0, 510, 490]
    offsets, scale = calibrate(scores, labels, np.log(prior))
    assert offsets.sum() == pytest.approx(0.0, abs=1e-9)

    def loss(c: np.ndarray, t: float) -> float:
        return classifier.calibration_loss(scores, labels.tolist(), prior, c.tolist(), t)

    best = loss(offsets, scale)
    for step in (*np.eye(3), *-np.eye(3)):
        assert loss(offsets + 2.0 * step, scale) > best
    for factor in (0.9, 1.1):
        assert loss(offsets, factor * scale) > best
    moved = calibrate(scores + np.array([7.0, -3.0, -4.0]), labels, np.log(prior))
    np.testing.assert_allclose(moved[0], offsets - [7.0, -3.0, -4.0], atol=0.05)


def test_calibration_mends_a_wrong_log_z(monkeypatch: pytest.MonkeyPatch) -> None:
    up, labels = blobs(600, 12, flip=0.25)
    train, test = slice(0, 300), slice(300, None)
    honest = bm.BoltzmannClassifier().fit(up[train], labels[train]).error(up[test], labels[test])
    monkeypatch.setattr(tuning, "one_shot_of_sums", shifted)
    monkeypatch.setattr("fastbm.learning.classifier.machines.one_shot", lambda up, **o: shifted_one(up, **o))
    plain = bm.BoltzmannClassifier(flip_noise=0.14).fit(up[train], labels[train])
    mended = bm.BoltzmannClassifier(flip_noise=0.14, calibrate=True).fit(up[train], labels[train])
    assert plain.error(up[test], labels[test]) > honest + 0.15
    assert mended.error(up[test], labels[test]) < honest + 0.03
    np.testing.assert_allclose(np.exp(mended.predict_log_proba(up)).sum(axis=1), 1.0)
    assert np.array_equal(plain.log_likelihoods(up), mended.log_likelihoods(up))


def shifted(sums: Any, **options: Any) -> Any:
    """The one-shot rule with a log Z that is off by 20 for classes whose first unit is mostly up."""
    machine, log_z = one_shot_of_sums(sums, **options)
    return machine, log_z + 20.0 * (sums.first[0] > 0)


def shifted_one(up: np.ndarray, **options: Any) -> Any:
    machine, log_z = one_shot(up, **options)
    return machine, log_z + 20.0 * (up[:, 0].mean() > 0.5)
