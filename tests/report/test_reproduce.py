"""Published figures are found again: three studies with fewer samples in the slow tests, all of them by hand."""

from __future__ import annotations

import pytest

from fastbm import cli
from fastbm.report.reproduce.found import Found, slope
from fastbm.report.reproduce.studies import STUDIES, reproduce
from tests.support import machines

FILES = {
    "mnist-classifier": "mnist.npz", "neurons-pairs": "example15.mat:spikes15", "neurons-entropy": "example50.mat",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "effort"), [("ising-scaling", 0.25), ("inverse-ising", 0.5), ("ais", 0.5)])
def test_studies_with_fewer_samples(name: str, effort: float) -> None:
    check(reproduce(name, effort=effort))


@pytest.mark.long
@pytest.mark.parametrize("name", STUDIES)
def test_studies(name: str) -> None:
    file, _, member = FILES.get(name, "").partition(":")
    check(reproduce(name, data=f"{machines.data_file(file)}{member and ':'}{member}" if file else None))
    assert bool(file) is bool(STUDIES[name].needs)


def check(found: list[Found]) -> None:
    assert len(found) >= 1
    for one in found:
        assert one.holds, one


def test_a_number_holds_within_its_tolerance_and_three_errors() -> None:
    for value, error, at_least, holds in (
        (1.15, 0.02, False, True), (1.17, 0.02, False, False), (0.83, 0.02, False, False), (9.0, 0.02, True, True),
        (0.83, 0.02, True, False),
    ):  # fmt: skip
        assert Found("", value, error, 1.0, 0.1, "", at_least).holds is holds


def test_slopes_are_those_of_weighted_lines() -> None:
    x, y, error = [0.0, 1.0, 3.0], [1.0, 3.0, 7.0], [0.1, 0.2, 0.1]
    assert slope(x, y, error)[0] == pytest.approx(2.0)
    assert slope(x, y, error)[2] == pytest.approx(1.0)
    assert slope(x, y, error)[1] == pytest.approx((225 / (225 * 925 - 325**2)) ** 0.5)  # S / (S S_xx - S_x^2)


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["reproduce"])
    assert "sk-ground-states" in capsys.readouterr().out
    for arguments, code, text in (
        (["ising"], "2", "name must be one of"),
        (["mnist-classifier"], "2", "needs mnist.npz"),
        (["mnist-classifier", "--data", "no.npz"], "2", "no.npz does not exist"),
        (["neurons-pairs"], "2", "needs a recording"),
        (["neurons-pairs", "--data", "no.mat"], "2", "no.mat does not exist"),
        (["neurons-entropy", "--data", "shifter"], "2", "published figures are of example50.mat"),
        (["ais", "--data", "no.npz"], "2", "leave --data out"),
    ):
        with pytest.raises(SystemExit, match=code):
            cli.main(["reproduce", *arguments])
        assert text in capsys.readouterr().err
    for found, code in ((Found("x", 1.0, 0.1, 1.0, 0.1, "somebody"), "0"), (Found("x", 2.0, 0.1, 1.0, 0.1, "s"), "1")):
        monkeypatch.setattr("fastbm.report.reproduce.studies.reproduce", lambda *_, found=found, **__: [found])
        with pytest.raises(SystemExit, match=code):
            cli.main(["reproduce", "ais"])
        assert ("yes" if code == "0" else "NO") in capsys.readouterr().out
