"""What chains that agree have missed, by bounds on log Z from both sides, and walks from the cold of long runs.

If states s are those of a machine, log Z = <-log P(s) - beta E(s)>, and <-log q(s) - beta E(s)> with any other
distribution q is no less: here that of the tree which the first half of a run's states tells, over the second half.
Mean field bounds log Z, and the part of it in which a unit stands as it seldom does, from below. Where a lower bound is
above the upper one, chains have not been where most of the weight is, whatever R-hat says.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ... import diagnostics
from ..._base.threads import single_threaded_blas
from ...diagnostics.trees import log_tree
from ...machine.machine import BoltzmannMachine
from ...sampling.unseen import AGRESTI_COULL, rarely
from .samples import Samples
from .units import spaced
from .valleys import is_even, is_long, n_swept

MOST_UNITS, MOST_OF_SPARSE = 512, 1024  # of which all pairs, or those that are coupled, are counted
MOST_GROUPS = 8  # of chains, the coldest ones
FEWEST_STATES, MOST_STATES = 64, 2048  # of a group: in either half, and in all
OF_A_CHAIN = 8  # states at least, where there are as many
MOST_REPLICAS = 4096  # of a population, that are looked at
BARS = 5.0
ROUNDING = 1e-9


class Seen(NamedTuple):
    """What was seen of a machine: an upper end of log Z, if that is all there is, and how often units were up.

    `claim` says what `log_z` is; `lowest` (n_states, n_units) are low states as bits.
    """

    claim: str
    log_z: float
    error: float
    lowest: np.ndarray
    p: np.ndarray
    p_error: np.ndarray


def why_missed(run: Samples, together: list[np.ndarray]) -> str:
    """Return how bounds contradict what chains in groups have sampled, as text; empty where they do not.

    Left out are large machines, clamped ones, and draws by exact sums.
    """
    if run._sampler == "exact" or not _is_asked(run):
        return ""
    packed, betas = spaced(run), run.beta
    coldest = sorted(together, key=lambda chains: -float(betas[chains[0]]))[:MOST_GROUPS]
    for chains in coldest:
        beta, chains = float(betas[chains[0]]), chains[:: -(-len(chains) * OF_A_CHAIN // MOST_STATES)]
        if beta == 0.0 or len(packed) // 2 * len(chains) < FEWEST_STATES:
            continue
        every = max(1, min(len(packed) * len(chains) // MOST_STATES, len(packed) // OF_A_CHAIN))
        starts = len(chains) + (int(run.round_trips.sum()) if run._sampler == "tempering" else 0)
        with single_threaded_blas():
            bits = _bits(run, packed[::every, chains])
            reason = _contradiction(run._start, beta, _of_chains(run._start, beta, bits, starts))
            if not reason and is_long(run) and not run._start.is_layered:
                reason = _phase(run, beta, bits)
        if reason:
            return f"{reason} (beta = {beta:g})"
    return ""


def why_population_missed(run: Samples, families: float) -> str:
    """Return how bounds contradict a population of so many independent families at its last temperature."""
    beta = float(run.betas[-1])
    if beta == 0.0 or not run.has_states or not _is_asked(run):
        return ""
    packed = run._peek("samples/states", 1)[-1]
    bits = _bits(run, packed[:: -(-len(packed) // MOST_REPLICAS)])
    p = bits.mean(axis=0)
    p_error = np.hypot(np.sqrt(p * (1.0 - p) / families), rarely(families, AGRESTI_COULL))
    lowest = bits[[np.argmin(run._start.energy_of_bits(bits))]]
    log_z = float(run.read("population/log_z")[-1])
    seen = Seen("its log Z is", log_z, 1.0 / math.sqrt(families), lowest, p, p_error)
    with single_threaded_blas():
        return _contradiction(run._start, beta, seen)


def _is_asked(run: Samples) -> bool:
    most = MOST_OF_SPARSE if run._start.couplings.kind == "sparse" else MOST_UNITS
    return 1 < run._start.n_units <= most and not run.config["sample"].get("n_patterns")


def _bits(run: Samples, packed: np.ndarray) -> np.ndarray:
    """Return packed states (n, ..., n_bytes) as bits; of an even machine every second one as its mirror."""
    bits = np.unpackbits(packed, axis=-1, count=run._start.n_units, bitorder="little")
    if is_even(run):
        bits[1::2] ^= 1  # which is as probable, and counts as seen
    return bits


def _of_chains(model: BoltzmannMachine, beta: float, bits: np.ndarray, n_starts: int) -> Seen:
    """Return what states of chains as bits, (n_samples, n_chains, n_units), say.

    `n_starts` are how often chains began anew: what units seldom do is known as well as that many tell it.
    """
    half, n_chains = len(bits) // 2, bits.shape[1]
    rows, later = bits[:half].reshape(-1, model.n_units), bits[half:]
    energies = model.energy_of_bits(later.reshape(-1, model.n_units)).reshape(later.shape[:2])
    values = -log_tree(rows, later, _coupled(model)) - beta * energies
    lowest = later.reshape(-1, model.n_units)[[np.argmin(energies)]]
    spread = bits.mean(axis=0).std(axis=0, ddof=1) / math.sqrt(n_chains) if n_chains > 1 else np.zeros(model.n_units)
    p_error = np.hypot(spread, rarely(n_starts, AGRESTI_COULL))
    error = float(diagnostics.standard_error(values))
    return Seen("states allow a log Z of at most", float(values.mean()), error, lowest, bits.mean(axis=(0, 1)), p_error)


def _coupled(model: BoltzmannMachine) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the pairs of units that are coupled, (k,) indices each; None where that may be all."""
    if model.couplings.kind != "sparse":
        return None
    indptr, indices, _ = model.couplings.csr()
    rows = np.repeat(np.arange(model.n_units), np.diff(indptr))
    return rows[rows < indices], indices[rows < indices]


def _phase(run: Samples, beta: float, bits: np.ndarray) -> str:
    """Return what walks from low states at low temperature find of another phase than that of the chains, as text."""
    from ...inference.ais.cold import Walks, missed_phase
    from ...inference.result import Inference

    model, units = run._start, run._start.convention
    energies = model.energy_of_bits(bits.reshape(-1, model.n_units)).reshape(bits.shape[:2])
    rows = bits.reshape(-1, model.n_units).astype(np.float64)
    found = Inference(
        run._sampler, energy=float(energies.mean()), energy_variance=float(energies.var()),
        energy_error=float(diagnostics.standard_error(energies)), mean=units.lo + units.span * rows.mean(axis=0),
        mean_error=units.span * rows.std(axis=0) / math.sqrt(bits.shape[1]),
        covariance=units.span**2 * np.cov(rows, rowvar=False), detail={"n_updates": n_swept(run) * model.n_units},
    )  # fmt: skip
    return missed_phase(found, Walks(model, found.detail, beta, seed=0, threads=1))


def _contradiction(model: BoltzmannMachine, beta: float, seen: Seen) -> str:
    """Return how lower bounds that hold for certain contradict what was seen, as text; empty where they do not."""
    from ...inference.scout.bounds import mean_field_bound, other_sides
    from ...inference.verdict import missed_side

    bound = mean_field_bound(model, beta, seen.lowest, seed=0)
    if bound > seen.log_z + BARS * seen.error + ROUNDING * abs(seen.log_z):
        return (
            f"{seen.claim} {seen.log_z:.6g}, and {bound:.6g} is a bound that holds for certain (mean field): the "
            "run has not been where most of the weight is"
        )
    return missed_side(other_sides(model, beta, seen.p), seen.log_z, seen.error, seen.p, seen.p_error)
