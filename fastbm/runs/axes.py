"""Names of the axes of what runs record, what stands along them, and what the numbers are.

A run's file has them as attributes and dimension scales (`fastbm.store.scales`), so that any program knows them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..sampling.observables import OF_PAIRS
from ..store import Stream

Arrays = dict[str, np.ndarray]
OF_GROUPS: dict[str, tuple[str, ...]] = {
    "samples": ("draw", "chain", "unit_byte"),
    "observables": ("draw", "chain"),
    "clusters": ("draw", "chain"),
    "tempering": ("draw", "chain", "beta"),
    "ladder": ("draw", "chain", "beta", "unit_byte"),
    "annealing": ("sweep", "chain"),
    "population": ("step",),
    "metrics": ("step",),
    "errors": ("look",),
    "likelihood": ("epoch",),
    "energies": ("epoch", "bin"),
    "weights": ("epoch",),
    "results": ("cell",),
    "cells": ("cell",),
}
OWN: dict[str, tuple[str, ...]] = {
    "tempering/attempted": ("draw", "gap"),
    "tempering/accepted": ("draw", "gap"),
    "energies/edges": ("epoch", "edge"),
    "weights/bias": ("epoch", "unit"),
}
MEANING = {  # of streams by their last name: what they are, and their units where they are no pure numbers
    "energy": ("energy", "couplings"),
    "states": ("states, a bit a unit", ""),
    "sweep": ("time", "sweeps"),
    "epoch": ("epochs done before", "epochs"),
    "step": ("epochs done before", "epochs"),
    "beta": ("inverse temperature", "1/couplings"),
    "size": ("mean size of flipped clusters", "units"),
    "attempted": ("swaps tried since the start", ""),
    "accepted": ("swaps made since the start", ""),
    "round_trips": ("round trips of replicas since the start", ""),
    "bias": ("biases of the units", "couplings"),
    "log_z": ("natural logarithm of the normalising constant", "nats"),
    "log_z_error": ("standard error of log_z", "nats"),
    "epoch_seconds": ("time of an epoch", "s"),
    "seconds": ("time of a cell", "s"),
    "pseudo_likelihood": ("log pseudo-likelihood of a row", "nats"),
    "holdout_pseudo_likelihood": ("log pseudo-likelihood of a held-out row", "nats"),
    "log_likelihood": ("log-likelihood of a row", "nats"),
    "holdout_log_likelihood": ("log-likelihood of a held-out row", "nats"),
    "moment_error": ("root mean square difference of the pair moments", ""),
    "gradient": ("size of the gradient", ""),
}
OBSERVED = {  # observables of ours
    "magnetisation": "mean of the spins",
    "overlap": "overlap of chains 2k and 2k + 1",
    "link_overlap": "overlap of the links of chains 2k and 2k + 1",
    "structure_factor": "structure factor of the spins at the smallest wave vector",
    "overlap_structure_factor": "structure factor of overlaps at the smallest wave vector",
}


def meaning(spec: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the attributes that say what a stream holds, and in which units."""
    group, _, last = name.rpartition("/")
    found = MEANING.get(last, ("", ""))
    if group == "observables" or (group == "ladder" and last != "states"):  # which have whatever names
        found = (OBSERVED.get((spec["sample"].get("observables") or {}).get(last) or "", ""), "")
    told = zip(("long_name", "units"), found, strict=True)
    return {key: text for key, text in told if text}


def names_of(spec: Mapping[str, Any], name: str, streams: Mapping[str, Stream]) -> tuple[str, ...]:
    """Return the names of the axes of a stream; those that nothing is known of are named after it.

    An axis never has the name of a stream beside it that lies along others as well.
    """
    group, _, last = name.rpartition("/")
    top, shape = group.partition("/")[0], streams[name].shape
    known = OWN.get(name, OF_GROUPS.get(top, (f"{(group or 'run').replace('/', '_')}_row",)))
    if group == "observables" or (group == "ladder" and last != "states"):
        known = _of_observable(spec["sample"], group, last, shape)
    elif top == "samples" and spec["kind"] == "fit":
        known = ("epoch", *known[1:])
    elif name == "weights/weights" and len(shape) == 2:
        layers = spec["model"]["kind"] == "layered"
        known = ("epoch", *(("visible", "hidden") if layers else ("unit", "other_unit")))
    found = (*known[: 1 + len(shape)], *(f"{last}_{axis}" for axis in range(len(known), 1 + len(shape))))
    of_users = group in ("observables", "ladder")  # where streams have whatever names
    return tuple(f"{dim}.axis" if of_users and f"{group}/{dim}" in streams else dim for dim in found)


def _of_observable(settings: Mapping[str, Any], group: str, name: str, shape: Sequence[int]) -> tuple[str, ...]:
    along = ("beta",) if group == "ladder" else ()
    if settings["observables"].get(name) in OF_PAIRS:
        return ("draw", "pair", *along)
    if tuple(shape[:1]) == (int(settings["n_chains"]),):
        return ("draw", "chain", *along)
    return ("draw", *(f"{name}_{axis}" for axis in range(1, len(shape) - len(along) + 1)), *along)


def coordinates(spec: Mapping[str, Any], names: np.ndarray | None = None) -> Arrays:
    """Return what stands along axes and is no stream: ``GROUP+AXIS+NAME``, of chains, ladders and units with names."""
    found: Arrays = {}
    if spec["kind"] == "sample":
        settings = spec["sample"]
        if len(settings["beta"]) > 1:
            beta = np.repeat(np.asarray(settings["beta"], np.float64), settings["n_chains"] // len(settings["beta"]))
            found |= {f"{group}+chain+beta": beta for group in ("samples", "observables", "clusters")}
        if settings["sampler"] == "tempering":
            found |= {
                f"{group}+beta+beta": np.array(settings["betas"], np.float64) for group in ("tempering", "ladder")
            }
    if names is not None:
        units = [str(name) for name in json.loads(bytes(names).decode(errors="replace"))]
        found |= {f"{group}+unit+unit": np.array(units, object) for group in ("samples", "weights")}
    return found


def described(
    spec: Mapping[str, Any], streams: Mapping[str, Stream], inputs: Mapping[str, np.ndarray]
) -> tuple[dict[str, Stream], Arrays]:
    """Return streams that say what they are, and the coordinates of their axes as inputs of a run."""
    found: dict[str, Stream] = {}
    there = {"samples+unit"}  # whose states are packed, so that no stream lies along it
    for name, stream in streams.items():
        dims = names_of(spec, name, streams)
        there |= {f"{name.rpartition('/')[0]}+{dim}" for dim in dims}
        attrs = dict(stream.attrs) | {"dims": " ".join(dims)} | meaning(spec, name)
        found[name] = replace(stream, attrs=attrs)
    along = {
        name: array
        for name, array in coordinates(spec, inputs.get("model/names")).items()
        if name.rpartition("+")[0] in there
    }
    return found, {f"axes/{name}": array for name, array in along.items()}
