"""Checks of what a machine has beside its couplings and biases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from .._base import checks
from .couplings import Couplings

Names = tuple[Hashable, ...]
_NUMBER = re.compile(r"(?:column_)?([0-9]+)")


def check_bias(bias: Any, couplings: Couplings) -> np.ndarray:
    """Return one bias for each unit; of layers there may be one vector for each."""
    n_units, layered = couplings.n_units, couplings.kind == "layered"
    if bias is None:
        bias = np.zeros(n_units)
    elif layered and isinstance(bias, (list, tuple)) and not (bias and all(np.ndim(b) == 0 for b in bias)):
        bias = _join_layers(bias, couplings.sizes)
    array = checks.finite_array("bias", bias)
    checks.shape("bias", array, (n_units,))
    return array


def _join_layers(bias: Sequence[Any], sizes: tuple[int, ...]) -> np.ndarray:
    layers = [checks.finite_array(f"bias[{k}]", layer) for k, layer in enumerate(bias)]
    shapes = [layer.shape for layer in layers]
    if shapes != [(size,) for size in sizes]:
        raise ValueError(f"bias must have one vector per layer, of lengths {sizes}; got shapes {shapes}.")
    return np.concatenate(layers)


def check_hidden(n_hidden: Any, couplings: Couplings) -> int:
    """Return the number of hidden units; of layers all but the first are hidden."""
    n_hidden = checks.whole("n_hidden", n_hidden)
    if couplings.kind != "layered":
        if n_hidden >= couplings.n_units:
            raise ValueError(f"n_hidden must be below the number of units, {couplings.n_units}; got {n_hidden}.")
        return int(n_hidden)
    derived: int = couplings.n_units - couplings.sizes[0]
    if n_hidden not in (0, derived):
        raise ValueError(
            f"n_hidden of a layered machine is the size of its layers after the first, {derived}; got {n_hidden}."
        )
    return derived


def check_rates(rates: Any, n_visible: int) -> np.ndarray:
    """Return base rates, one for each visible unit, above 0 and below 1."""
    array = checks.finite_array("rates", rates)
    if array.shape != (n_visible,):
        raise ValueError(
            f"rates must have one number for each visible unit, ({n_visible},); got shape {array.shape}. "
            "fastbm.smoothed_rates(rows, model) makes them of rows."
        )
    wrong = np.flatnonzero((array <= 0.0) | (array >= 1.0))
    if wrong.size:
        raise ValueError(
            f"rates must be above 0 and below 1, P(unit up); got {array[wrong[0]]:g} for unit {wrong[0]}, "
            f"{len(wrong)} such units in all. fastbm.smoothed_rates(rates, model) keeps them from 0 and 1."
        )
    return array


def check_names(names: Any, n_visible: int, n_units: int) -> Names:
    """Return names, one for each unit and all different; where visible units alone are named, hidden ones are numbered.

    They are different in files too. Numbers of NumPy become Python's, in tuples too.
    """
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable) or getattr(names, "ndim", 1) == 0:
        raise TypeError(f"names must be a list of names of units; got {names!r} ({type(names).__name__}).")
    found = [_of_python(name) for name in names]
    n_given = len(found)
    if n_given == n_visible < n_units:
        found += [f"hidden {k}" for k in range(n_units - n_visible)]
    if len(found) != n_units:
        either = f"{n_visible} visible or all {n_units}" if n_visible < n_units else f"{n_units}"
        raise ValueError(f"names must name the {either} units; got {len(found)} names.")
    try:
        repeated = [name for name, count in Counter(found).items() if count > 1]
    except TypeError:
        raise TypeError("names must be hashable, such as texts or numbers.") from None
    if repeated:
        _refuse_repeated(repeated[0], found[n_given:])
    kept = [as_kept(name) for name in found]
    if cut := next((name for name in kept if isinstance(name, str) and "\0" in name), None):
        raise ValueError(f"names must not hold a zero character, which files cannot keep; got {cut!r}.")
    if len(set(kept)) < len(kept):
        text = next(name for name, count in Counter(kept).items() if count > 1)
        alike = " and ".join(repr(name) for name in found if as_kept(name) == text)
        raise ValueError(
            "names must be different for every unit in files too, which keep all but whole numbers and tuples of them "
            f"and of texts as texts; {alike} are alike as {text!r}. Pass texts of your own."
        )
    return tuple(found)


def check_columns(argument: str, data: Any, names: Names | None, of: str = "model") -> Any:
    """Return data as they are; refuse a table whose columns have names, and others than those of the units.

    `of` is the argument that the names come from.
    """
    columns = _columns(data)
    if not columns:
        return data
    if names is None:  # units are numbered, and columns may be so in another order
        numbers = range(len(columns))
        names = tuple(numbers) if {*map(str, numbers)} == {*map(str, columns)} else ()
    elif _are_numbered(columns) and not all(isinstance(name, int) for name in names[: len(columns)]):
        return data
    for k, (name, column) in enumerate(zip(names, columns, strict=False)):
        if str(name) != str(_of_python(column)):
            raise ValueError(
                f"{argument} has the columns of other units than {of}: column {k} is {str(column)!r}, and unit {k} of "
                f"{of} {str(name)!r}. Put the columns into the order of the units, or pass {argument}.to_numpy()."
            )
    return data


def columns_of(data: Any) -> list[Hashable] | None:
    """Return the names of a table's columns; None where it is no table, or they are numbered."""
    columns = _columns(data)
    return None if _are_numbered(columns) else columns


def _columns(data: Any) -> list[Hashable]:
    """Return the names of a table's columns; none where it is no table."""
    return _listed(data, "columns", (str, int, tuple)) or _listed(data, "column_names", (str,))


def _listed(data: Any, attribute: str, kinds: tuple[type, ...]) -> list[Hashable]:
    """Return what an attribute lists where all of it is of these kinds; pyarrow's `columns` are the numbers."""
    given = getattr(data, attribute, None)
    found = list(given) if isinstance(given, Iterable) else []
    return found if all(isinstance(name, kinds) for name in found) else []


def _are_numbered(columns: Sequence[Hashable]) -> bool:
    """Return whether columns are numbered one by one: 0, 1, 2, as texts too, or "column_1", "column_2"."""
    found = [_NUMBER.fullmatch(str(name)) for name in columns]
    numbers = [int(one[1]) for one in found if one]
    return len(numbers) == len(columns) and all(after == before + 1 for before, after in pairwise(numbers))


def _refuse_repeated(name: Hashable, numbered: Sequence[Hashable]) -> NoReturn:
    if name in numbered:
        raise ValueError(
            f"names must be different for every unit; {name!r} is what hidden unit {numbered.index(name)} is called "
            "where visible units alone are named. Take another name, or name the hidden units too."
        )
    raise ValueError(f"names must be different for every unit; {name!r} is there twice or more.")


def _of_python(name: Any) -> Any:
    """Return a name whose numbers are Python's, where they were NumPy's."""
    if type(name) is tuple:
        return tuple(_of_python(part) for part in name)
    return name.item() if isinstance(name, np.generic) else name


def as_kept(name: Hashable) -> Hashable:
    """Return a name as files keep it: texts, whole numbers and tuples of such as they are, others as their text."""
    return name if _is_kept(name) else str(name)


def _is_kept(name: Any) -> bool:
    return all(map(_is_kept, name)) if type(name) is tuple else type(name) in (str, int)
