"""Kernels of elimination against their twins, table by table."""

from __future__ import annotations

import mpmath
import networkx as nx
import numpy as np
import pytest

from fastbm.exact.elimination.order import evaluate
from fastbm.exact.elimination.program import lay_out, neighbours_of
from fastbm.exact.elimination.tables import Tables
from fastbm.kernels.exact import elimination as kernels, elimination_marginals as marginals
from fastbm.kernels.exact.elimination import draw_states, draw_uniforms
from fastbm.kernels.functions import log1p_float64
from tests.support.elimination import GRAPHS, on_graph
from tests.support.machines import UNITS, parameters
from tests.twins import elimination as twin, reference

EVERYTHING = (0, 1 << 62)


def laid_out(name: str, units: str, seed: int = 0) -> tuple[Tables, list[twin.Step]]:
    """A machine eliminated in a random order, here and by its twin; steps are in the program's order."""
    model = on_graph(GRAPHS[name], units, scale=0.7)
    order = np.random.default_rng(seed).permutation(model.n_units).tolist()
    made = evaluate("any", order, neighbours_of(model))
    assert made is not None
    tables = Tables.of(model, 0.8, lay_out(made))
    by_step = tables.program.cliques[tables.program.steps[:, kernels.START]].tolist()
    return tables, twin.eliminate(*parameters(model), units, 0.8, by_step)


def as_array(table: dict, width: int) -> np.ndarray:
    """A twin's table in the order of a message: bit b for unit b of the scope."""
    return np.array([table[tuple(y >> b & 1 for b in range(width))] for y in range(2**width)])


def family(program, k: int) -> list[int]:
    """All steps below step k."""
    found, child = [], program.steps[k, kernels.CHILD]
    while child >= 0:
        found += [int(child), *family(program, child)]
        child = program.steps[child, kernels.SIBLING]
    return found


def scope_of(program, k: int) -> slice:
    """Where the units of a step's scope stand among those of all cliques."""
    start, width = program.steps[k, [kernels.START, kernels.WIDTH]].tolist()
    return slice(start + 1, start + 1 + width)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("name", GRAPHS)
def test_messages_chances_and_energies(name, units):
    tables, steps = laid_out(name, units)
    program = tables.program
    held, chances, shifts = np.empty((3, program.n_held)), np.empty(program.n_chances), np.zeros((3, program.n_steps))
    run = (held, chances, shifts, program.steps, program.places, tables.values, 0.8 * tables.scale)
    for k, step in enumerate(steps):
        kernels.eliminate(*run, (k, k + 1, *EVERYTHING))
        width, at = program.steps[k, kernels.WIDTH], program.steps[k, kernels.MESSAGE]
        assert len(step.scope) == width
        below = shifts[:, family(program, k)].sum(axis=1)
        message, mean, variance = held[:, at : at + 2**width]
        assert message + below[0] == pytest.approx(as_array(step.message, width), rel=1e-13, abs=1e-14)
        assert tables.scale * (mean + below[1]) == pytest.approx(as_array(step.mean, width), rel=1e-12, abs=1e-13)
        assert tables.scale**2 * variance == pytest.approx(as_array(step.variance, width), rel=1e-12, abs=1e-15)
        assert shifts[:, k].tolist() == held[:, at].tolist()
        own = chances[program.steps[k, kernels.CHANCE] :][: 2**width]
        assert own == pytest.approx(as_array(step.chance, width), rel=1e-13)
    alone, none = np.empty((1, program.n_held)), np.empty(0)
    other = np.zeros_like(shifts)
    kernels.eliminate(alone, none, other, *run[3:], (0, program.n_steps, *EVERYTHING))
    assert other[0].tolist() == shifts[0].tolist() and not other[1:].any()


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("name", GRAPHS)
def test_marginals(name, units):
    tables, _ = laid_out(name, units)
    program = tables.program
    weights, bias = parameters(on_graph(GRAPHS[name], units, scale=0.7))
    truth = twin.enumerate_all(weights, bias, units, 0.8)
    held, chances, shifts = np.empty((1, program.n_held)), np.empty(program.n_chances), np.zeros((3, program.n_steps))
    run = (program.steps, program.places)
    kernels.eliminate(held, chances, shifts, *run, tables.values, 0.8 * tables.scale, (0, program.n_steps, *EVERYTHING))
    sums = np.zeros(len(program.places))
    marginals.marginalise(sums, np.full(program.n_held, np.nan), chances, *run, 0, program.n_steps)
    for start, width in program.steps[:, [kernels.START, kernels.WIDTH]]:
        unit = program.cliques[start]
        for b in range(width + 1):
            assert sums[start + b] == pytest.approx(truth.pairs[unit, program.cliques[start + b]], rel=1e-12)


def test_blocks_of_wide_tables_and_ranges():
    model = on_graph(nx.random_regular_graph(9, 18, seed=1), scale=0.3)
    order = evaluate("any", np.random.default_rng(0).permutation(18).tolist(), neighbours_of(model))
    tables = Tables.of(model, 1.0, lay_out(order))
    program, n = tables.program, 18
    assert order.width > kernels.LOW + 2
    truth = twin.enumerate_all(*parameters(model), "spin", 1.0)
    held, chances, shifts = np.empty((1, program.n_held)), np.empty(program.n_chances), np.zeros((3, n))
    run = (held, chances, shifts, program.steps, program.places, tables.values, tables.scale)
    for k in range(n):
        for first in range(0, max(1, int(program.sizes[k]) >> kernels.LOW)):
            kernels.eliminate(*run, (k, k + 1, first << kernels.LOW, (first + 1) << kernels.LOW))
    assert tables.log_z(shifts) == pytest.approx(truth.log_z, rel=1e-14)
    table = np.full(program.n_held, np.nan)
    for k in range(n - 1, -1, -1):
        step = program.steps[k]
        sums = np.zeros(1 + step[kernels.WIDTH])
        if step[kernels.WIDTH] == 0:
            table[step[kernels.MESSAGE]] = 1.0
        size = int(program.sizes[k])
        for first in range(0, size, 1 << kernels.LOW):
            marginals.fold_up(sums, table, chances, step, first, min(first + (1 << kernels.LOW), size))
        clique = program.cliques[step[kernels.START] :][: len(sums)]
        assert sums == pytest.approx(truth.pairs[clique[0], clique], rel=1e-12)
        child = int(step[kernels.CHILD])
        while child >= 0:
            for block in range(2 ** int((program.places[scope_of(program, child)] > kernels.LOW).sum())):
                part = (k, child, block, block + 1)
                marginals.pass_down(table, chances, program.steps, program.places, part)
            child = int(program.steps[child, kernels.SIBLING])


@pytest.mark.parametrize("name", ["grid", "parts", "one unit"])
def test_draws_are_those_of_the_twin(name):
    tables, steps = laid_out(name, "spin")
    program, n_draws = tables.program, 50
    held, chances, shifts = np.empty((1, program.n_held)), np.empty(program.n_chances), np.zeros((3, program.n_steps))
    run = (program.steps, program.places, tables.values, 0.8 * tables.scale)
    kernels.eliminate(held, chances, shifts, *run, (0, program.n_steps, *EVERYTHING))
    streams = np.random.default_rng(1).integers(1, 2**32, size=(4, 3), dtype=np.uint64).astype(np.uint32)
    words = [reference.xoshiro(streams[:, c].tolist()) for c in range(3)]
    uniforms, up = np.empty((program.n_steps, n_draws * 3)), np.empty((program.n_steps, n_draws * 3), np.uint8)
    draw_uniforms(uniforms, streams, n_draws)
    draw_states(up, uniforms, chances, program.steps, program.cliques, 0, program.n_steps)
    for column in range(n_draws * 3):
        assert up[:, column].tolist() == twin.draw(steps, words[column % 3])


def test_log1p_is_within_its_stated_error():
    generator = np.random.default_rng(0)
    edge = 0.41421356237309503
    small = 10.0 ** -generator.uniform(0, 30, 500)
    xs = [0.0, 1.0, edge, np.nextafter(edge, 1), 1e-300, 1e-17, *generator.random(2000), *small]
    for x in map(float, xs):
        with mpmath.workdps(30):
            exact = mpmath.log1p(mpmath.mpf(x))
        assert abs(log1p_float64(x) - exact) <= 1e-15 * exact, x


def test_one_compilation_each():
    for kernel in (kernels.eliminate, marginals.fold_up, marginals.pass_down, marginals.marginalise, draw_states):
        assert len(kernel.signatures) <= 1
