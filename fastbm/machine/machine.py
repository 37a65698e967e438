r"""The model: a pairwise binary machine, and the conventions that everything else follows.

E(s) = offset - 1/2 s^T W s - b^T s and P(s) = exp(-beta E(s)) / Z, with W symmetric and of zero diagonal (each pair
counted once) and natural logarithms. Units are "spin" (-1, +1) or "binary" (0, 1); P(s_i up) = sigmoid(beta (hi - lo)
field_i) with field = W s + b. Units are ordered visible first, then hidden, layer by layer.

Ackley, Hinton and Sejnowski, Cognitive Science 9, 147 (1985), doi:10.1207/s15516709cog0901_7.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._base import checks
from . import couplings, h5
from .checks import Names, check_bias, check_columns, check_hidden, check_names, check_rates
from .clamping import Clamped, log_sums_over_hidden
from .layout import Layout
from .units import Units, units as convention

FORMAT = "fastbm model"


class BoltzmannMachine(Layout):
    """A Boltzmann machine with pairwise couplings.

    Parameters
    ----------
    weights : (n_units, n_units) array, scipy.sparse matrix, or list of blocks
        Symmetric with zero diagonal (a sparse matrix is stored by its edges); or, for a layered machine, one (units of
        layer k, units of layer k + 1) block between each two neighbouring layers, the first layer being visible and
        the others hidden.
    bias : (n_units,) array or list of vectors, optional
        One number per unit, for layered machines also one vector per layer; 0 when left out.
    units : {"spin", "binary"}
        Units are -1 and +1, or 0 and 1.
    n_hidden : int
        How many of the last units are hidden. Follows from the blocks of a layered machine.
    offset : float
        A constant added to every energy.
    names : sequence of hashable, optional
        Names of all units or of the visible ones, each once; in pictures, warnings and files too (see `with_names`).

    Attributes
    ----------
    origin : dict
        For machines from `fastbm.models`: the name and arguments they were made with; files keep it.
    base_rates : (n_visible,) float64 array or None
        P(unit up) of the visible units in the data that the machine learned from, kept from 0 and 1; read-only. Where
        annealing may start; no part of the distribution. `fit` sets it, `with_base_rates` changes it. As probabilities
        they are the same in both conventions, so `to_units` keeps them; `condition` drops them.

    Raises
    ------
    ValueError, TypeError
        If weights are not symmetric, have a diagonal, or anything is not finite or has the wrong shape.

    Examples
    --------
    >>> import fastbm as bm
    >>> model = bm.BoltzmannMachine([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.0], units="spin")
    >>> model.energy([[1, 1], [1, -1]])
    array([-1.5,  0.5])
    """

    base_rates: np.ndarray | None = None
    names: Names | None = None

    def __init__(
        self, weights: Any, bias: Any = None, *, units: str = "spin", n_hidden: int = 0, offset: float = 0.0,
        names: Iterable[Hashable] | None = None,
    ) -> None:  # fmt: skip
        self.couplings = couplings.check(weights)
        self.convention: Units = convention(units)
        self._bias = check_bias(bias, self.couplings)
        self.offset = checks.real("offset", offset)
        self._check_magnitude()
        self.n_hidden = check_hidden(n_hidden, self.couplings)
        self.origin: dict[str, Any] = {}
        if names is not None:
            self.names = check_names(names, self.n_visible, self.n_units)

    @classmethod
    def trusted(
        cls, kind: couplings.Couplings, bias: np.ndarray, units: Units, n_hidden: int, offset: float
    ) -> BoltzmannMachine:
        """Make a machine of parts that are known to be right; `bias` is flat."""
        model = cls.__new__(cls)
        model.couplings, model.convention, model.n_hidden, model.offset = kind, units, n_hidden, float(offset)
        model._bias = np.array(bias, np.float64)
        model._bias.setflags(write=False)
        model.origin = {}
        return model

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes of a machine that is copied or unpickled; its arrays are read-only again."""
        vars(self).update(state)
        for array in (self._bias, self.base_rates):
            if array is not None:
                array.setflags(write=False)

    def _check_magnitude(self) -> None:
        """Energies in either convention must be numbers: they are sums of at most 4 |W| and 2 |b|."""
        with np.errstate(over="ignore"):
            total = 4.0 * self.couplings.absolute_sums().sum() + 2.0 * np.abs(self._bias).sum() + abs(self.offset)
        if not np.isfinite(total):
            largest = max(float(np.abs(array).max(initial=0.0)) for array in (*self.couplings.arrays, self._bias))
            raise ValueError(
                f"weights and bias are so large (up to {largest:.3g}) that energies overflow; rescale them and beta."
            )

    @property
    def units(self) -> str:
        """Kind of units: "spin" or "binary"."""
        return self.convention.name

    @property
    def weights(self) -> Any:
        """Couplings as read-only arrays.

        They are the symmetric matrix (a scipy.sparse.csr_array for a sparse machine), or the list of blocks of a
        layered machine.
        """
        if isinstance(self.couplings, couplings.Sparse):
            return self.couplings.scipy()
        return list(self.couplings.arrays) if self.is_layered else self.couplings.arrays[0]

    @property
    def bias(self) -> Any:
        """One vector, or a list with one vector per layer; read-only arrays."""
        if isinstance(self.couplings, couplings.Layered):
            return [self._bias[layer] for layer in self.couplings.layers]
        return self._bias

    @property
    def flat_bias(self) -> np.ndarray:
        """One (n_units,) vector, whatever the layout."""
        return self._bias

    @cached_property
    def fingerprint(self) -> str:
        """A hash of couplings, biases, offset and units, by which a result knows the machine that it is of."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(f"{self.couplings.kind} {self.units} {self.n_units} {self.offset!r}".encode())
        edges = [self.couplings.edges] if isinstance(self.couplings, couplings.Sparse) else []
        for array in (*self.couplings.arrays, self._bias, *edges):
            digest.update(repr(array.shape).encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        sizes = " x ".join(map(str, self.couplings.sizes)) if self.is_layered else str(self.n_units)
        hidden = f", {self.n_hidden} hidden" if self.n_hidden else ""
        if isinstance(self.couplings, couplings.Sparse):
            hidden += f", {self.couplings.n_edges} couplings"
        return f"<BoltzmannMachine: {sizes} {self.units} units{hidden}>"

    def check_states(self, states: Any, *, argument: str = "states", n_units: int | None = None) -> np.ndarray:
        """Return the bits (uint8) of states in this machine's units; the last axis must be `n_units` long."""
        n_units = self.n_units if n_units is None else n_units
        array = checks.any_array(argument, check_columns(argument, states, self.names))
        if array.ndim < 1 or array.shape[-1] != n_units:
            raise ValueError(f"{argument} must have a last axis of {n_units} units; got shape {array.shape}.")
        return self.convention.bits(argument, array)

    def energy(self, states: Any) -> Any:
        """Return E(s) = offset - 1/2 s^T W s - b^T s of one state or of many.

        Parameters
        ----------
        states : (..., n_units) array
            In the machine's units.

        Returns
        -------
        float or (...) array

        Raises
        ------
        ValueError
            If a value is not one of the machine's two, or the last axis is not `n_units` long.
        """
        up = self.check_states(states)
        return self.energy_of_bits(up).reshape(up.shape[:-1])[()]

    def energy_of_bits(self, up: np.ndarray) -> np.ndarray:
        """Return the energies of states that are known to be bits, (..., n_units), in one axis."""
        return self._by_rows(up, self.energy_of_values)

    def energy_of_values(self, values: np.ndarray) -> np.ndarray:
        """Return the energies of states that are known to be in this machine's units, (m, n_units) float64."""
        return np.asarray(self.offset - ((0.5 * self.couplings.field(values) + self._bias) * values).sum(axis=1))

    def _by_rows(self, up: np.ndarray, function: Callable[[np.ndarray], np.ndarray], *width: int) -> np.ndarray:
        """Return `function` of the values of all states, a block of states at a time, so that memory stays bounded."""
        flat = up.reshape(int(np.prod(up.shape[:-1])), self.n_units)
        found = np.empty((len(flat), *width))
        for rows in couplings.row_blocks(len(flat), self.n_units):
            found[rows] = function(self.convention.values(flat[rows], np.float64))
        return found

    def field(self, states: Any) -> np.ndarray:
        """Return the local fields W s + b, an array of the shape of `states`."""
        up = self.check_states(states)
        found = self._by_rows(up, lambda values: self.couplings.field(values) + self._bias, self.n_units)
        return found.reshape(up.shape)

    def energy_delta(self, states: Any, i: Any) -> Any:
        """Return the change of energy when unit `i` flips.

        Parameters
        ----------
        states : (..., n_units) array
        i : int or array of int
            One unit, or several: the result then has a last axis, one entry per unit (each flipped alone).

        Returns
        -------
        float or array
        """
        units = checks.any_array("i", i)
        if units.dtype.kind not in "iu" or (
            units.size and not (-self.n_units <= units.min() <= units.max() < self.n_units)
        ):
            raise ValueError(f"i must be indices of units, from 0 to {self.n_units - 1} (or from the end); got {i!r}.")
        up = self.check_states(states)
        chosen = np.arange(self.n_units)[np.atleast_1d(units)].ravel()
        field = self._by_rows(up, lambda values: self.couplings.field_at(values, chosen), len(chosen))
        field = field.reshape(*up.shape[:-1], len(chosen)) + self._bias[chosen]
        change = np.where(up[..., chosen], 1.0, -1.0) * self.convention.span * field
        return change.reshape((*up.shape[:-1], *units.shape))[()]

    def condition(self, indices: Any, values: Any) -> Any:
        """Return the machine of the other units, given that units `indices` have `values`.

        The clamped units' pull becomes bias, their energy becomes offset: energies of the smaller machine are those of
        the whole.

        Parameters
        ----------
        indices : (k,) int array
        values : (k,) or (n_patterns, k) array
            In the machine's units.

        Returns
        -------
        BoltzmannMachine, or a list of them
            One for each pattern; they share their couplings.

        Raises
        ------
        ValueError
            If a unit is named twice or does not exist, or if no unit is left.
        """
        clamped = Clamped.of(self, indices, values)
        if not clamped.free.size:
            raise ValueError(
                "condition needs at least one unit that is left free; all were clamped. Use energy() instead."
            )
        machines = [clamped.machine(k) for k in range(clamped.n_patterns)]
        return machines if np.ndim(values) == 2 else machines[0]

    def to_units(self, units: str) -> BoltzmannMachine:
        """Return the same distribution, with the same log Z, in the other convention.

        With s = 2 x - 1: W_binary = 4 W, b_binary = 2 b - 2 W 1, offset_binary = offset + b 1 - 1/2 1^T W 1.
        """
        target = convention(units)
        if target == self.convention:
            return self
        pull = self.couplings.field(np.ones((1, self.n_units)))[0]
        if target.name == "binary":
            factor, bias = 4.0, 2.0 * self._bias - 2.0 * pull
            offset = self.offset + self._bias.sum() - 0.5 * pull.sum()
        else:
            factor, bias = 0.25, 0.5 * self._bias + 0.25 * pull
            offset = self.offset - 0.5 * self._bias.sum() - 0.125 * pull.sum()
        made = self.trusted(self.couplings.scaled(factor), bias, target, self.n_hidden, offset)
        made.base_rates, made.names, made.origin = self.base_rates, self.names, dict(self.origin)
        return made

    def with_base_rates(self, rates: Any) -> BoltzmannMachine:
        """Return the same machine with other base rates of its visible units.

        Parameters
        ----------
        rates : (n_visible,) array or None
            P(unit up), whatever the units, each above 0 and below 1; `fastbm.smoothed_rates` makes them of rows or
            moments. None drops those there are.

        Raises
        ------
        ValueError, TypeError
            If they have another shape, or are not above 0 and below 1.
        """
        made = copy.copy(self)
        made.origin = dict(self.origin)
        made.base_rates = None if rates is None else check_rates(rates, self.n_visible)
        return made

    def with_names(self, names: Iterable[Hashable] | None) -> BoltzmannMachine:
        """Return the same machine with other names of its units.

        Parameters
        ----------
        names : sequence of hashable or None
            Of all units, or of the visible ones; None drops those there are. Files keep texts, whole numbers and tuples
            of these as they are, and others as texts.

        Raises
        ------
        ValueError, TypeError
            If there are not as many as units, or two are alike, in files too.
        """
        made = copy.copy(self)
        made.origin = dict(self.origin)
        made.names = None if names is None else check_names(names, self.n_visible, self.n_units)
        return made

    def name_of(self, unit: int) -> str:
        """Return the name of a unit, or its number where units have no names."""
        return str(unit if self.names is None else self.names[unit])

    def free_energy(self, visible: Any, *, beta: float = 1.0) -> Any:
        """Return F(v) = -log sum_h exp(-beta E(v, h)), in nats, so that log p(v) = -F(v) - log Z.

        Parameters
        ----------
        visible : (..., n_visible) array
        beta : float

        Returns
        -------
        float or (...) array

        Raises
        ------
        ValueError
            If hidden units are coupled to one another (their sum has no closed form): use
            ``infer(model, "exact", clamp=(range(n_visible), visible)).log_z``.
        """
        beta = checks.real("beta", beta, least=0.0)
        up = self.check_states(visible, argument="visible", n_units=self.n_visible)
        if not self.n_hidden:
            return beta * self.energy_of_bits(up).reshape(up.shape[:-1])[()]
        rows = self.convention.values(up.reshape(-1, self.n_visible), np.float64)
        if self.layout == "restricted":
            return -log_sums_over_hidden(self, rows, beta).reshape(up.shape[:-1])[()]
        clamped = Clamped.of(self, np.arange(self.n_visible), rows)
        if any(np.any(array) for array in clamped.couplings.arrays):
            raise ValueError(
                "free_energy needs hidden units that are not coupled to one another. Use "
                'infer(model, "exact", clamp=(range(n_visible), visible)).log_z, which is -F(v).'
            )
        return -clamped.log_sum_independent(beta).reshape(up.shape[:-1])[()]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the parameters, and nothing else, as arrays for a file; `from_arrays` is the way back."""
        found = {f"weights/{k}": array for k, array in enumerate(self.couplings.arrays)}
        if isinstance(self.couplings, couplings.Sparse):
            found["edges"] = self.couplings.edges
        return {**found, "bias": self._bias, "offset": np.array(self.offset)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], *, kind: str, units: str, n_hidden: int) -> BoltzmannMachine:
        """Make a machine of what `to_arrays` gave; `kind` is its `couplings.kind`."""
        stored = [arrays[f"weights/{k}"] for k in range(sum(name.startswith("weights/") for name in arrays))]
        made = couplings.of_arrays(stored, kind, n_units=len(arrays["bias"]), edges=arrays.get("edges"))
        return cls.trusted(made, arrays["bias"], convention(units), n_hidden, float(arrays["offset"]))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the machine to a small HDF5 file that `fastbm.load` reads, names as `with_names` tells.

        Raises
        ------
        StorageError
            If the file exists and `overwrite` is not set.
        """
        h5.write(path, FORMAT, lambda file: h5.put_whole(file, self), overwrite=overwrite)


def check_machine(model: Any, argument: str = "model") -> None:
    """Refuse what is no machine, and say how to come to one."""
    if isinstance(model, BoltzmannMachine):
        return
    way_out = ""
    if any(one.__name__ == "Run" for one in type(model).__mro__):
        way_out = f" Of a run take its machine: {argument}=run.model."
    elif isinstance(model, (str, Path)):
        way_out = " A stored one is read by fastbm.load(path), that of a run is fastbm.open(path).model."
    elif isinstance(model, (list, tuple, np.ndarray)) or hasattr(model, "toarray"):
        way_out = " Make one of couplings: BoltzmannMachine(weights, bias); compare takes several as a dict, by name."
    raise TypeError(f"{argument} must be a BoltzmannMachine; got {type(model).__name__}.{way_out}")
