"""Versions that bits depend on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import metadata

PINNED_PACKAGES = ("fastbm", "numpy", "numba")


@cache
def package_version(name: str) -> str:
    """Return the installed version of a package; fastbm may run from a checkout, others may be absent."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "0+unknown" if name == "fastbm" else "absent"


@cache
def pinned() -> tuple[str, ...]:
    """Return the versions of `PINNED_PACKAGES`."""
    return tuple(map(package_version, PINNED_PACKAGES))


def differences(there: Mapping[str, str], where: str) -> list[str]:
    """Return, in words, which versions are others here than `there`."""
    here = dict(zip(PINNED_PACKAGES, pinned(), strict=True))
    return [f"{name} is {here[name]} here and {other} {where}" for name, other in there.items() if other != here[name]]
