"""Classifiers by any learning rule, with log Z by any method and priors; their files."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from tests.support import machines
from tests.support.classifier import blobs
from tests.twins import classifier as reference_classifier

RULES: list[dict[str, Any]] = [
    {"method": "exact", "l2": 0.01, "l2_bias": 0.01},
    {"method": "exact", "n_hidden": 2, "epochs": 20},
    {"method": "pcd", "n_hidden": 3, "epochs": 5, "beta": 0.5},
    {"method": "cd", "n_hidden": 3, "epochs": 5},
    {"method": "pseudolikelihood", "l2": 0.01, "l2_bias": 0.01},
    {"method": "deterministic", "epochs": 20},
    {"method": "exact", "n_hidden": 2, "layout": "general", "epochs": 5, "l2": 0.01, "l2_bias": 0.01},
]


@pytest.mark.parametrize(
    ("options", "units"),
    [(options, "binary") for options in RULES] + [(options, "spin") for options in RULES[1:3]],
    ids=str,
)
def test_any_rule_scores_by_the_likelihood_of_its_machines(options: dict[str, Any], units: str) -> None:
    up, labels = blobs(150, 6)
    data = up if units == "binary" else 2 * up - 1
    classifier = bm.BoltzmannClassifier(units=units, **options).fit(data, labels)
    assert classifier.error(data, labels) < 0.2
    scores = classifier.log_likelihoods(data[:4])
    for k, machine in enumerate(classifier.machines):
        assert machine.n_hidden == options.get("n_hidden", 0)
        for row, score in zip(data[:4], scores[:, k], strict=True):
            truth = reference_classifier.log_p(
                row, *machines.parameters(machine), units, machine.n_hidden, options.get("beta", 1.0)
            )
            assert score == pytest.approx(truth, abs=1e-8)
    assert (classifier.log_z_error == 0).all()


@pytest.mark.parametrize("method", ["exact", "pseudolikelihood"])
def test_what_fits_warn_of_is_told_once_with_the_classes(method: str) -> None:
    """Pair (0, 1) is equal in classes a and b; in c one row alone has 0 up without 1, which a fold leaves out."""
    rows = np.random.default_rng(0).integers(0, 2, (120, 4))
    labels = np.repeat(["a", "b", "c"], 40)
    rows[:80, 1] = rows[:80, 0]
    rows[80 + np.flatnonzero(rows[80:, 0] > rows[80:, 1])[1:], 1] = 1
    copies = r": a pair of units, \(0, 1\), are equal in every row"
    for calibrate in (False, True):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            bm.BoltzmannClassifier(method, calibrate=calibrate).fit(rows, labels)
        texts = [str(one.message) for one in told]
        assert len(texts) == 1 + calibrate and re.match(r"classes a, b: .*" + copies, texts[0])
        assert all(text.startswith("class c: in cross-validation: ") for text in texts[1:])


def test_chains_of_a_class_that_do_not_mix_are_told() -> None:
    """Rows of one class have two modes, between which single flips do not lead."""
    draw = np.random.default_rng(0)
    modes = (draw.random((300, 1)) < 0.5) ^ (draw.random((300, 12)) < 0.03)
    rows = np.concatenate([modes, draw.random((300, 12)) < 0.5])
    with pytest.warns(bm.ConvergenceWarning, match=r"^class modes: free chains do not mix: r_hat = .* after epoch 60"):
        bm.BoltzmannClassifier("pcd", epochs=60, learning_rate=0.3).fit(rows, np.repeat(["modes", "noise"], 300))


def test_log_z_comes_from_any_method(monkeypatch: pytest.MonkeyPatch) -> None:
    up, labels = blobs(150, 6)
    exact = bm.BoltzmannClassifier(log_z="exact").fit(up, labels)
    for machine, log_z in zip(exact.machines, exact.log_z, strict=True):
        assert log_z == pytest.approx(machines.enumerate_machine(machine).log_z, abs=1e-9)
    own = bm.BoltzmannClassifier().fit(up, labels)
    assert np.abs(own.log_z - exact.log_z).max() > 1e-3
    assert np.isnan(own.log_z_error).all() and (exact.log_z_error == 0).all()
    monkeypatch.setattr("fastbm.learning.classifier.machines.AIS_BETAS", 300)
    sampled = bm.BoltzmannClassifier(log_z="ais").fit(up, labels)
    assert (sampled.log_z_error > 0).all()
    assert (np.abs(sampled.log_z - exact.log_z) < 5 * sampled.log_z_error).all()


def test_a_seed_is_a_classifier() -> None:
    up, labels = blobs(90, 6)
    options = {"method": "pcd", "epochs": 2, "flip_noise": 0.1}
    first, same, other = (bm.BoltzmannClassifier(**options, seed=s, threads=t).fit(up, labels) for s, t in SEEDS)
    assert np.array_equal(first.log_likelihoods(up), same.log_likelihoods(up))
    assert not np.array_equal(first.log_likelihoods(up), other.log_likelihoods(up))


SEEDS = [(0, 1), (0, 3), (1, 1)]


def test_priors_count_rows() -> None:
    up, labels = blobs(300, 8)
    few = np.concatenate([np.flatnonzero(labels == k)[: 100 // (k + 1)] for k in range(3)])
    plain = bm.BoltzmannClassifier(flip_noise=0.14).fit(up[few], labels[few])
    counted = bm.BoltzmannClassifier(flip_noise=0.14, priors="counts").fit(up[few], labels[few])
    np.testing.assert_allclose(np.exp(counted.log_prior), np.array([100, 50, 33]) / 183)
    scores = plain.log_likelihoods(up)
    for classifier, prior in ((plain, np.ones(3)), (counted, np.array([100, 50, 33]))):
        joint = np.exp(scores) * prior
        expected = joint / joint.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(np.exp(classifier.predict_log_proba(up)), expected, atol=1e-12)
        assert np.array_equal(classifier.predict(up), expected.argmax(axis=1))


@pytest.mark.parametrize("names", [[3, 5, 9], ["ant", "bee", "çat"], [0.5, 1.5, -2.0]])
@pytest.mark.parametrize("options", [{"flip_noise": "cv", "calibrate": True}, {"method": "pcd", "n_hidden": 2}])
def test_a_classifier_comes_back_from_its_file(
    tmp_path: Path, names: list[Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastbm.learning.classifier.classifier.FLIP_NOISES", (0.1, 0.2))
    up, codes = blobs(90, 6)
    labels = np.array(names)[codes]
    more = {"epochs": 2, "beta": 0.7} if "method" in options else {}
    classifier = bm.BoltzmannClassifier(**options, **more, priors="counts").fit(up, labels)
    path = tmp_path / "deep" / "classifier.h5"
    classifier.save(path)
    back = bm.BoltzmannClassifier.load(path)
    assert back.classes.dtype == classifier.classes.dtype
    assert np.array_equal(back.predict_log_proba(up), classifier.predict_log_proba(up))
    assert np.array_equal(back.predict(up), classifier.predict(up))
    assert back.settings == classifier.settings
    np.testing.assert_array_equal(back.log_z_error, classifier.log_z_error)
    assert (back.flip_noise, back.cross_validation) == (classifier.flip_noise, classifier.cross_validation)
    assert np.array_equal(back.fit(up, labels).log_z, classifier.log_z)
    before = path.read_bytes()
    with pytest.raises(bm.StorageError, match=r"classifier.h5 exists. Pass overwrite=True"):
        classifier.save(path)
    assert path.read_bytes() == before
    classifier.save(path, overwrite=True)
    assert [file.name for file in path.parent.iterdir()] == ["classifier.h5"]


def test_files_that_hold_no_classifier(tmp_path: Path) -> None:
    machines.machine("visible").save(tmp_path / "model.h5")
    (tmp_path / "text.h5").write_text("no HDF5")
    for name, text in (("model.h5", "holds no classifier"), ("text.h5", "not an HDF5 file"), ("no.h5", "not exist")):
        with pytest.raises(bm.StorageError, match=text):
            bm.BoltzmannClassifier.load(tmp_path / name)
    with pytest.raises(ValueError, match=r"call fit\(data, labels\) first"):
        bm.BoltzmannClassifier().save(tmp_path / "new.h5")


def test_a_run_learns_a_classifier_by_any_rule() -> None:
    up, labels = blobs(200, 6)
    options: dict[str, Any] = {"method": "cd", "n_hidden": 3, "epochs": 2, "calibrate": True}
    run = bm.fit(
        up[:150], n_hidden=2, epochs=2, labels=labels[:150], holdout=up[150:], holdout_labels=labels[150:],
        classify=options,
    )  # fmt: skip
    alone = bm.BoltzmannClassifier(**options).fit(up[:150], labels[:150]).error(up[150:], labels[150:])
    assert run.evaluation["classifier_error"].tolist() == [alone]
