"""Results as text, and back, to the last bit."""

from __future__ import annotations

import base64
import json
from dataclasses import fields
from typing import Any

import numpy as np

from .result import Inference, is_sparse
from .subject import Subject

STATES = "lowest states"  # in `detail`, the one array of small numbers
SECONDS = ("seconds", "compile_seconds")
MANY = 1_000  # numbers from which an array is written as its bytes: as text it takes seconds, and three times the room
BYTES = ("float64", "shape")  # such an array: base64 of its bytes, little-endian, in C order
SPARSE = ("data", "indices", "indptr", "shape")  # what a scipy.sparse.csr_array is made of


def to_json(result: Inference) -> str:
    """Return a result as text, without its seconds, which differ from run to run."""
    plain = {f.name: getattr(result, f.name) for f in fields(Inference) if f.name not in SECONDS}
    return json.dumps(plain, default=_plain, sort_keys=True)


def from_json(text: str, seconds: float, compile_seconds: float = 0.0) -> Inference:
    """The way back from `to_json`; arrays come back as arrays, sparse ones as scipy.sparse.csr_array."""
    found = _arrays(json.loads(text))
    for detail in (found["detail"], *found["detail"].get("patterns", [])):
        if STATES in detail:
            detail[STATES] = detail[STATES].astype(np.int8)
    subject = found.pop("subject", None)
    found["subject"] = None if subject is None else Subject(**subject)
    return Inference(**found, seconds=seconds, compile_seconds=compile_seconds)


def _arrays(value: Any) -> Any:
    """Lists of numbers back to arrays, at any depth of dicts."""
    if isinstance(value, dict):
        if sorted(value) == sorted(BYTES):
            return np.frombuffer(base64.b64decode(value["float64"]), "<f8").reshape(value["shape"]).copy()
        found = {name: _arrays(entry) for name, entry in value.items()}
        return _sparse(found) if sorted(value) == sorted(SPARSE) else found
    if isinstance(value, list) and not any(isinstance(entry, (str, dict)) for entry in value):
        return np.asarray(value)
    return [_arrays(entry) for entry in value] if isinstance(value, list) else value


def _sparse(parts: dict[str, Any]) -> Any:
    from scipy.sparse import csr_array

    indices, indptr = (np.asarray(parts[name], np.int32) for name in ("indices", "indptr"))
    return csr_array((np.asarray(parts["data"], np.float64), indices, indptr), shape=tuple(parts["shape"]))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.size >= MANY and value.dtype == np.float64:
            return {"float64": base64.b64encode(value.astype("<f8").tobytes()).decode(), "shape": value.shape}
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Subject):
        return value.as_dict()
    if is_sparse(value):
        return {name: getattr(value, name) for name in SPARSE}
    raise TypeError(f"{type(value).__name__} cannot be stored")
