"""The command line: runs, tables, exit codes, and one line for every bad input."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

import fastbm as bm
from fastbm import cli
from fastbm._base.checks import DamagedRun, StorageError
from fastbm.cli import app

SAMPLE = """
[model]
name = "ising"
shape = [4, 4]

[sample]
n_chains = 16
n_sweeps = 200
beta = [0.2, 0.4]
"""
FIT = """
[data]
source = "bars-and-stripes"
side = 3

[fit]
method = "pcd"
n_hidden = 4
epochs = 6
n_chains = 16

[store]
samples_every = 2
"""
COMPARE = """
[model]
name = "sherrington_kirkpatrick"
n = [6, 8]

[compare]
methods = ["exact", "sampled-states", "mean-field"]
beta = [0.5, 1.0]
options = { sampled-states = { n_sweeps = 100 } }
"""
INFER = """
[model]
name = "curie_weiss"
n = 8

[infer]
method = "gibbs"
n_sweeps = 200
"""


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def call(*words):
    """Run the command line in this process; return its exit code."""
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return left.value.code


def write(text, name="run.toml"):
    Path(name).write_text(text, encoding="utf-8")
    return name


@pytest.mark.parametrize("text", [SAMPLE, FIT, COMPARE, INFER], ids=["sample", "fit", "compare", "infer"])
def test_a_file_runs_and_its_run_can_be_shown_plotted_and_resumed(text, capsys):
    pytest.importorskip("matplotlib")
    assert call("run", write(text), "--out", "a.h5", "-q") == 0
    assert Path("a.h5").is_file() and Path("a.png").is_file() and not Path("a.h5.parts").exists()
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    assert call("show", "a.h5") == 0
    if text in (SAMPLE, COMPARE):  # each draws it once more
        assert call("plot", "a.h5", "--png", "b.png") == 0
        assert Path("b.png").read_bytes()[:4] == b"\x89PNG"
    assert call("resume", "a.h5", "-q") == 0
    assert "nothing left to do" in capsys.readouterr().out


def test_a_run_without_a_sweep_ends_well_and_a_mark_of_windows_is_no_word(capsys):
    Path("run.toml").write_text(SAMPLE.replace("200", "0"), encoding="utf-8-sig")
    assert call("run", "run.toml", "-q") == 0
    assert "none: there is nothing to draw yet" in capsys.readouterr().out


def test_settings_can_be_changed_and_the_threads_do_not_matter():
    file = write(SAMPLE)
    assert call("run", file, "--set", "sample.seed=3", "--set", "sample.sampler=metropolis", "--out", "a.h5", "-q") == 0
    assert call("run", file, "--set", "sample.seed=3", "--set", 'sample.sampler="metropolis"', "--out", "b.h5",
                "--threads", "1", "-q") == 0  # fmt: skip
    one, two = bm.open("a.h5"), bm.open("b.h5")
    assert one.config["sample"]["seed"] == 3 and one.config["sample"]["order"] == "random"
    assert np.array_equal(one.states[:], two.states[:])


def test_the_comparison_shows_exact_values_and_bounds_below_them(capsys):
    assert call("compare", write(COMPARE), "--out", "c.h5", "-q") == 0
    printed = capsys.readouterr().out
    assert "sherrington_kirkpatrick, n = 6" in printed and "corrected" in printed
    rows = bm.open("c.h5").comparison.table
    assert len(rows) == 12
    for row in rows:
        assert row["log_z_off"] <= 0 if row["bound"] == "lower" else row["log_z_off"] == 0


def test_a_learned_machine_is_sampled_by_name():
    assert call("run", write(FIT), "--out", "d.h5", "-q") == 0
    text = '[model]\nsource = "d.h5"\n[sample]\nn_chains = 8\nn_sweeps = 20\n'
    assert call("run", write(text, "s.toml"), "--out", "e.h5", "-q") == 0
    assert np.array_equal(bm.open("e.h5").model.weights[0], bm.open("d.h5").model.weights[0])


BAD = {
    "unknown key": (SAMPLE.replace("n_sweeps", "n_sweps"), [], ["n_sweps", "[sample]", "n_sweeps"]),
    "key of another table": (SAMPLE, ["--set", "sample.max_seconds=5"], ["max_seconds", "It goes into [store]."]),
    "unknown table": (SAMPLE.replace("[sample]", "[sampel]"), [], ["sampel", "sample"]),
    "unknown model": (SAMPLE.replace("ising", "isling"), [], ["isling", "ising"]),
    "unknown argument of a model": (SAMPLE.replace("shape", "shap"), [], ["shap", "shape"]),
    "wrong type": (SAMPLE.replace("200", '"many"'), [], ["sample.n_sweeps", "many", "int"]),
    "wrong type of a list": (SAMPLE.replace("[0.2, 0.4]", '["hot"]'), [], ["sample.beta", "hot"]),
    "negative sweeps": (SAMPLE, ["--set", "sample.n_sweeps=-5"], ["sample.n_sweeps must be at least 0", "-5"]),
    "negative beta": (SAMPLE, ["--set", "sample.beta=-1.0"], ["beta must be at least 0", "-1"]),
    "beta that does not fit": (SAMPLE, ["--set", "sample.n_chains=15"], ["beta", "n_chains", "15"]),
    "unknown sampler": (SAMPLE, ["--set", "sample.sampler=gibs"], ["sampler", "gibs", "gibbs"]),
    "one side of a shape": (SAMPLE, ["--set", "model.shape=[4, 0]"], ["model.shape[1] must be at least 1"]),
    "bad change": (SAMPLE, ["--set", "nonsense"], ["--set", "table.key=value"]),
    "not TOML": ("[model", [], ["run.toml", "not valid TOML"]),
    "two verbs": (SAMPLE + '[infer]\nmethod = "exact"\n', [], ["exactly one", "sample", "infer"]),
    "no model": ("[sample]\nn_chains = 4\n", [], ["[model]"]),
    "missing argument": ('[model]\nname = "ising"\n[sample]\n', [], ["shape", "ising"]),
    "unknown data": (FIT.replace("bars-and-stripes", "bars"), [], ["source", "bars"]),
    "missing data": (FIT.replace("bars-and-stripes", "gone.h5:x"), [], ["gone.h5", "does not exist"]),
    "missing machine": ('[model]\nsource = "gone.h5"\n[sample]\n', [], ["gone.h5", "does not exist"]),
    "data in no units": (FIT.replace('"bars-and-stripes"\nside = 3', '"grey.npy"'), [], ["data must be 0 or 1", "0.5"]),
    "data in other units": (FIT.replace("side = 3", 'side = 3\nunits = "spin"'), [], ["data must be -1 or 1"]),
    "empty data": (FIT.replace('"bars-and-stripes"\nside = 3', '"empty.npy"'), [], ["data is empty"]),
    "too many units for exact": (INFER.replace("8", "60").replace("gibbs", "exact").replace("n_sweeps = 200", ""), [],
                                 ["2^60", "years", "mean-field"]),
    "unknown option of a method": (INFER.replace("n_sweeps", "n_sweeep"), [], ["n_sweeep", "n_sweeps"]),
    "unknown method": (INFER.replace("gibbs", "gips"), [], ["gips", "gibbs"]),
    "method of compare": (COMPARE.replace('"exact"', '"exakt"'), [], ["exakt", "exact"]),
    "option of compare": (COMPARE.replace("n_sweeps", "sweeps"), [], ["sweeps", "n_sweeps"]),
    "no table": (SAMPLE, ["--set", "sample.until=3"], ["sample.until = 3: expected a table, such as { name = value }"]),
    "negative seconds": (SAMPLE, ["--set", "store.commit_seconds=-1.0"], ["store.commit_seconds must be at least 0"]),
    "all rows held out": (FIT, ["--set", "data.holdout=1.5"], ["data.holdout must be below 1"]),
    "classify without labels": (FIT + "[classify]\n", [], ["[classify]", "labels"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case, capsys):
    text, options, fragments = BAD[case]
    np.save("grey.npy", np.full((5, 4), 0.5))
    np.save("empty.npy", np.zeros((0, 4)))
    assert call("run", write(text), *options, "-q") == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "Traceback" not in captured.err
    for fragment in fragments:
        assert fragment in captured.err


def test_nothing_is_replaced_unasked(capsys):
    file = write(SAMPLE)
    assert call("run", file, "--out", "a.h5", "-q") == 0
    before = Path("a.h5").read_bytes()
    assert call("run", file, "--out", "a.h5", "-q") == 2
    message = capsys.readouterr().err
    assert "a.h5 exists" in message and "overwrite" in message
    assert Path("a.h5").read_bytes() == before
    assert call("run", file, "--out", "a.h5", "--overwrite", "-q") == 0


@pytest.mark.parametrize(
    "name", ["a.h5", "two  blanks.h5", "it's.h5", 'a "b".h5', "new\nline.h5", "\x1b[1m\\.h5", "-a.h5", "~a.h5"]
)
def test_commands_that_are_told_can_be_typed(name, capsys):
    file = write(INFER)
    assert call("run", file, "--out", f"./{name}", "-q") == 0
    assert call("run", file, "--out", f"./{name}", "-q") == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and captured.err[:-1].isprintable() and "\x1b" not in captured.out
    command = captured.err.partition("Continue it with ")[2].partition(" or pass --overwrite")[0]
    told = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
    assert told == f"fastbm\0resume\0{'./' * (name[0] in '-~')}{name}\0".encode()


@pytest.mark.filterwarnings("default:a.png exists")
def test_a_picture_that_is_in_the_way_does_not_undo_a_run(capsys):
    pytest.importorskip("matplotlib")
    Path("a.png").write_text("mine")
    assert call("run", write(INFER), "--out", "a.h5", "-q") == 0
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()[-3:]] == ["run", "picture", "took"]
    assert printed.err.startswith("fastbm: warning: a.png exists and is no picture of fastbm.")
    assert Path("a.png").read_text() == "mine"


def test_a_run_that_another_took_the_place_of_is_told(capsys, monkeypatch):
    from fastbm.report import tables

    finish = tables.finish

    def late(out, seconds, stop):
        bm.sample(bm.models.ising((3, 3)), n_sweeps=10**9, max_seconds=0.0, out=out, overwrite=True)
        finish(out, seconds, stop)

    monkeypatch.setattr(tables, "finish", late)
    assert call("run", write(INFER), "--out", "a.h5", "-q") == 2
    assert "fastbm: a.h5 was replaced: another process has begun a run there." in capsys.readouterr().err


def test_warnings_of_other_packages_are_one_line(capsys):
    cli._show_warning("a  first line\n    and another", UserWarning, "", 0)
    assert capsys.readouterr().err == "fastbm: warning: a  first line and another\n"


NOWHERE, LONG, MEMORY = "~nobody-of-that-name/x.h5", "x" * 300, "/proc/self/mem"
CAMPAIGN = SAMPLE + '[grid]\n"sample.seed" = [1]\n'
PATHS = [
    (SAMPLE, ["show", NOWHERE], "must name a home folder that there is; got '~nobody"),
    (SAMPLE, ["show", ""], "must name a file or a folder; got ''"),
    (SAMPLE, ["run", "run.toml", "--out", NOWHERE], "must name a home folder that there is"),
    (SAMPLE, ["run", "run.toml", "--out", LONG], "File name too long"),
    (SAMPLE, ["run", "run.toml", "--set", f"store.out={NOWHERE}"], "store.out must name a home folder"),
    (SAMPLE, ["run", "run.toml", "--set", 'store.out=""'], "store.out must name a file or a folder; got ''"),
    (CAMPAIGN, ["run", "run.toml", "--set", f"campaign.out={NOWHERE}"], "campaign.out must name a home folder"),
    (CAMPAIGN, ["run", "run.toml", "--set", 'campaign.out=""'], "campaign.out must name a file or a folder; got ''"),
    (CAMPAIGN, ["run", "run.toml", "--set", 'campaign.out="a\\u0000b"'], "campaign.out must not hold a zero character"),
    (CAMPAIGN, ["run", "run.toml", "--out", LONG], "File name too long"),
    *((SAMPLE, [verb, LONG], "File name too long") for verb in ("verify", "watch", "merge", "show")),
    *((SAMPLE, [verb, MEMORY], f"{MEMORY} cannot be read: ") for verb in ("run", "verify") if Path(MEMORY).exists()),
]


@pytest.mark.parametrize(("text", "words", "told"), PATHS, ids=range(len(PATHS)))
def test_paths_that_name_nothing_are_one_line(text, words, told, capsys):
    write(text)
    assert call(*words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and told in error
    assert [path.name for path in Path().iterdir()] == ["run.toml"]


def test_the_table_of_a_campaign_replaces_no_other_file(capsys):
    assert call("run", write(CAMPAIGN), "--out", "camp", "-q") == 0
    Path("empty.csv").touch()
    Path("other.csv").write_text("model.n,log_z,converged,doubt\n8,1.0,true,\n")
    Path("failed.csv").write_text("model.n,failed\n8,no memory\n")
    Path("link.csv").symlink_to("other.csv")
    for name in ("empty.csv", "empty.csv", "link.csv", "failed.csv", "b" * 250 + ".csv", "é" * 125 + ".csv"):
        assert call("table", "camp", "--out", name) == 0
        assert Path(name).read_text().startswith("sample.seed,")
    assert Path("link.csv").is_symlink()
    assert call("table", "camp", "--out", "run.toml") == 2
    assert "run.toml exists and is no table of fastbm. Nothing was changed." in capsys.readouterr().err
    assert "[sample]" in Path("run.toml").read_text()
    Path("prose.csv").write_text("of sample.seed, converged\n")
    assert call("table", "camp", "--out", "prose.csv") == 2
    Path("zero").symlink_to("/dev/zero")
    for name in (".", "zero"):
        assert call("table", "camp", "--out", name) == 2
        assert f"{name} is no file. Leave --out out to print the table." in capsys.readouterr().err
    assert Path("zero").readlink() == Path("/dev/zero")


@pytest.mark.parametrize(
    "words", [("run", "gone.toml"), ("show", "gone.h5"), ("plot", "gone.h5"), ("resume", "gone.h5")]
)
def test_a_missing_file_is_bad_input(words, capsys):
    assert call(*words) == 2
    assert "gone" in capsys.readouterr().err


def test_compare_takes_comparisons_only(capsys):
    Path("run.h5").touch()
    assert call("compare", write(SAMPLE)) == 2
    assert "[compare]" in capsys.readouterr().err


def test_a_wrong_command_is_bad_input(capsys):
    assert call("rnu", "x.toml") == 2
    assert "rnu" in capsys.readouterr().err


def test_help_fits_the_terminal_and_lacks_no_word(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name, command in get_command(app).commands.items():
        assert call(name, "--help") == 0
        printed = capsys.readouterr().out
        assert max(map(len, printed.splitlines())) <= 80 and "[[" not in printed
        assert set(command.help.split()) <= set(printed.split()), name  # markup would swallow what is in brackets
    assert call("--help") == 0
    printed = capsys.readouterr().out
    assert printed.index(" run ") < printed.index(" Campaigns ") < printed.index(" retry ")


def test_the_package_is_run_as_a_module():
    done = subprocess.run([sys.executable, "-m", "fastbm", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: python -m fastbm" in done.stdout
    done = subprocess.run([sys.executable, "-m", "fastbm", "show", "no-such.h5"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("fastbm: ") and done.stderr.count("\n") == 1


def test_a_home_that_the_shell_left_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert call("run", write(SAMPLE), "--out=~/run.h5") == 0
    assert call("plot", "~/run.h5", "--png=~/other.png") == 0
    assert call("run", write(SAMPLE + '[store]\nout = "~/a.h5"\n')) == 0
    there = ["a.h5", "a.png", "other.png", "run.h5", "run.png"]
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == there
    assert not Path("~").exists()


def test_exit_codes_of_errors_of_a_disk(monkeypatch):
    errors = (StorageError("full"), 2), (DamagedRun("damaged"), 1), (StorageError("full"), 3), (MemoryError("large"), 1)
    for error, code in errors:
        error.resumable = code == 3

        def fail(*arguments, error=error, **options):
            raise error

        monkeypatch.setattr("fastbm.report.tables.show", fail)
        assert call("show", "run.h5") == code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_run_does_not_need_its_output(tmp_path):
    """Where logs lie on a full disk, what is computed and the exit code are as ever."""
    command, file = [sys.executable, "-m", "fastbm"], str(write(SAMPLE))
    with open("/dev/full", "w") as full:
        run = [*command, "run", file, "--out", tmp_path / "a.h5"]
        assert subprocess.run(run, stdout=subprocess.DEVNULL, stderr=full).returncode == 0
        assert bm.verify(tmp_path / "a.h5").sound
        run = [*command, "run", file, "--out", tmp_path / "b.h5", "--max-seconds", "0.001"]
        assert subprocess.run(run, stdout=full, stderr=full).returncode == 3
        done = subprocess.run([*command, "show", tmp_path / "a.h5"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "fastbm: the output cannot be written: No space left on device.\n")
