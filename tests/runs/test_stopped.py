"""Command lines that are stopped by signals say how to go on, keep what they had, and end with the same bytes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fastbm import cli
from tests.support import stopping
from tests.support.crash import assert_same_run

SAMPLE = """
[model]
name = "ising"
shape = [4, 4]
[sample]
beta = 0.4
n_chains = 8
n_sweeps = 400
"""
FIT = """
[data]
source = "bars-and-stripes"
side = 3
[fit]
n_hidden = 4
epochs = 400
batch_size = 7
n_chains = 8
"""
COMPARE = f"""
[model]
name = "ising"
shape = [3, 3]
[compare]
methods = ["mean-field", "sampled-states"]
beta = {[k / 400 for k in range(200)]}
options = {{sampled-states = {{n_chains = 4, n_sweeps = 5}}}}
"""
KINDS = {"sample": (SAMPLE, "sweep"), "fit": (FIT, "epoch"), "compare": (COMPARE, "cell")}
ENDLESS = """
[model]
name = "sherrington_kirkpatrick"
n = 60
seed = 1
[infer]
method = "exact"
engine = "gray"
max_forecast_seconds = 1e18
"""
STORE = "[store]\ncommit_seconds = 0.0\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return int(left.value.code or 0)


def write(text: str) -> str:
    Path("run.toml").write_text(text + STORE)
    return "run.toml"


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("sample", signal.SIGTERM),
        pytest.param("sample", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("fit", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("compare", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_says_how_to_go_on_and_ends_with_the_same_bytes(kind: str, number: int) -> None:
    text, unit = KINDS[kind]
    file = write(text)
    with stopping.start("run", file, "-q", "--out", "cut.h5") as child:
        stopping.wait_for_blocks("cut.h5", 2, child)
        code, told = stopping.stop(child, number)
    assert code == 3, told
    stopping.assert_told(told, number, "fastbm resume cut.h5")
    assert f" after {unit} " in told
    kept = stopping.n_blocks("cut.h5")
    assert kept > 2
    with stopping.start("resume", "cut.h5", "-q") as child:
        stopping.wait_for_blocks("cut.h5", kept + 1, child)
        code, told = stopping.stop(child, number)
    assert code == 3, told
    stopping.assert_told(told, number, "fastbm resume cut.h5")
    assert stopping.n_blocks("cut.h5") > kept
    assert call("resume", "cut.h5", "-q") == 0
    assert call("run", file, "--out", "whole.h5", "-q") == 0
    assert_same_run("cut.h5", "whole.h5")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_sum_of_years_is_left_and_goes_on(number: int) -> None:
    file = write(ENDLESS)
    with stopping.start("run", file, "-q", "--out", "a sum.h5") as child:
        stopping.wait_for_blocks("a sum.h5", 1, child)
        code, told = stopping.stop(child, number)
    assert code == 3, told
    stopping.assert_told(told, number, "fastbm resume 'a sum.h5'")
    kept = stopping.n_blocks("a sum.h5")
    with stopping.start("resume", "a sum.h5", "-q", before="") as child:
        stopping.wait_for_blocks("a sum.h5", kept + 1, child)
        code, told = stopping.stop(child, number)
    assert code == 3, told
    stopping.assert_told(told, number, "fastbm resume 'a sum.h5'")
    assert stopping.n_blocks("a sum.h5") > kept


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_second_signal_ends_the_process_at_once_and_harms_nothing(number: int) -> None:
    """The commit that the first one asks for hangs, as on a disk that does not answer."""
    hang = "import fastbm.store as s\ns.Writer.commit = lambda *_: (open('hangs', 'w').close(), time.sleep(3600))\n"
    file = write(SAMPLE)
    with stopping.start("run", file, "-q", "--out", "cut.h5", before=stopping.SLOW + hang) as child:
        stopping.wait_for_blocks("cut.h5", 2, child)
        kept = stopping.n_blocks("cut.h5")
        child.send_signal(number)
        stopping.wait_until(Path("hangs").exists, child)
        code, told = stopping.stop(child, number)
    assert code == -number, told
    assert "Traceback" not in told
    assert stopping.n_blocks("cut.h5") >= kept
    assert call("resume", "cut.h5", "-q") == 0
    assert call("run", file, "--out", "whole.h5", "-q") == 0
    assert_same_run("cut.h5", "whole.h5")


def test_a_signal_that_was_ignored_from_outside_stays_so() -> None:
    """As under nohup; the signal after it is heard."""
    ignore = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    with stopping.start("run", write(SAMPLE), "-q", "--out", "cut.h5", before=ignore + stopping.SLOW) as child:
        stopping.wait_for_blocks("cut.h5", 1, child)
        child.send_signal(signal.SIGHUP)
        stopping.wait_for_blocks("cut.h5", stopping.n_blocks("cut.h5") + 2, child)
        code, told = stopping.stop(child, signal.SIGTERM)
    assert code == 3
    stopping.assert_told(told, signal.SIGTERM, "fastbm resume cut.h5")
