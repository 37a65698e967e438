"""The doors with the newest versions of other people's packages, in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOORS = ("tests/test_dimod.py", "tests/test_sklearn.py", "tests/runs/test_export.py")
# what tests need beside the extras, without the upper bounds of the extra "test"
NEWEST = ("arviz>=1", "arviz-stats[xarray]", "h5netcdf", "hypothesis", "mpmath", "networkx", "pandas", "pytest")
OWN = (
    "--import-mode=importlib",
    "-o",
    "addopts=",
    "-o",
    "filterwarnings=",
    "-m",
    "not slow and not long and not truth",
)


def newer_python() -> str:
    """Return a Python of 3.12 or later, without which ArviZ 1.x cannot be had."""
    for name in ("python3.13", "python3.12"):
        found = shutil.which(name)  # which may be a shim that leads nowhere
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    pytest.skip("no Python of 3.12 or 3.13 on the path")


@pytest.mark.long
def test_doors_open_with_the_newest_packages(tmp_path: Path) -> None:
    python = sys.executable if sys.version_info >= (3, 12) else newer_python()
    subprocess.run([python, "-m", "venv", tmp_path / "env"], check=True)
    new = str(tmp_path / "env" / "bin" / "python")
    wanted = [f"{ROOT}[all,sklearn,dimod,xarray]", *NEWEST]
    subprocess.run([new, "-m", "pip", "install", "-q", "--upgrade", *wanted], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "compiled")
    subprocess.run([new, "-c", "import arviz; assert int(arviz.__version__.split('.')[0]) >= 1"], check=True)
    done = subprocess.run(
        [new, "-m", "pytest", "-q", *OWN, *DOORS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
