"""Which kernel is taken, which are refused and in what words, and what only the lattice knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.machine.couplings import DENSE_LIMIT
from fastbm.sampling import make_chains
from fastbm.sampling.chains import threads_between
from fastbm.sampling.engine.choice import choose_kernel, why_not
from fastbm.sampling.engine.fixed_point import sparse_integers
from fastbm.sampling.single import WORTH_BLOCKS
from tests.support import machines
from tests.twins import sampling as slow

SPIN_GLASS = bm.models.sherrington_kirkpatrick(40, seed=1)
LATTICE = bm.models.ising((6, 6))
LAYERED = bm.BoltzmannMachine([np.ones((5, 4)), np.ones((4, 3))])


def sparse(weights: np.ndarray, bias: np.ndarray | None = None, units: str = "spin") -> bm.BoltzmannMachine:
    return bm.BoltzmannMachine(scipy.sparse.csr_array(weights + weights.T), bias, units=units)


def star(n_arms: int, couplings: float = 1.0) -> bm.BoltzmannMachine:
    weights = np.zeros((n_arms + 1, n_arms + 1))
    weights[0, 1:] = couplings
    return sparse(weights)


def chosen(model: bm.BoltzmannMachine, n_chains: int = 64, order: str = "sequential", **options: Any) -> str:
    beta = np.broadcast_to(options.pop("beta", 1.0), n_chains)
    return choose_kernel(model.couplings, model.flat_bias, model.convention, beta=beta, order=order, **options)


# Choice


@pytest.mark.parametrize("order", ["sequential", "permuted", "random", "coloured"])
def test_layers_are_drawn_at_once_where_the_order_allows_it(order: str) -> None:
    by_layers = order in ("sequential", "coloured")
    assert (chosen(LAYERED, order=order) == "layered") == by_layers
    assert (chosen(LAYERED, 1024, order=order) == "layered") == by_layers


def test_dense_couplings_take_the_dense_kernel_and_lattices_the_sparse_one() -> None:
    assert chosen(bm.models.sherrington_kirkpatrick(400, seed=1)) == "dense"
    assert chosen(LATTICE) == "sparse"
    assert chosen(LATTICE.to_units("binary")) == "sparse"
    assert chosen(bm.models.ising((256, 256))) == "sparse"


@pytest.mark.parametrize(
    ("degree", "n_units", "n_chains", "order", "faster"),
    [
        (8, 16, 4, "sequential", "sparse"), (14, 16, 4, "sequential", "dense"), (14, 16, 64, "sequential", "sparse"),
        (32, 64, 8, "sequential", "dense"), (32, 64, 8, "random", "dense"), (32, 64, 64, "sequential", "dense"),
        (16, 256, 1, "sequential", "sparse"), (16, 256, 1, "random", "dense"), (64, 256, 64, "sequential", "dense"),
        (32, 256, 16, "sequential", "dense"), (32, 256, 32, "coloured", "sparse"), (64, 1024, 1, "coloured", "sparse"),
        (32, 512, 64, "random", "sparse"), (128, 1024, 64, "random", "sparse"), (256, 1024, 64, "random", "dense"),
    ],
)  # fmt: skip
def test_units_of_many_neighbours_keep_their_fields(
    degree: int, n_units: int, n_chains: int, order: str, faster: str
) -> None:
    """Which kernel took less time, measured on Gaussian couplings of random regular graphs at beta = 1."""
    away = np.abs(np.subtract.outer(np.arange(n_units), np.arange(n_units)))
    ring = np.minimum(away, n_units - away)
    assert chosen(bm.BoltzmannMachine(((ring > 0) & (ring <= degree // 2)).astype(float)), n_chains, order) == faster


def test_the_choice_does_not_ask_how_couplings_are_stored() -> None:
    stored = bm.BoltzmannMachine(LATTICE.weights.toarray())
    assert stored.couplings.kind == "dense"
    for n_chains in (1, 64, 512):
        assert chosen(stored, n_chains) == chosen(LATTICE, n_chains)


def test_many_replicas_of_one_coupling_go_into_words() -> None:
    assert chosen(LATTICE, 255) == chosen(LATTICE, 192) == chosen(LATTICE, 300) == "sparse"
    assert chosen(LATTICE, 256) == chosen(LATTICE, 1024) == "multispin"
    assert chosen(LATTICE.to_units("binary"), 256) == "multispin"
    assert chosen(bm.models.edwards_anderson((4, 4, 4), seed=1), 256) == "multispin"
    assert chosen(LATTICE, 256, first_chain=64) == "multispin"
    assert chosen(LATTICE, 256, beta=np.repeat([0.1, 0.2], 128)) == "multispin"
    assert chosen(LATTICE, 256, beta=np.tile([0.1, 0.2], 128)) == "sparse"
    assert chosen(SPIN_GLASS, 256) in ("dense", "sparse")


def test_chains_that_keep_their_temperatures_look_up() -> None:
    glass = bm.models.edwards_anderson((6, 6), distribution="gaussian", field=0.1, seed=1)
    for model in (glass, glass.to_units("binary"), bm.BoltzmannMachine(glass.weights.toarray(), glass.bias), LATTICE):
        for n_chains in (9, 64, 100, 512):
            assert chosen(model, n_chains, lookup_from=9) == "lookup"
        assert chosen(model, 8, lookup_from=9) == chosen(model, 64) == "sparse"
        assert chosen(model, 128, beta=np.repeat([0.1, 0.2], 64), lookup_from=9) == "lookup"
        assert chosen(model, 128, beta=np.repeat([0.1, 0.2, 0.3, 0.4] * 2, 16), lookup_from=9) == "sparse"
        with pytest.raises(ValueError, match=r'first_chain = 16: 32 chains .*kernel="lookup" with parts that begin at'):
            chosen(model, 16, first_chain=16, lookup_from=9)
    assert chosen(glass, 36, first_chain=32, lookup_from=9) == chosen(star(6), 64, lookup_from=9) == "lookup"
    assert chosen(star(7), 64, lookup_from=9) == "sparse"
    assert chosen(star(7), 256, lookup_from=9) == "multispin"
    assert chosen(LATTICE, 1024, lookup_from=1024) == "multispin"
    assert chosen(glass, 1024, lookup_from=1024) == chosen(LATTICE, 1000, lookup_from=64) == "lookup"
    assert chosen(glass, 992, lookup_from=1024) == "sparse"
    taken = (("gibbs", 9, "lookup"), ("metropolis", 64, "lookup"), ("gibbs", 8, "sparse"), ("annealing", 64, "sparse"))
    for sampler, n_chains, kernel in taken:
        run = machines.calm(bm.sample, glass, sampler, n_chains=n_chains, n_sweeps=64, beta=0.5)
        assert run.config["sample"]["kernel"] == kernel


@pytest.mark.parametrize(("first", "n_chains"), [(128, 128), (64, 192), (200, 100), (32, 256), (340, 300), (448, 1)])
def test_a_part_of_many_replicas_must_name_its_kernel(first: int, n_chains: int) -> None:
    text = rf'first_chain = {first}: {first + n_chains} chains run together .*these {n_chains} alone .*kernel="sparse"'
    for model in (LATTICE, LATTICE.to_units("binary"), bm.BoltzmannMachine(LATTICE.weights.toarray())):
        with pytest.raises(ValueError, match=text):
            chosen(model, n_chains, first_chain=first)
    if n_chains % 32 or first % 32:
        with pytest.raises(ValueError, match=text):
            bm.sample(LATTICE, n_chains=n_chains, first_chain=first, n_sweeps=1)
    assert bm.sample(LATTICE, n_chains=n_chains, first_chain=first, kernel="sparse", n_sweeps=1).states.shape[0] == 1


def test_parts_that_take_the_kernel_of_the_whole_need_not_name_it() -> None:
    assert chosen(LATTICE, 127, first_chain=128) == chosen(LATTICE, 64) == "sparse"  # fewer than 256 together
    assert chosen(bm.models.ising((6, 6), field=0.1), 128, first_chain=128) == "sparse"
    assert chosen(SPIN_GLASS, 128, first_chain=128) in ("dense", "sparse")
    assert chosen(LATTICE, 128, beta=np.tile([0.1, 0.2], 64), first_chain=128) == "sparse"  # a ladder


def test_halves_with_the_same_kernel_are_the_whole() -> None:
    options: dict[str, Any] = {"n_sweeps": 8, "seed": 3, "beta": 0.3}
    whole = bm.sample(LATTICE, n_chains=256, **options)
    for kernel in ("lookup", "multispin", "sparse"):
        together = whole if kernel == "lookup" else bm.sample(LATTICE, n_chains=256, kernel=kernel, **options)
        halves = [bm.sample(LATTICE, n_chains=128, first_chain=k, kernel=kernel, **options) for k in (0, 128)]
        assert np.array_equal(np.concatenate([half.states[:] for half in halves], axis=1), together.states[:])


def test_the_kernel_chosen_stands_in_the_detail() -> None:
    for n_chains, kernel in ((64, "sparse"), (256, "multispin")):
        chains = make_chains(LATTICE, n_chains)
        assert chains.kernel == chains.detail["kernel"] == kernel


# Refusals


@pytest.mark.parametrize(
    ("model", "options", "text"),
    [
        (SPIN_GLASS, {"kernel": "desne"}, "kernel must be one of .*got 'desne'. Did you mean 'dense'"),
        (SPIN_GLASS, {"kernel": "layered"}, 'kernel="layered" draws layers at once.*got dense couplings. Leave kernel'),
        (LATTICE, {"kernel": "layered"}, "got sparse couplings"),
        (LAYERED, {"kernel": "layered", "order": "random"}, "in sequential or coloured order; got random order"),
        (
            bm.models.ising((DENSE_LIMIT + 1,)),
            {"kernel": "dense"},
            f'kernel="dense" takes at most {DENSE_LIMIT} units; got {DENSE_LIMIT + 1}. Use kernel="sparse"',
        ),
        (SPIN_GLASS, {"kernel": "multispin"}, "couplings of one magnitude.*: couplings have several magnitudes, from "),
        (LATTICE, {"kernel": "multispin", "n_chains": 100}, "words of 64; n_chains is 100"),
        (LATTICE, {"kernel": "multispin", "first_chain": 8}, "words of 64; first_chain is 8"),
        (LATTICE, {"kernel": "multispin", "beta": [0.1, 0.2]}, "every 64 consecutive chains must have one beta"),
        (star(8), {"kernel": "multispin"}, "a unit has 8 neighbours, more than 7.*sparse"),
        (star(4, 2.0), {"kernel": "multispin", "n_chains": 63}, "n_chains is 63"),
        (star(7), {"kernel": "lookup"}, "graphs of at most 6 neighbours.*: a unit has 7 neighbours, more than 6"),
        (LATTICE, {"kernel": "lookup", "first_chain": 48}, "words of 32 chains: .*first_chain is 48"),
        (LATTICE, {"kernel": "lookup", "bias": np.zeros((64, LATTICE.n_units))}, "chains have biases of their own"),
        (bm.models.ising((6,), field=0.5), {"kernel": "multispin"}, r"the machine has biases \(of spins\)"),
        (machines.flat(3), {"kernel": "multispin"}, "the machine has no couplings"),
        (sparse(np.diag([1.0, 1e-30], 1)), {"kernel": "multispin"}, "several magnitudes, from 1e-30 to 1"),
        (sparse(np.diag([1.0, 2.5], 1)), {"kernel": "multispin"}, "several magnitudes, from 1 to 2.5"),
        (sparse(np.diag([1.0], 1), units="binary"), {"kernel": "multispin"}, "biases"),
    ],
)
def test_kernels_that_cannot_take_the_machine(model: bm.BoltzmannMachine, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_chains(model, **{"n_chains": 64, **options})


@pytest.mark.parametrize(("largest", "why"), [(4.0, ""), (5.0, "a unit has 8 neighbours, more than 7")])
def test_multiples_of_one_coupling_count_as_several_neighbours(largest: float, why: str) -> None:
    weights = np.zeros((4, 4))
    weights[0, 1:] = 1.0, -2.0, largest
    model = sparse(weights)
    assert why_not("multispin", model.couplings, model.flat_bias, model.convention, np.ones(64), 0) == why


# Thresholds of words


@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
@pytest.mark.parametrize("units", machines.UNITS)
def test_thresholds_are_probabilities_to_the_last_bit_of_a_float(rule: str, units: str) -> None:
    model, betas = bm.models.ising((4, 4, 4), coupling=0.3).to_units(units), np.array([0.0, 0.2, 1.0, 1e6])
    chains = make_chains(model, 256, kernel="multispin", rule=rule, order="random", beta=betas)
    chains._prepare()
    _, even, _, odd = chains._tables[0]
    for w, beta in enumerate(np.repeat(betas, 2)):
        for pull in range(8):
            number = int((odd if pull % 2 else even)[16 * (pull // 2) + w])
            p = slow.against(float(beta), 0.3 * pull, rule)
            assert abs(number / 2**64 - p) <= 4e-16 * p * (1 + 2 * float(beta) * 0.3 * pull) + 2.0**-63


def test_a_word_is_not_given_several_temperatures() -> None:
    chains = make_chains(LATTICE, 256, kernel="multispin", beta=0.5)
    with pytest.raises(ValueError, match="every 64 consecutive chains must have one beta"):
        chains.set_beta(np.tile([0.1, 0.2], 128))


# Lattices


@pytest.mark.parametrize("kernel", ["dense", "sparse", "multispin"])
def test_a_periodic_side_of_two_has_both_bonds(kernel: str) -> None:
    """In each of 16,384 independent replicas the pair feels 2 J; 4.5 standard errors: a false alarm in 50,000 seeds."""
    pair, beta = bm.models.ising((2,), coupling=0.4), 0.5
    chains = make_chains(pair, 16_384, kernel=kernel, beta=beta, seed=1)
    chains.sweep(60)
    bits = chains.bits()
    p = slow.against(beta, 0.8, "gibbs")
    assert abs((bits[:, 0] != bits[:, 1]).mean() - p) < 4.5 * np.sqrt(p * (1 - p) / 16_384)


@pytest.mark.parametrize(("side", "beta"), [(8, 0.3), (8, 0.44), (12, 0.43), (16, 0.35), (16, 0.6)])
@pytest.mark.parametrize(
    ("kernel", "rule"),
    [("sparse", "gibbs"), ("sparse", "metropolis"), ("multispin", "gibbs"), ("multispin", "metropolis"),
     ("dense", "gibbs")],
)  # fmt: skip
def test_the_energy_of_a_lattice_is_kaufmans(kernel: str, rule: str, side: int, beta: float) -> None:
    """Errors from 256 independent chains; 4 standard errors in 25 tests: a false alarm in 600 seeds."""
    chains = make_chains(
        bm.models.ising((side, side)), 256, kernel=kernel, rule=rule, beta=beta, seed=2, initial="up", threads=2
    )
    chains.sweep(1000 if abs(beta - 0.44) < 0.02 else 200)
    energies = chains.record(30, 10)["samples/energy"].mean(axis=0)
    h = 1e-4
    exact = -(bm.lattice.kaufman_log_z(side, side, beta + h) - bm.lattice.kaufman_log_z(side, side, beta - h)) / (2 * h)
    assert abs(energies.mean() - exact) < 4 * energies.std(ddof=1) / np.sqrt(len(energies))


@pytest.mark.slow
def test_probabilities_of_1e_minus_8_in_words() -> None:
    """Pairs of spins, 2e10 attempts: 200 go against the other spin; 4.5 standard errors, a false alarm in 1.5e5 seeds.

    A pair is parted by the one attempt that goes against, and joined by one of the next two: two flips.
    """
    n_pairs, n_chains, n_sweeps = 1000, 1024, 10_000
    weights = scipy.sparse.csr_array(np.kron(np.eye(n_pairs), np.triu(np.ones((2, 2)), 1)))
    model, beta = bm.BoltzmannMachine(weights + weights.T), np.log(1e8 - 1) / 2
    chains = make_chains(model, n_chains, kernel="multispin", beta=beta, initial="up", seed=1)
    chains.sweep(n_sweeps)
    expected = 2 * n_pairs * n_chains * n_sweeps * 1e-8
    assert expected > 200
    assert abs(chains.n_flips / 2 - expected) < 4.5 * np.sqrt(expected)


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_probabilities_of_1e_minus_6(kernel: str) -> None:
    """A lone unit is drawn anew at every attempt: 2^27 attempts, 134 ups; 4.5 standard errors, 1.5e5 seeds."""
    model, n_chains = bm.BoltzmannMachine(np.zeros((64, 64)), np.full(64, np.log(1e-6)), units="binary"), 1024
    chains = make_chains(model, n_chains, kernel=kernel, initial=np.zeros(64, int), seed=1)
    chains.sweep(2**27 // (64 * n_chains))
    # each goes up and, but for one in 1e6, down again
    assert abs(chains.n_flips / 2 - 2**27 * 1e-6) < 4.5 * np.sqrt(2**27 * 1e-6)


def test_runs_that_are_soon_over_stay_on_one_thread() -> None:
    model = bm.models.sherrington_kirkpatrick(10, seed=1)
    assert [threads_between(model, 64, n_sweeps, 2, WORTH_BLOCKS) for n_sweeps in (100, 10_000)] == [1, 2]


def test_integers_of_small_machines_are_kept_for_these_couplings_biases_and_temperatures_alone() -> None:
    model = bm.models.sherrington_kirkpatrick(10, seed=1)
    kept = sparse_integers(model.couplings, model.flat_bias, model.convention, 1.0)
    assert sparse_integers(model.couplings, model.flat_bias.copy(), model.convention, 1.0) is kept
    for bias, beta in ((model.flat_bias + 0.5, 1.0), (model.flat_bias, 1e3)):
        found = sparse_integers(model.couplings, bias, model.convention, beta)
        field = 2 * (bias - model.couplings.matrix().sum(axis=0))
        assert found.start.shape == field.shape
        np.testing.assert_allclose(np.ldexp(found.start.astype(float), -found.point.exponent), field, atol=1e-6)
        assert found.point.error <= 1e-4
