"""Shards that are damaged, of another campaign or of another place are told, and never read as a campaign's rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import fastbm as bm
from tests.campaigns.test_campaign import call
from tests.support.campaign_kills import contents, tables

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
SHARD = "0-002.h5"


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign, one with another seed, one with another grid, and a run that is of none."""
    folder = tmp_path_factory.mktemp("campaigns")
    for name, said in (
        ("own", tables()), ("seed", tables(seed=1)), ("grid", tables(fields=(0.0, 0.2))), ("cut", tables(n_shards=8)),
    ):  # fmt: skip
        bm.campaign(said, out=folder / name, threads=1)
    bm.sample(bm.models.ising((2, 2)), n_sweeps=4, out=folder / "run.h5", progress=False)
    return folder


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def copy(source: str) -> Callable[[Path], None]:
    return lambda path: shutil.copy(path.parents[2] / source, path) and None


FOREIGN = {
    "another place": (copy("own/shards/0-001.h5"), "is shard 0-001, not this"),
    "another seed": (copy(f"seed/shards/{SHARD}"), "is a shard of another campaign"),
    "another grid": (copy(f"grid/shards/{SHARD}"), "is a shard of another campaign"),
    "another cut": (copy(f"cut/shards/{SHARD}"), "is a shard of another campaign"),
    "a run": (copy("run.h5"), "is a run of kind 'sample'"),
    "damage": (cut, "damaged"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_shard_that_is_none_of_the_campaign_is_told_and_computed_again(
    what: str, campaigns: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, text = FOREIGN[what]
    folder = campaigns / "spoilt"
    shutil.copytree(campaigns / "own", folder)
    try:
        spoil(folder / "shards" / SHARD)
        for verb in ("status", "table", "resume", "verify"):
            assert call(verb, folder) == 1, verb
            told = "".join(capsys.readouterr())
            assert text in " ".join(told.split()) and SHARD in told, verb
        (folder / "shards" / SHARD).unlink()
        assert call("resume", folder, "-q") == 0
        assert contents(folder) == contents(campaigns / "own")
    finally:
        shutil.rmtree(folder)
