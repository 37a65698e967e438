"""What `fastbm doctor` says of a machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastbm.cli import main
from fastbm.report import doctor


def test_every_line_fits_and_names_what_was_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.lstrip().startswith("-> ") for line in lines) == sum(not line.startswith(" ") for line in lines)
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert [name for name in names if name != "BLAS"] == ["processor", "vectors", "threads", "kernels", "disk", "locks"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    found = doctor.examine(tmp_path / "missing")
    assert "cannot be written" in found[-1].found
    assert "--out" in found[-1].advice


@pytest.mark.slow
def test_the_width_of_vectors_changes_no_number(tmp_path: Path) -> None:
    work = """
import hashlib, warnings
import fastbm as bm
from fastbm.kernels.jit import VECTOR_BITS
warnings.simplefilter("ignore")
for model in (bm.models.sherrington_kirkpatrick(70, seed=1), bm.models.edwards_anderson((8, 8), seed=1)):
    for rule in ("gibbs", "metropolis"):
        run = bm.sample(model, rule, n_chains=20, n_sweeps=50, seed=1)
        print(hashlib.sha256(run.states.tobytes() + run.energy.tobytes()).hexdigest())
print(VECTOR_BITS)
"""
    found = []
    for bits in ("256", "512"):
        environment = {**os.environ, "FASTBM_VECTOR_BITS": bits, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", work]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        *numbers, told = done.stdout.split()
        assert told == bits
        found.append(numbers)
    assert found[0] == found[1]
