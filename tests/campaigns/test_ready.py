"""Ready campaigns: at small settings all of them run, print what they found in 80 columns, and are drawn."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import fastbm as bm
from fastbm import cli
from tests.support.stopping import start

pytest.importorskip("matplotlib.figure")
pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")

HOUR = 3600.0
RUNS = Path(__file__).parents[2] / "runs"
SMALL = {
    "binder3d": (
        "zip.model.shape=[[2, 2, 2], [3, 3, 3]]", "zip.sample.burn_in=[8, 8]", "zip.sample.n_sweeps=[16, 16]",
        "zip.sample.thin=[4, 4]", "grid.model.seed={range = 3}",
    ),
    "folds": ("fit.epochs=2", "grid.fit.n_hidden=[2, 4]", "grid.data.fold=[0, 4]", "grid.fit.learning_rate=[0.1, 0.2]"),
    "methods": (
        "compare.methods=['exact', 'mean-field']", "compare.options={}",
        "grid.model.n=[4, 6]", "grid.model.seed=[0, 1]", "grid.compare.beta=[0.5, 1.0, 2.0]",
    ),
}  # fmt: skip
TOLD = {
    "binder3d": "overlap_xi_over_length over beta, averages of 3",
    "folds": "best by holdout: fit.",
    "methods": "log_z_off over beta, n = 4, averages of 2",
}


def call(*words: object) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    assert not left.value.code


@pytest.mark.parametrize("name", SMALL)
def test_a_ready_campaign_tells_what_it_found(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    changes = [word for change in SMALL[name] for word in ("--set", change)]
    call("run", RUNS / f"{name}.toml", "--out", out, "-q", "--threads", 1, *changes)
    text = capsys.readouterr().out
    assert TOLD[name] in text and max(map(len, text.splitlines())) <= 80
    call("plot", out)
    assert (out / "campaign.png").stat().st_size > 10_000
    assert bm.open(out).failed == {}


@pytest.mark.slow
def test_the_ferromagnet_of_two_dimensions_has_its_transition(tmp_path: Path) -> None:
    run(tmp_path / "binder", "binder")
    last = bm.open(tmp_path / "binder").table.crossing()[-1]
    assert last.groups == ((16, 16), (32, 32)) and last.error < 5e-4
    assert last.x == pytest.approx(math.log(1.0 + math.sqrt(2.0)) / 2.0, abs=5.0 * last.error)


def run(out: Path, name: str, *words: str) -> None:
    with start("run", RUNS / f"{name}.toml", "--out", out, "-q", *words, before="") as child:
        child.communicate(timeout=HOUR)
    assert child.returncode == 0


@pytest.mark.long  # four minutes of two cores
def test_the_glass_of_three_dimensions_has_its_transition(tmp_path: Path) -> None:
    """T_c = 1.102(3), Baity-Jesi et al., Phys. Rev. B 88, 224416 (2013), doi:10.1103/PhysRevB.88.224416."""
    run(tmp_path / "glass", "binder3d", "--workers", "2")
    found = bm.open(tmp_path / "glass").table.crossing("overlap_xi_over_length", degree=2, pairs="all")
    widest = next(one for one in found if one.groups == ((4, 4, 4), (8, 8, 8)))
    assert widest.error < 0.05 and abs(widest.x - 1.0 / 1.102) < 4.0 * widest.error
    assert widest.y == pytest.approx(0.65, abs=0.1)
