"""Records that stay in their file until they are read: packed states, and the streams of a group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .._base.checks import StorageError
from ..machine.units import Units
from ..store import Memory, Reader


class LazyStates(NDArrayOperatorsMixin):
    """Packed bits in a file, read as an array of unit values, (n_samples, ..., n_units) int8, when it is sliced.

    Slices along samples read only these; all else that an array can do reads the whole.
    """

    dtype = np.dtype(np.int8)

    def __init__(self, reader: Reader | Memory, name: str, units: Units) -> None:
        self._reader, self._name, self._units = reader, name, units
        self._stream = reader.streams[name]
        n_units, width = self._stream.attrs.get("n_units"), self._stream.shape[-1:]
        if not isinstance(n_units, (int, np.integer)) or width != (-(-n_units // 8),):
            raise StorageError(
                f"{reader.path} makes no sense: {name} says that it holds {n_units!r} units, in {width} bytes. "
                "Restore a copy of it, or compute it again."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (n_samples, n_chains, n_units), of ladders with n_betas before the units; it grows while live."""
        return self._reader.n_rows(self._name), *self._stream.shape[:-1], int(self._stream.attrs["n_units"])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def _read(self, start: int, stop: int, step: int = 1) -> np.ndarray:
        packed = self._reader.read(self._name, start, stop, step)
        up = np.unpackbits(packed, axis=-1, count=self.shape[-1], bitorder="little")
        return self._units.values(up)

    def __getitem__(self, key: Any) -> np.ndarray:
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        n_samples = len(self)
        if isinstance(first, (int, np.integer)) and not isinstance(first, bool):
            index = int(first) + (n_samples if first < 0 else 0)
            if not 0 <= index < n_samples:
                raise IndexError(f"sample {first} is out of range: there are {n_samples}")
            return self._read(index, index + 1)[(0, *rest)]
        if isinstance(first, slice):
            start, stop, step = first.indices(n_samples)
            if step > 0:
                return self._read(start, max(start, stop), step)[(slice(None), *rest)]
        return np.asarray(self)[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = self._read(0, len(self))
        return whole if dtype is None else whole.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(x) if isinstance(x, LazyStates) else x for x in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __repr__(self) -> str:
        return f"<states {self.shape} {self.dtype}, read from the file when sliced>"


States = np.ndarray | LazyStates


class Columns(Mapping[str, np.ndarray]):
    """The streams of one group by name, each read when it is asked for."""

    def __init__(self, reader: Reader | Memory, group: str) -> None:
        self._reader, self._group = reader, group

    def _names(self) -> list[str]:
        start = self._group + "/"
        return [name[len(start) :] for name in self._reader.streams if name.startswith(start)]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names():
            raise KeyError(f"the run has no {self._group} {name!r}; it has {', '.join(self._names()) or 'none'}")
        return self._reader.read(f"{self._group}/{name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<{self._group}: {', '.join(self._names()) or 'none'}>"
