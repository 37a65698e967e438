"""What a run holds: its records when they are due, its data and its config."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import fastbm as bm
from tests.support.runs import ROWS, fit, sample

LABELS = np.arange(len(ROWS)) % 2


def test_samples_of_learning_are_the_chains(tmp_path: Path) -> None:
    run = fit(tmp_path / "run.h5")
    assert run.states.shape == (3, 9, 13)  # epochs 2, 4 and the last
    assert set(np.unique(run.states[:])) <= {0, 1}
    with pytest.raises(AttributeError, match=r"'fit' has no energies; its streams are .*samples/states"):
        _ = run.energy
    with pytest.raises(AttributeError, match="'sample' has no results"):
        _ = sample().inference
    with pytest.raises(KeyError, match=r"no metrics 'loss'; it has .*moment_error"):
        run.metrics["loss"]
    assert "moment_error" in repr(run.metrics)


@pytest.mark.parametrize("again", [lambda run: pickle.loads(pickle.dumps(run)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("stored", [True, False])
def test_runs_can_be_pickled_and_copied(again, stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = sample(Path("run.h5")) if stored else sample()
    _ = run.model
    there = tmp_path / "elsewhere"
    there.mkdir()
    data = pickle.dumps(run.states)
    copied = again(run)
    monkeypatch.chdir(there)
    assert np.array_equal(again(copied).states[:], run.states[:])
    assert np.array_equal(pickle.loads(data)[:], run.states[:])
    assert copied.model.fingerprint == run.model.fingerprint
    assert copied.config == run.config and copied.finished


def test_records_come_when_they_are_due() -> None:
    run = fit(epochs=7, weights_every=3, monitor_every=2, samples_every=5)
    assert run.weights["epoch"].tolist() == [2, 5, 6]
    assert run.metrics["step"].tolist() == [1, 3, 5, 6]
    assert len(run.states) == 2
    assert np.array_equal(run.weights["weights"][-1], run.model.weights[0])
    assert "epoch" not in fit(weights_every=0).weights or not len(fit(weights_every=0).weights["epoch"])


def test_the_data_and_the_config_can_be_read_back(tmp_path: Path) -> None:
    run = bm.fit(ROWS, n_hidden=2, epochs=1, labels=LABELS, holdout=ROWS[:2], out=tmp_path / "run.h5")
    again = bm.open(tmp_path / "run.h5")
    assert np.array_equal(again.data["rows"], ROWS)
    assert np.array_equal(again.data["holdout"], ROWS[:2])
    assert np.array_equal(again.data["labels"], LABELS)
    assert again.config["fit"]["method"] == "pcd"
    assert again.config["data"] == {"n_rows": 14, "n_holdout": 2, "source": None, "origins": {}}
    assert run.config == again.config


def test_a_run_without_samples(tmp_path: Path) -> None:
    for run in (sample(n_sweeps=0), sample(tmp_path / "run.h5", n_sweeps=0)):
        assert run.finished
        assert run.states.shape == (0, 5, 6)
        assert run.energy.shape == run.magnetisation.shape == (0, 5)
        assert len(run.sweep) == 0
        assert "samples" in run.summary()
        assert not run.converged


def test_temperatures_are_judged_one_by_one() -> None:
    run = sample(beta=[0.1, 0.2, 0.1, 0.2, 0.1], n_sweeps=500)
    assert len(run.r_hat) == 2
    assert run.beta.tolist() == [0.1, 0.2, 0.1, 0.2, 0.1]
