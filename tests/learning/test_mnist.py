"""The restricted machine of runs/mnist.toml, as a user runs it. By hand: about five minutes on two cores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fastbm as bm
from fastbm.cli import main
from tests.support import machines

FILE = Path(__file__).parents[2] / "runs" / "mnist.toml"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")  # walks back down begin at chains that mix slowly
def test_a_restricted_machine_learns_mnist(tmp_path: Path) -> None:
    mnist, out = machines.data_file("mnist.npz"), tmp_path / "mnist.h5"
    members = {
        "source": "train_images", "labels": "train_labels", "holdout_source": "test_images",
        "holdout_labels": "test_labels",
    }  # fmt: skip
    changes = [word for key, member in members.items() for word in ("--set", f"data.{key}={mnist}:{member}")]
    with pytest.raises(SystemExit) as left:
        main(["run", str(FILE), "-q", "--out", str(out), *changes])
    assert not left.value.code
    run = bm.open(out)
    seconds = np.sum(run._reader.read("meta/epoch_seconds"))
    assert seconds < 1_800
    assert run.evaluation["holdout_log_likelihood"][-1] > -100.0
    curve = run.likelihood["holdout_log_likelihood"]
    assert len(curve) == 10
    assert curve[-1] > curve[0]
    assert run.evaluation["classifier_error"][-1] <= 0.035
