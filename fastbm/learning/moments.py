"""Moments of a phase, averages of units and of the coupled pairs, and gradients made of them.

Pairs of layered machines are coupled between layers of even and of odd number only, so that units of odd layers may
stand for themselves by their means given their neighbours: the averages are as right as before, and less noisy (Rao and
Blackwell; Gelfand and Smith, J. Am. Stat. Assoc. 85, 398 (1990), doi:10.1080/01621459.1990.10476213).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..inference.result import Inference
from ..machine.couplings import Couplings, Layered, Sparse
from ..machine.machine import BoltzmannMachine
from ..machine.units import Units


@dataclass(frozen=True)
class PhaseMoments:
    """Moments <s_i> and <s_i s_j> of a phase; the pairs are the coupled ones, in the shape of the couplings' arrays.

    `log_z` is the phase's log Z (clamped: averaged over rows) where the phase knows it exactly.
    """

    mean: np.ndarray
    pairs: tuple[np.ndarray, ...]
    log_z: float | None = None


@dataclass(frozen=True)
class Parameters:
    """Couplings in the shape of their arrays, and biases; or a gradient with respect to them."""

    weights: tuple[np.ndarray, ...]
    bias: np.ndarray

    @classmethod
    def of(cls, model: BoltzmannMachine) -> Parameters:
        """Return the parameters of a machine."""
        return cls(model.couplings.arrays, model.flat_bias)

    def machine(self, like: BoltzmannMachine) -> BoltzmannMachine:
        """Return the machine that has these parameters, otherwise like `like`, base rates and names included."""
        couplings = like.couplings.with_arrays([np.array(w) for w in self.weights])
        made = like.trusted(couplings, self.bias, like.convention, like.n_hidden, like.offset)
        made.base_rates, made.names = like.base_rates, like.names
        return made

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All arrays, the biases last."""
        return (*self.weights, self.bias)

    @classmethod
    def from_arrays(cls, arrays: tuple[np.ndarray, ...]) -> Parameters:
        """Return the parameters whose `arrays` are given."""
        return cls(tuple(arrays[:-1]), arrays[-1])

    def to_state(self) -> dict[str, np.ndarray]:
        """Return names and arrays for a run's state."""
        weights = {f"parameters/weights/{k}": w for k, w in enumerate(self.weights)}
        return {**weights, "parameters/bias": self.bias}

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray]) -> Parameters:
        """Read the parameters out of a run's state."""
        n = sum(name.startswith("parameters/weights/") for name in state)
        weights = tuple(np.array(state[f"parameters/weights/{k}"]) for k in range(n))
        return cls(weights, np.array(state["parameters/bias"]))


class Centre(Protocol):
    """The protocol of offsets, which centre a gradient."""

    def slope(self, slope: Parameters) -> Parameters:
        """Return the centred gradient."""


def with_prefix(prefix: str, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the state of a part with its names put under `prefix`."""
    return {f"{prefix}/{name}": array for name, array in state.items()}


def without_prefix(prefix: str, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the part of a state whose names are under `prefix`, without it."""
    return {name[len(prefix) + 1 :]: array for name, array in state.items() if name.startswith(prefix + "/")}


def gradient(
    clamped: PhaseMoments,
    free: PhaseMoments,
    beta: float,
    parameters: Parameters,
    l2: float,
    l2_bias: float,
    centring: Centre | None = None,
) -> Parameters:
    """Return dL/dW_ij = beta (<s_i s_j>_clamped - <s_i s_j>_free) - l2 W_ij, and likewise for the biases.

    L is the mean log-likelihood of a row less l2/2 sum_{i<j} W_ij^2. W_ij and W_ji are one parameter. With `centring`
    the gradient is centred (see `fastbm.learning.optimise.centring`).
    Ackley, Hinton and Sejnowski, Cognitive Science 9, 147 (1985), eq. 7, doi:10.1207/s15516709cog0901_7.
    """
    pairs = zip(clamped.pairs, free.pairs, parameters.weights, strict=True)
    slope = Parameters(
        tuple(beta * (c - f) - l2 * w for c, f, w in pairs),
        beta * (clamped.mean - free.mean) - l2_bias * parameters.bias,
    )
    return slope if centring is None else centring.slope(slope)


def hidden_means(model: BoltzmannMachine, visible: np.ndarray, beta: float) -> np.ndarray:
    """Return <h_j> given each row of visible values, for hidden units that are coupled to visible ones only.

    Such machines have one block.

    Computed in the precision of `visible`.
    """
    units = model.convention
    scale = -beta * units.span
    field = visible @ (scale * model.couplings.arrays[0]).astype(visible.dtype)
    field += (scale * model.flat_bias[model.n_visible :]).astype(visible.dtype)
    return means_of(field, units)


def means_of(exponents: np.ndarray, units: Units) -> np.ndarray:
    """Return means of units whose odds to be down are exp(exponents); these are overwritten, and set the precision."""
    # exp is vectorised where tanh is not; these arguments are as good as infinite
    np.exp(np.minimum(exponents, 80.0 if exponents.dtype == np.float32 else 700.0, out=exponents), out=exponents)
    exponents += 1.0
    np.divide(units.span, exponents, out=exponents)
    exponents += units.lo
    return exponents


def from_values(
    couplings: Couplings, values: np.ndarray, log_z: float | None = None, weights: np.ndarray | None = None
) -> PhaseMoments:
    """Average over rows of values or of independent means, (m, n_units), by weight where they have any."""
    if weights is not None:
        shares = weights / weights.sum()
        sums = couplings.pair_sums(np.sqrt(shares)[:, None] * values)
        return without_diagonal(PhaseMoments(shares @ values, sums, log_z))
    pairs = tuple(sums / len(values) for sums in couplings.pair_sums(values))
    return without_diagonal(PhaseMoments(values.mean(axis=0), pairs, log_z))


def from_matrix(
    couplings: Couplings, mean: np.ndarray, second_moment: np.ndarray, log_z: float | None = None
) -> PhaseMoments:
    """Return moments with the coupled pairs of a full matrix of second moments, made symmetric to the last bit."""
    return PhaseMoments(mean, couplings.pick(0.5 * (second_moment + second_moment.T)), log_z)


def from_patterns(couplings: Couplings, found: Inference, shares: np.ndarray) -> PhaseMoments:
    """Return the sum over clamped patterns, by their shares, of exact moments given each."""
    assert found.log_z is not None
    second = found.second_moment
    if isinstance(second, np.ndarray):
        second = np.tensordot(shares, second, axes=1)
    else:  # sparse ones, on the pairs that are learned
        second = sum((w * one for w, one in zip(shares[1:], second[1:], strict=True)), shares[0] * second[0])
    return from_matrix(couplings, shares @ found.mean, second, float(shares @ found.log_z))


def without_diagonal(moments: PhaseMoments) -> PhaseMoments:
    """Set the diagonal of a full matrix to 0, as units are not coupled to themselves."""
    if moments.pairs[0].shape == (len(moments.mean),) * 2:
        np.fill_diagonal(moments.pairs[0], 0.0)
    return moments


def learned_pairs(couplings: Couplings) -> str | np.ndarray:
    """Return the pairs whose couplings are learned, also those that are 0 now, as the "exact" method takes them."""
    return np.asarray(couplings.edges) if isinstance(couplings, Sparse) else "all"


def put_odd_means(model: BoltzmannMachine, values: np.ndarray, beta: float) -> None:
    """Replace the odd layers of values (m, n_units) by their means given the even ones, in the precision of these."""
    couplings, units, dtype = model.couplings, model.convention, values.dtype
    assert isinstance(couplings, Layered)
    scale = -beta * units.span
    most = 80.0 if dtype == np.float32 else 700.0  # as good as infinite
    for k in range(1, len(couplings.layers), 2):
        layer, below = couplings.layers[k], couplings.layers[k - 1]
        argument = values[:, below] @ (scale * couplings.blocks[k - 1]).astype(dtype)
        if k < len(couplings.blocks):
            argument += values[:, couplings.layers[k + 1]] @ (scale * couplings.blocks[k].T).astype(dtype)
        argument += (scale * model.flat_bias[layer]).astype(dtype)
        values[:, layer] = units.lo + units.span / (1.0 + np.exp(np.minimum(argument, most)))
