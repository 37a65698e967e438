"""What a run records: streams of rows, described before the first of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_TEXT_BYTES = 16  # what HDF5 keeps in a dataset for one text of any length


@dataclass(frozen=True)
class Stream:
    """Describe one appendable dataset, before its first row.

    Parameters
    ----------
    dtype : str
        NumPy dtype string such as ``"<f8"``, or ``"str"`` for UTF-8 text of any length.
    shape : tuple of int
        Shape of one row.
    attrs : mapping
        Attributes of the dataset: numbers and texts.
    """

    dtype: str
    shape: tuple[int, ...] = ()
    attrs: Mapping[str, int | float | str] = field(default_factory=dict)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of rows in memory; texts are objects."""
        return np.dtype(object) if self.dtype == "str" else np.dtype(self.dtype)

    @property
    def item_bytes(self) -> int:
        """Bytes that one number or text takes in a dataset."""
        return _TEXT_BYTES if self.dtype == "str" else self.numpy_dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes that one row takes in a dataset."""
        return math.prod(self.shape) * self.item_bytes
