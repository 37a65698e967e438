"""`fastbm show` of runs that are live, stopped, damaged, in parts, merged or empty; `verify` and `merge` beside it."""

import pytest

import fastbm as bm
from fastbm import cli
from tests.support import runs, samples
from tests.support.watching import begun, flip, hold, parts_of


def gibbs(out, **options):
    return samples.work("gibbs", out, **options)


def call(*words):
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return left.value.code


@pytest.fixture(autouse=True)
def narrow(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def shown(capsys, code=0):
    assert call("show", "run.h5") == code
    printed = capsys.readouterr()
    assert max(len(line) for line in printed.out.splitlines()) <= 80
    return " ".join(printed.out.split()), printed.err


def test_a_run_through_its_life(tmp_path, capsys):
    path = tmp_path / "run.h5"
    begun(gibbs, path, 2)
    out, _ = shown(capsys)
    assert "finished False state live: pid" in out
    hold(path, born="1")
    out, _ = shown(capsys)
    assert "state stopped: last commit" in out and "is gone go on with fastbm resume run.h5 model" in out
    (parts_of(path) / "lock").write_text("")
    assert call("merge", "run.h5") == 2
    assert "not finished" in capsys.readouterr().err
    bm.resume(path)
    out, _ = shown(capsys)
    assert "finished True state finished: one file model" in out


def test_a_finished_run_in_parts(tmp_path, capsys):
    gibbs(tmp_path / "run.h5", merge=False)
    out, _ = shown(capsys)
    assert "state finished: 2 files, to be made one go on with fastbm merge run.h5" in out
    assert call("merge", "run.h5") == 0
    capsys.readouterr()
    assert "finished: one file" in shown(capsys)[0]


def test_what_is_whole_of_a_damaged_run(tmp_path, capsys):
    path = tmp_path / "run.h5"
    begun(gibbs, path, 6)
    (parts_of(path) / "lock").write_text("")
    whole, _ = shown(capsys)
    flip(parts_of(path) / "seg-00000006.h5")
    out, err = shown(capsys, code=1)
    assert "run.h5.parts/seg-00000006.h5 is damaged: sha256 differs. Blocks 0-" in out
    assert "go on with fastbm resume run.h5" in out and " of 8 chains, every 3 sweeps" in out
    assert out != whole
    assert "run.h5 is damaged; this is what is whole" in err
    assert call("verify", "run.h5") == 1
    assert "seg-00000006.h5" in capsys.readouterr().out
    assert call("merge", "run.h5") == 2


@pytest.mark.parametrize("burn_in", [10**9, 200], ids=["no samples", "samples behind it"])
def test_damage_of_a_burn_in_which_has_no_rows(burn_in, tmp_path, capsys):
    path = tmp_path / "run.h5"
    begun(lambda out, **options: gibbs(out, burn_in=burn_in, **options), path, 4)
    (parts_of(path) / "lock").write_text("")
    assert ("samples 0 of" in shown(capsys)[0]) == (burn_in == 10**9)
    flip(parts_of(path) / "seg-00000002.h5")
    out, err = shown(capsys, code=1)
    assert "seg-00000002.h5 is damaged: sha256 differs. Blocks 0-" in out and "this is what is whole" in err
    assert call("report", "run.h5") == 1


def test_a_damaged_merged_run_shows_nothing(tmp_path, capsys):
    gibbs(tmp_path / "run.h5")
    flip(tmp_path / "run.h5")
    assert call("show", "run.h5") == 1
    printed = capsys.readouterr()
    assert "are not what was written. Its rows cannot be trusted" in printed.err
    assert not printed.out


@pytest.mark.parametrize("begin", [gibbs, runs.fit], ids=["sample", "fit"])
def test_a_run_without_rows(begin, tmp_path, capsys):
    path = tmp_path / "run.h5"
    begun(begin, path)
    for one in parts_of(path).glob("seg-*.h5"):
        if one.name != "seg-00000000.h5":
            one.unlink()
    out, _ = shown(capsys)
    assert "state live" in out
    assert call("watch", "run.h5", "--once") == 0
    assert "0 of" in capsys.readouterr().out
