"""Kernels are compiled before they are needed."""

from __future__ import annotations

import pytest

from fastbm.cli import main


@pytest.mark.slow
def test_every_tiny_run_comes_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["warmup"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["sample", "infer", "fit"]
    assert "Kernels are kept in" in " ".join(lines[3:])
