"""Large lattices: tori against Kaufman, open ones and cylinders against derivatives of log Z and their symmetries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from fastbm import lattice as known
from fastbm._base import rng
from fastbm.exact.elimination import draws
from tests.support.elimination import SPEEDS, lattice, on_graph, plan
from tests.twins import elimination as twin

pytestmark = pytest.mark.slow


def energy_by_difference(model, beta: float, step: float = 1e-4) -> float:
    """-d log Z / d beta."""
    low, high = (plan(model, beta + d, moments=False).piece(0, 2).log_z for d in (-step, step))
    return (low - high) / (2 * step)


@pytest.mark.parametrize("side", [8, 9, 10])
def test_tori_against_kaufman(side):
    for beta in (0.3, known.CRITICAL_BETA):
        planned = plan(lattice(side, side, wrapped=(True, True)), beta)
        part = planned.piece(0, 2)
        assert part.log_z == pytest.approx(known.kaufman_log_z(side, side, beta), rel=1e-12)
        assert part.pairs == pytest.approx(np.full(2 * side**2, part.pairs.mean()), abs=1e-11)
        assert part.up == pytest.approx(np.full(side**2, 0.5), abs=1e-11)
        slope = [known.kaufman_log_z(side, side, beta + d) for d in (-1e-4, 1e-4)]
        assert part.energy == pytest.approx((slope[0] - slope[1]) / 2e-4, rel=1e-6)


@pytest.mark.parametrize("columns", [11, 12])
@pytest.mark.parametrize("wrapped", [False, True])
def test_wider_lattices_against_transfer_matrices(columns, wrapped):
    model = lattice(20, columns, wrapped=(False, wrapped))
    truth = twin.transfer_log_z(20, columns, 0.44, wrapped=wrapped)
    assert plan(model, 0.44).piece(0, 2).log_z == pytest.approx(truth, rel=1e-12)


def test_open_20_x_20():
    model = lattice(20, 20)
    part = plan(model, 0.44).piece(0, 2)
    assert part.energy == pytest.approx(energy_by_difference(model, 0.44), rel=1e-6)
    whole = np.zeros((400, 400))
    whole[tuple(plan(model).named_pairs.T)] = part.pairs
    whole = (whole + whole.T).reshape(20, 20, 20, 20)
    for turned in (whole[::-1, :, ::-1], whole[:, ::-1, :, ::-1], whole.transpose(1, 0, 3, 2)):
        assert turned == pytest.approx(whole, abs=1e-11)


def test_cylinder_of_20_x_20():
    model = lattice(20, 20, wrapped=(False, True))
    planned = plan(model, 0.44)
    part = planned.piece(0, 2)
    assert part.energy == pytest.approx(energy_by_difference(model, 0.44), rel=1e-6)
    assert part.up == pytest.approx(np.full(400, 0.5), abs=1e-11)
    whole = np.zeros((400, 400))
    whole[tuple(planned.named_pairs.T)] = part.pairs
    whole = (whole + whole.T).reshape(20, 20, 20, 20)
    assert np.roll(whole, 1, axis=(1, 3)) == pytest.approx(whole, abs=1e-11)


def test_glass_in_another_gauge():
    """Flipping units and the signs of their couplings changes no energy."""
    model = on_graph(nx.grid_2d_graph(16, 16), bias=0.3, seed=4)
    signs = 2 * np.random.default_rng(0).integers(0, 2, 256) - 1
    i, j = model.couplings.edges.T
    flipped = type(model)(
        model.couplings.with_arrays([model.couplings.arrays[0] * signs[i] * signs[j]]), model.bias * signs
    )
    part, other = plan(model).piece(0, 2), plan(flipped).piece(0, 2)
    assert part.log_z == pytest.approx(other.log_z, rel=1e-13)
    assert part.energy == pytest.approx(other.energy, rel=1e-12)
    assert part.energy_variance == pytest.approx(other.energy_variance, rel=1e-11)
    assert signs * (2 * part.up - 1) == pytest.approx(2 * other.up - 1, abs=1e-12)


def test_log_z_of_width_25():
    model = lattice(25, 40)
    planned = plan(model, 0.44, threads=2, moments=False)
    assert planned.detail["width"] == 25 and planned.forecast.n_bytes < 4e9


MEASURE = """
import resource, sys
from tests.support.elimination import lattice, plan
rows, columns, wrapped, moments = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True", sys.argv[4] == "True"
planned = plan(lattice(rows, columns, wrapped=(False, wrapped)), 0.44, threads=2, moments=moments)
before = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
planned.piece(0, 2)
grown = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(planned.detail["width"], planned.forecast.n_bytes, grown)
"""


@pytest.mark.parametrize(
    ("rows", "columns", "wrapped", "moments"),
    [(20, 20, False, True), (20, 20, True, True), (22, 22, False, True), (25, 25, False, False)],
)
def test_memory_is_what_was_forecast(rows, columns, wrapped, moments):
    command = [sys.executable, "-c", MEASURE, str(rows), str(columns), str(wrapped), str(moments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    width, forecast, grown = map(float, done.stdout.split())
    assert width >= columns
    assert grown < forecast + 2e8 < 4e9


def test_moments_of_a_million_draws():
    model = on_graph(nx.grid_2d_graph(10, 10), scale=0.7, seed=3)
    part = plan(model).piece(0, 1)
    made = draws.source(model, 1.0, threads=2, max_bytes=4e9, speeds=SPEEDS)
    up = made.draw(rng.streams(0, 1000).T.copy(), 1000, 2).reshape(-1, 100)
    i, j = plan(model).named_pairs.T
    found = np.array([*up.mean(axis=0), *((up[:, a] & up[:, b]).mean() for a, b in zip(i, j, strict=True))])
    truth = np.concatenate([part.up, part.pairs])
    assert (np.abs(found - truth) < 4.5 * np.sqrt(truth * (1 - truth) / len(up)) + 1e-9).all()
