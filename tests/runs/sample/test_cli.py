"""All of `sample` from TOML files: keys are arguments, warnings are lines, pictures for every sampler."""

from __future__ import annotations

import signal
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli
from fastbm.report import tables as report
from fastbm.runs.toml import file as config
from tests.support import machines

RUNS = Path(__file__).parents[3] / "runs"
MODEL = '[model]\nname = "edwards_anderson"\nshape = [4, 4]\n[sample]\nn_chains = 8\n'
LADDER = MODEL + 'sampler = "tempering"\nbeta = 1.5\nn_sweeps = 300\nobservables = ["overlap"]\nswap_every = 2\n'
TEXTS = {
    "tempering": LADDER,
    "ladder": MODEL + 'sampler = "tempering"\nbetas = [0.1, 0.5, 1]\ncluster = true\nn_sweeps = 100\nthin = 2\n',
    "annealing": MODEL + 'sampler = "annealing"\nschedule = "geometric"\nrule = "metropolis"\nn_sweeps = 50\n',
    "population": MODEL.replace("8", "500") + 'sampler = "population-annealing"\ntarget_ess = 0.8\nbeta = 0.5\n',
    "best": MODEL + 'keep = "best"\nk = 5\nn_sweeps = 50\n',
    "until": MODEL + 'burn_in = "auto"\nuntil = { ess = 300, r_hat = 1.2 }\nbeta = 0.3\nkernel = "dense"\n',
    "clamp": MODEL + "clamp = [[0, 3], [[1, 1], [1, -1]]]\nbeta = 0.3\nn_sweeps = 50\n",
    "clamped temperatures": MODEL + "clamp = [[0], [[1], [-1], [1], [-1]]]\nbeta = [0.1, 0.4]\nn_sweeps = 50\n",
    "clamped ladders": LADDER + "clamp = [[0, 3], [[1, 1], [1, -1]]]\n",
    "exact": MODEL + 'sampler = "exact"\nn_sweeps = 100\nbeta = [0.5, 1]\n',
    "clusters": MODEL.replace("edwards_anderson", "ising") + 'sampler = "wolff"\nn_sweeps = 50\n',
}
SIMILAR = ("ladder", "annealing", "clamp", "clamped ladders", "exact")  # to pictures of others


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes most of the time of a run."""
    monkeypatch.setattr(report, "draw_picture", lambda run, path: path)


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return int(left.value.code or 0)


def write(text: str) -> str:
    Path("run.toml").write_text(text, encoding="utf-8")
    return "run.toml"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SIMILAR else []) for name in TEXTS]
)
def test_a_file_runs_is_shown_and_drawn(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert call("run", write(TEXTS[name]), "--out", "a.h5", "-q") == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert call("show", "a.h5") == 0
    assert capsys.readouterr().out.splitlines()[0] == printed.splitlines()[0]
    if name == "tempering":  # which draws it once more
        assert call("resume", "a.h5", "-q") == 0
    assert Path("a.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.usefixtures("no_picture")
def test_a_file_is_the_call() -> None:
    assert call("run", write(TEXTS["clamp"]), "--out", "a.h5", "-q") == 0
    here = bm.sample(
        bm.models.edwards_anderson((4, 4)), n_chains=8, clamp=([0, 3], [[1, 1], [1, -1]]), beta=0.3, n_sweeps=50
    )
    there = bm.open("a.h5")
    assert np.array_equal(there.states[:], here.states)
    assert there.config["sample"] == here.config["sample"]


@pytest.mark.usefixtures("no_picture")
def test_settings_can_be_set_from_the_command_line() -> None:
    changes = ["--set", "sample.until={ess = 50}", "--set", 'sample.observables=["magnetisation"]']
    assert call("run", write(TEXTS["until"]), *changes, "--out", "a.h5", "-q") == 0
    assert bm.open("a.h5").config["sample"]["until"] == {"ess": 50.0}
    assert list(bm.open("a.h5").observables) == ["magnetisation"]


@pytest.mark.usefixtures("no_picture")
def test_warnings_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    cold = '[model]\nname = "sherrington_kirkpatrick"\nn = 30\n[sample]\nn_chains = 16\nbeta = 6.0\nn_sweeps = 200\n'
    assert call("run", write(cold), "--out", "a.h5", "-q") == 0
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("fastbm: warning: chains disagree: r_hat of the energy at beta = 6 is ")
    assert "run_sample" not in told


BAD: dict[str, tuple[str, str]] = {
    "foreign": (MODEL + "swap_every = 2\n", "sampler='gibbs' does not take swap_every"),
    "misspelt": (LADDER.replace("swap_every", "swapevery"), "unknown key 'swapevery' in [sample]. Did you mean 'swap_"),
    "type": (LADDER.replace("= 2", '= "two"'), "sample.swap_every = 'two': expected `int"),
    "until": (MODEL + 'until = { ess = "many" }\n', "sample.until"),
    "observable": (LADDER.replace('"overlap"', '"overlaps"'), "observables must be one of"),
    "ladder": (MODEL + 'sampler = "tempering"\nbetas = [0.5, 0.1]\n', "betas must increase"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, expected = BAD[name]
    assert call("run", write(text), "--out", "a.h5", "-q") == 2
    told = capsys.readouterr().err
    assert expected in told
    assert told.count("\n") == 1
    assert not Path("a.h5").exists() and not Path("a.h5.parts").exists()


@pytest.mark.parametrize("file", ["spin_glass.toml", "ising.toml"])
def test_the_ready_runs_are_valid_and_run_when_made_small(file: str) -> None:
    tables: dict[str, Any] = config.read(RUNS / file)
    assert config.check(tables) == "sample"
    small = ["--set", "model.shape=[3, 3, 3]" if "glass" in file else "model.shape=[4, 4]"]
    small += ["--set", "sample.n_sweeps=400"] + (["--set", "sample.until={ess = 100}"] if "glass" in file else [])
    small += [] if "glass" in file else ["--set", "sample.burn_in=50"]
    assert call("run", RUNS / file, *small, "--out", "a.h5", "-q") == 0
    assert bm.open("a.h5").finished


def test_the_readme_and_the_comment_of_the_spin_glass_name_settings_that_are_there() -> None:
    comment = (RUNS / "spin_glass.toml").read_text()
    changes = [line.split('"')[0] for line in comment.split("--set ")[1:]]
    assert len(changes) == 3
    tables = tomllib.loads(comment)
    tables["model"]["shape"] = [4, 4]
    tables["sample"] |= {"beta": 2.5, "cluster": True, "n_sweeps": 50, "until": {"ess": 1}}
    assert config.check(tables) == "sample"
    assert machines.calm(config.call(tables, "sample")).finished


@pytest.mark.parametrize("where", ["show", "draw_picture"])
def test_ctrl_c_when_all_is_done_says_that_it_is(
    where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(report, where, stopped)
    assert call("run", write(TEXTS["clusters"]), "--out", "a.h5", "-q") == 1
    assert "a.h5 is finished" in capsys.readouterr().err
    assert bm.open("a.h5").finished
