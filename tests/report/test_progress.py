"""What is told of a run's progress from its file is what its task would say, for runs of every kind."""

import pytest

import fastbm as bm
from fastbm.report.watch.view import Watch
from fastbm.runs import begin as run_module
from fastbm.runs.progress import COUNTERS, progress_of
from fastbm.runs.spec import Given, build
from fastbm.store import open_reader
from tests.support import runs, samples
from tests.support.machines import calm

GLASS = bm.models.edwards_anderson((4, 5), seed=1)
SAMPLING = ["gibbs", "tempering", "annealing", "population", "until", "burn-in"]
MORE = ["annealing-best", "wolff", "clamped", "exact", "exact-clamped", "best", "houdayer", "population-best"]
LEARNING = [one.__name__ for one in runs.LEARNING]
CLAMP = ([0, 1], [[1, 1], [1, -1], [-1, -1]])
OTHERS = {
    "patterns": lambda **o: bm.infer(GLASS, method="exact", engine="gray", clamp=CLAMP, **o),
    "cells": lambda **o: bm.compare({"a": GLASS, "b": samples.small()}, ["exact", "mean-field"], **o),
    "rules": lambda **o: bm.compare_rules({"a": samples.small()}, ["naive-mean-field"], n_rows=[50, 80], **o),
}


def begin(name, **options):
    if name in OTHERS:
        return calm(OTHERS[name], **options)
    if name in SAMPLING + MORE:
        return samples.work(name, **options)
    return getattr(runs, name)(**options)


@pytest.fixture
def told(monkeypatch):
    """What tasks say after each block, and the state from which it has to be told again."""
    found = []

    def note(task, rows):
        found.append(((*task.progress, task.unit), task.state()))

    execute = run_module.execute
    monkeypatch.setattr(
        run_module, "execute", lambda task, writer, **o: execute(task, writer, **o | {"progress": note})
    )
    return found


def slow(names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", [*SAMPLING, *slow(MORE), *LEARNING[:2], *slow(LEARNING[2:]), *slow(OTHERS)])
def test_progress_is_what_the_task_says(name, told, tmp_path, monkeypatch):
    path = tmp_path / "run.h5"
    monkeypatch.setattr("fastbm.inference.exact.sums.SLICE_SECONDS", 1e-9)  # one piece at a time
    begin(name, out=path, **{"max_seconds": 0.0} if name not in ("patterns", "cells") else {})
    while not bm.open(path).finished:
        calm(bm.resume, path)
    watch = Watch(path)
    spec = watch.run.config
    assert told
    assert len(told) >= {"patterns": 3, "cells": 4, "rules": 2}.get(name, 1)
    for said, state in told:
        counters = {name: state[name] for name in COUNTERS if name in state}
        assert tuple(progress_of(spec, counters, watch._n_sums)) == said
    view = watch.view()
    assert view.progress.done == view.progress.total == told[-1][0][0]
    assert view.status.state == "finished"


def test_pieces_of_one_sum(tmp_path):
    bm.infer(GLASS, method="exact", engine="gray", out=tmp_path / "run.h5")
    reader = open_reader(tmp_path / "run.h5")
    spec = reader.spec
    spec["cells"][0]["plan"]["min_pieces"] = 8
    task = build(spec, reader.inputs, 1, Given())
    seen = []
    while not task.done:
        state = task.state()
        seen.append(progress_of(spec, {name: state[name] for name in COUNTERS if name in state}))
        assert seen[-1] == (*task.progress, task.unit)
        task._sums = task._sums or task._begin(spec["cells"][0])
        task._sums._advance(lambda: False)
        if task._sums.done:
            break
    assert [one.done for one in seen] == list(range(len(seen)))
    assert len(seen) >= 8
    assert seen[-1].unit == "piece"
