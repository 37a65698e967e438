"""Trials of changed files: each in a process of its own, which must end in time, with an answer or one StorageError.

python -m tests.support.mutation_trials FOLDER FIRST LAST

prints a line for each seed from FIRST to LAST for which that does not hold, and how many came to their end, were
refused, or were lost in HDF5.
"""

from __future__ import annotations

import io
import os
import random
import resource
import shutil
import signal
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

import fastbm as bm
from fastbm._base.checks import StorageError
from fastbm.report.verification import verify_file
from fastbm.store import apart

from . import forked
from .mutations import mutate

SECONDS = 10  # of processor time that a trial may take
ENDED, REFUSED, LOST = "ended", "refused", "lost"


def make(folder: Path) -> list[str]:
    """Make runs of all kinds, merged ones and some in parts; return their names."""
    glass, rows = bm.models.random_machine(6, seed=1), np.random.default_rng(0).integers(0, 2, (40, 6))
    short = {"n_chains": 8, "n_sweeps": 40, "seed": 1}
    learn = {"method": "pcd", "n_hidden": 3, "epochs": 4, "n_chains": 8, "seed": 1}
    parts = {"merge": False, "commit_seconds": 0}
    bm.sample(
        bm.models.edwards_anderson((4, 4), seed=1), observables=["magnetisation"], out=folder / "sample.h5", **short
    )
    bm.sample(glass, sampler="tempering", n_betas=4, out=folder / "ladder.h5", **short)
    bm.fit(rows, out=folder / "fit.h5", **learn)
    bm.infer(glass, "ais", n_chains=8, n_betas=20, seed=1, out=folder / "infer.h5")
    bm.compare(glass, ["exact", "mean-field"], out=folder / "compare.h5")
    bm.sample(glass, out=folder / "samples-parts.h5", **short, **parts)
    bm.fit(rows, out=folder / "fit-parts.h5", **learn, **parts)
    wide = bm.models.random_machine(64, seed=1)  # beyond what is checked whole when it is opened
    bm.sample(wide, out=folder / "large.h5", n_chains=64, n_sweeps=8000, seed=1)
    glass.save(folder / "machine.h5")
    bm.BoltzmannClassifier().fit(rows, np.arange(40) % 2).save(folder / "classifier.h5")
    return [
        "sample",
        "ladder",
        "fit",
        "infer",
        "compare",
        "samples-parts",
        "fit-parts",
        "large",
        "machine",
        "classifier",
    ]


def use(path: Path) -> None:
    """Read all that there is in a file, and go on with a run that is in parts."""
    if path.stem == "machine":
        assert np.isfinite(bm.load(path).bias).all()
        return
    if path.stem == "classifier":
        bm.BoltzmannClassifier.load(path).predict(np.ones((2, 6), int))
        return
    bm.verify(path)
    run = bm.open(path)
    str(run.summary())
    for name in run.streams:
        run.read(name)
    if run.kind in ("sample", "fit"):
        assert run.model.n_units
    if run.kind == "sample":
        assert run.energy.shape[0] == run.states[:].shape[0]
    if run.path is not None and not run.path.exists():
        bm.resume(path)


def changed(runs: Path, names: list[str], seed: int, folder: Path) -> tuple[Path, str]:
    """Make a copy of a file and change it; return its path and what was done."""
    name, chance = names[seed % len(names)], random.Random(seed)
    path = target = folder / f"{name}.h5"
    if name.endswith("parts"):
        shutil.copytree(runs / f"{name}.h5.parts", folder / f"{name}.h5.parts")
        target = chance.choice(sorted((folder / f"{name}.h5.parts").glob("seg-*")))
    else:
        shutil.copy(runs / f"{name}.h5", path)
    return path, mutate(target, chance)


def _outcome(path: Path) -> str:
    try:
        use(path)
    except StorageError:
        return REFUSED
    except Exception as error:  # what this is for
        return f"{type(error).__name__}: {error}"
    return ENDED


def trial(runs: Path, names: list[str], seed: int, folder: Path) -> str:
    """Use a changed file in a process of its own; return what was done and what came of it where that is not right."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path, done = changed(runs, names, seed, folder)
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        signal.alarm(10 * SECONDS)  # a process that sleeps hangs too
        os.write(writable, _outcome(path).encode()[:4000])
        os._exit(0)
    os.close(writable)
    with open(readable, "rb") as file:
        told = file.read().decode()
    status = os.waitpid(child, 0)[1]
    with redirect_stdout(io.StringIO()):
        if not told and done == "bytes" and not verify_file(path):
            return LOST  # in HDF5; the door for files from strangers says so
    return told if told in (ENDED, REFUSED) else f"{path.stem}: {done}: {told or f'ended by {status}'}"


def main(folder: Path, first: int, last: int) -> None:
    """Do all trials."""
    warnings.simplefilter("ignore")
    apart.SECONDS, apart.call = SECONDS, forked.call
    runs = folder / "runs"
    runs.mkdir()
    names = make(runs)
    counts = dict.fromkeys((ENDED, REFUSED, LOST), 0)
    for seed in range(first, last):
        found = trial(runs, names, seed, folder / "trial")
        if found in counts:
            counts[found] += 1
        else:
            print(f"{seed}: {found}", flush=True)
    print(*counts.values())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
