"""Runs as trees of xarray's, with names for every axis; states stay packed until they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.versions import package_version
from .axes import meaning, names_of
from .records import LazyStates

if TYPE_CHECKING:
    import xarray

STATES = {"samples/states": "states", "ladder/states": "ladder_states"}


def to_xarray(run: Any) -> xarray.DataTree:
    """Return the records of a run as a tree, a node for each group of streams; see `Run.to_xarray`."""
    try:
        import xarray
    except ImportError:
        raise ImportError('to_xarray needs xarray: pip install "fastbm[xarray]"') from None
    nodes: dict[str, dict[str, Any]] = {}
    for name in run.streams:
        group, _, last = name.rpartition("/")
        dims = _dims(run, name)
        values = _states(getattr(run, STATES[name]), xarray) if name in STATES else run.read(name)
        nodes.setdefault(group or "run", {})[last] = xarray.Variable(dims, values, meaning(run.config, name))
    found = {}
    for group, variables in nodes.items():
        coords = _coords(run, group, variables)
        left = {name: variable for name, variable in variables.items() if name not in coords}
        found[group] = xarray.Dataset(left, coords)
    tree: xarray.DataTree = xarray.DataTree.from_dict(found)
    facts = {"kind": run.kind, "fastbm_version": run.meta.get("fastbm_version") or package_version("fastbm")}
    tree.attrs.update(facts if run.path is None else facts | {"file": str(run.path)})
    return tree


def _dims(run: Any, name: str) -> tuple[str, ...]:
    """Return names of the axes of a stream; states are unpacked."""
    return tuple("unit" if dim == "unit_byte" else dim for dim in names_of(run.config, name, run.streams))


def _coords(run: Any, group: str, variables: Mapping[str, Any]) -> dict[str, tuple[str, np.ndarray]]:
    """Return what stands along axes: sweeps, temperatures of chains and of ladders, epochs."""
    dims = {dim for variable in variables.values() for dim in variable.dims}
    found: dict[str, tuple[str, np.ndarray]] = {}
    if "draw" in dims and "samples/sweep" in run.streams:
        found["sweep"] = ("draw", run.read("samples/sweep"))
    if group in ("tempering", "ladder"):
        found["beta"] = ("beta", np.asarray(run.betas))
    elif "chain" in dims and run.kind == "sample":
        found["beta"] = ("chain", np.asarray(run.beta))
    if "unit" in dims and (model := getattr(run, "_start", None)) is not None and model.names is not None:
        found["unit"] = ("unit", np.array([str(name) for name in model.names]))
    for name in ("step", "epoch", "beta", "sweep"):
        if name in variables and variables[name].ndim == 1:
            found[name] = (variables[name].dims[0], variables[name].values)
    return found


def _states(states: Any, xarray: Any) -> Any:
    """Return states as an array of xarray's that reads and unpacks what is asked of it."""
    if not isinstance(states, LazyStates):
        return states
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Packed(BackendArray):
        shape = states.shape
        dtype = states.dtype

        def __getitem__(self, key: Any) -> Any:
            return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._get)

        def _get(self, key: tuple[Any, ...]) -> np.ndarray:
            return states[key]

    return indexing.LazilyIndexedArray(Packed())
