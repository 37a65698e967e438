"""Columns of tables: arrays of numbers where all values are, else of objects."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

NOTHING = type(None)
LARGEST = 1 << 63  # whole numbers from here on are no int64
EXACT = 1 << 53  # and those above this not all float64
ERROR = "_error"  # in names of columns


def array_of(values: Sequence[Any]) -> np.ndarray:
    """Return values as an array: of bools, of int64, of float64 with NaN for None, else of objects.

    Whole numbers that would be rounded, as large seeds, are objects.
    """
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.array(values, bool)
    largest = max(abs(value) for value in values if value is not None) if kinds - {NOTHING} == {int} else 0
    if kinds == {int} and largest < LARGEST:
        return np.array(values, np.int64)
    if kinds <= {int, float, NOTHING} and kinds - {NOTHING} and largest <= EXACT:
        return np.array([math.nan if value is None else value for value in values], np.float64)
    found = np.empty(len(values), object)
    found[:] = [hashable(value) for value in values]
    return found


def column_of(name: str, values: Sequence[Any]) -> np.ndarray:
    """Return a named column of rows as an array; errors are numbers also where none of them is known."""
    found = array_of(values)
    floats = numbers(found) if ERROR in name else None
    return found if floats is None else floats


def hashable(value: Any) -> Any:
    """Return lists as tuples, tables as their text, and one NaN of all, by which rows without a value are alike."""
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(map(hashable, value))
    return value if value == value else math.nan


def numbers(values: np.ndarray) -> np.ndarray | None:
    """Return a column as floats, True as 1, None as NaN; None where it holds anything else."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    listed = values.tolist()
    if set(map(type, listed)) <= {bool, int, float, NOTHING}:
        return np.array([math.nan if value is None else value for value in listed], np.float64)
    return None


def label_of(text: str) -> float | str:
    """Return the number that a label writes out, else the label."""
    try:
        return float(text)
    except ValueError:
        return text


def text_of(value: Any) -> str:
    """Return a value of a grid as a short text: shapes as 6x6x6, floats as they are."""
    if isinstance(value, tuple):
        whole = value and all(isinstance(one, int) for one in value)
        return "x".join(map(str, value)) if whole else json.dumps(value)
    return str(value)
