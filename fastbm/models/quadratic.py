"""Binary quadratic models of D-Wave's dimod, to machines and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base import checks
from ..machine.couplings import Sparse
from ..machine.machine import BoltzmannMachine, check_machine
from .origin import named

_NEEDED = ("to_numpy_vectors", "vartype", "variables")


def from_bqm(bqm: Any) -> BoltzmannMachine:
    """Return the machine whose energies are those of a binary quadratic model.

    Parameters
    ----------
    bqm : dimod.BinaryQuadraticModel
        Spins or binary variables; the machine's units are of the same kind. Unit i is the i-th of
        ``list(bqm.variables)``, and has its label as its name. Files keep labels that are texts, whole numbers or
        tuples of these as they are, and others as texts.

    Returns
    -------
    BoltzmannMachine
        Sparse couplings: W and b are minus the quadratic and the linear biases, and the offset is the model's, so that
        P(s) = exp(-beta E(s)) / Z at dimod's beta.

    Raises
    ------
    ValueError, TypeError
        For a model without variables, or with biases that are not finite numbers, and for what is no such model.

    Examples
    --------
    >>> import dimod
    >>> import fastbm as bm
    >>> bqm = dimod.BinaryQuadraticModel({"a": 0.5}, {("a", "b"): -1.0}, 2.0, "SPIN")
    >>> float(bm.models.from_bqm(bqm).energy([1, 1])), float(bqm.energy({"a": 1, "b": 1}))
    (1.5, 1.5)
    """
    made = unnamed(bqm)
    labels = list(bqm.variables)
    return made if labels == list(range(len(labels))) else made.with_names(labels)


def unnamed(bqm: Any) -> BoltzmannMachine:
    """Return the machine of a binary quadratic model, whatever its labels are."""
    check_bqm(bqm)
    if not len(bqm.variables):
        raise ValueError("bqm must have at least one variable; got a model without any.")
    linear, (i, j, quadratic), offset = bqm.to_numpy_vectors(list(bqm.variables))
    weights = checks.finite_array("quadratic biases of bqm", np.asarray(quadratic, np.float64))
    bias = checks.finite_array("linear biases of bqm", np.asarray(linear, np.float64))
    units = "spin" if bqm.vartype.name == "SPIN" else "binary"
    couplings = Sparse.of_pairs(len(bias), np.asarray(i, np.int64), np.asarray(j, np.int64), -weights)
    made = BoltzmannMachine(couplings, -bias, units=units, offset=float(offset))
    return named(made, "from_bqm", units=units)


def check_bqm(bqm: Any) -> None:
    """Refuse what is no binary quadratic model."""
    for name in _NEEDED:
        if not hasattr(bqm, name):
            raise TypeError(f"bqm must be a dimod.BinaryQuadraticModel; got {type(bqm).__name__} without {name}.")


def to_bqm(model: BoltzmannMachine, labels: Sequence[Any] | None = None) -> Any:
    """Return a machine as a binary quadratic model of dimod, which must be installed.

    Parameters
    ----------
    model : BoltzmannMachine
    labels : sequence of hashable, optional
        The names of the units, each once; the model's own unless given, or 0, 1, ... where it has none.

    Returns
    -------
    dimod.BinaryQuadraticModel
        With the machine's energies; its variables are in the order of the units, visible and hidden ones.

    Raises
    ------
    ValueError
        If there are not as many labels as units, or two are alike.
    ImportError
        If dimod is not installed.
    """
    check_machine(model)
    try:
        import dimod
    except ImportError:
        raise ImportError('to_bqm needs dimod: pip install "fastbm[dimod]"') from None
    own = range(model.n_units) if model.names is None else model.names
    names = list(own if labels is None else labels)
    try:
        n_different = len(set(names))
    except TypeError:
        raise TypeError("labels must be hashable, such as texts or numbers.") from None
    if len(names) != model.n_units or n_different != len(names):
        raise ValueError(
            f"labels must name each of the {model.n_units} units once; got {len(names)}, {n_different} of them "
            "different."
        )
    indptr, indices, values = model.couplings.csr()
    rows = np.repeat(np.arange(model.n_units, dtype=np.int32), np.diff(indptr))
    once = rows < indices
    return dimod.BinaryQuadraticModel.from_numpy_vectors(
        -model.flat_bias,
        (rows[once], indices[once], -values[once]),
        model.offset,
        dimod.SPIN if model.units == "spin" else dimod.BINARY,
        variable_order=names,
    )
