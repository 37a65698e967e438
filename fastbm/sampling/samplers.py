"""The table of samplers, and the settings of a run as its spec holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from .._base import checks
from .annealing import Annealing
from .clusters import SwendsenWang, Wolff
from .exact import Exact
from .population import PopulationAnnealing
from .settings import Sampler, SampleSettings
from .single import Gibbs, Metropolis
from .tempering import Tempering

__all__ = [
    "SAMPLERS",
    "Annealing",
    "Exact",
    "Gibbs",
    "Metropolis",
    "PopulationAnnealing",
    "Sampler",
    "SwendsenWang",
    "Tempering",
    "Wolff",
]

SAMPLERS: dict[str, type[Sampler]] = {
    cls.name: cls for cls in (Gibbs, Metropolis, Tempering, Annealing, PopulationAnnealing, Wolff, SwendsenWang, Exact)
}
OWN = frozenset(name for cls in SAMPLERS.values() for name in cls.names())


def read_settings(spec: Mapping[str, Any]) -> SampleSettings:
    """Read settings that `SampleSettings.as_dict` wrote, and those that older versions did."""
    common = {one.name for one in fields(SampleSettings)}
    if unknown := set(spec) - common - OWN - {"sampler"}:
        raise checks.StorageError(
            f"the run was told {', '.join(sorted(unknown))}, which this version of fastbm does not know. Resume it "
            "with the version that began it."
        )
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in spec.items() if n in common}
    own = _used(spec)
    if spec["sampler"] == "tempering":
        own.setdefault("record", "target")  # as versions did that did not say so
    return SampleSettings(own=SAMPLERS[spec["sampler"]].read(own), **values)


def _used(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that are not empty; older versions wrote one for every option of every sampler."""
    return {name: value for name, value in spec.items() if value not in (None, "", [])}
