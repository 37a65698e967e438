"""The memory that a run needs, and that is available: a run that would not fit is refused before it begins."""

from __future__ import annotations

import os
from pathlib import Path

from .clamped import Conditioned
from .engine.lanes import lanes_of
from .settings import SampleSettings, SingleUnit
from .times import LOG

# bytes for each unit of a replica: what the kernel holds, beside the packed states in checkpoints and rows
UNIT_BYTES = {"dense": 16.0, "sparse": 2.0, "layered": 12.0, "lookup": 8.0, "multispin": 1.5}
_BLOCKS = {"lookup": 128, "multispin": 512}  # chains that are held together
CLUSTER_BYTES = 3.0
PACKED_COPIES = 6.0
LANE_BYTES = 200.0  # streams, energies, a row of samples
CHOICE_BYTES = 32.0  # for each replica, of temperatures that are compared to choose a kernel
SWEEP_BYTES = 16.0  # for each sweep of a schedule: its temperature, and a copy of a part of them
PART = 0.9  # of what is free may be used
SMALL = 6.4e7  # bytes that are not worth a look at what is free
CGROUP = Path("/sys/fs/cgroup")


def needed_bytes(settings: SampleSettings, subject: Conditioned, n_chains: int) -> float:
    """Estimate how much memory the chains of a run take at their start, the machine's own arrays excluded."""
    n_units, kernel = subject.machine.n_units, settings.own.kernel if isinstance(settings.own, SingleUnit) else ""
    lanes = lanes_of(settings.own.replicas * n_chains)
    each = UNIT_BYTES.get(kernel, CLUSTER_BYTES)
    if kernel in _BLOCKS:
        lanes = -(-lanes // _BLOCKS[kernel]) * _BLOCKS[kernel]
    if subject.bias is not None:  # a bias for each chain, given and as the kernel holds it
        each += 20.0
    return lanes * (n_units * (each + PACKED_COPIES / 8.0) + LANE_BYTES) + _of_couplings(subject, kernel)


def _of_couplings(subject: Conditioned, kernel: str) -> float:
    n_units, couplings = subject.machine.n_units, subject.machine.couplings
    if kernel == "dense":
        return 14.0 * n_units**2 + (8.0 * n_units**2 if couplings.kind == "sparse" else 0.0)
    return 6.0 * sum(array.nbytes for array in couplings.arrays)


def check_many(settings: SampleSettings) -> None:
    """Refuse chains, levels and temperatures of a schedule so many that memory would not hold a few numbers of each.

    It is done before any are made.

    Raises
    ------
    ValueError
    """
    n_betas = getattr(settings.own, "n_betas", None) or 1
    of_levels = f" with n_betas = {n_betas}" if n_betas > 1 else ""
    _refuse_many(f"n_chains = {settings.n_chains}{of_levels}", CHOICE_BYTES * settings.n_chains * n_betas)
    if settings.sampler == "annealing":
        _refuse_many(f"n_sweeps = {settings.n_sweeps}", SWEEP_BYTES * settings.n_sweeps)


def _refuse_many(what: str, needed: float) -> None:
    free = None if needed <= SMALL else available_bytes()
    if free is not None and needed > PART * free:
        raise ValueError(
            f"{what}: to hold so many temperatures takes {needed / 1e9:.3g} GB, whatever the model; "
            f"{PART * free / 1e9:.3g} GB are free. Ask for fewer."
        )


def check_memory(settings: SampleSettings, subject: Conditioned, *, together: int | None = None) -> None:
    """Refuse a run for which memory does not suffice; `together` are computed so many of its chains, all unless given.

    Raises
    ------
    ValueError
        With what is needed and how many chains would fit.
    """
    needed = needed_bytes(settings, subject, together or settings.n_chains)
    free = None if needed <= SMALL else available_bytes()
    if free is None:
        return
    free *= PART
    if needed <= free:
        return
    fixed = needed_bytes(settings, subject, 0)
    fit = int((free - fixed) / max(needed - fixed, 1.0) * settings.n_chains)
    way_out = f"About {fit} chains would fit" if fit > 0 else "Not even one chain would fit"
    replicas = f" ({settings.n_lanes} replicas)" if settings.n_lanes != settings.n_chains else ""
    raise ValueError(
        f"n_chains = {settings.n_chains}{replicas} of {subject.machine.n_units} units need about "
        f"{needed / 1e9:.3g} GB; {free / 1e9:.3g} GB are free. {way_out}; run the others after them, with first_chain."
    )


def check_rows(settings: SampleSettings, subject: Conditioned) -> None:
    """Refuse samples that would not fit into memory, for a run that keeps them there and is done in one call.

    Raises
    ------
    ValueError
    """
    own = settings.own
    observed = own.n_observed(settings.observables) * len(settings.observables)
    row = settings.n_chains * ((1 + own.n_levels) * -(-subject.model.n_units // 8) + 8.0 * (own.replicas + observed))
    needed = settings.n_samples * row
    free = None if needed <= SMALL else available_bytes()
    if free is None or settings.keep == "best" or settings.own.ends or needed <= PART * free:
        return
    even = settings.thin != LOG
    raise ValueError(
        f"{'n_sweeps // thin = ' if even else ''}{settings.n_samples} samples of {settings.n_chains} chains take about "
        f"{needed / 1e9:.3g} GB in memory; {PART * free / 1e9:.3g} GB are free. Pass out=PATH to stream them to a "
        f'file (a campaign: keep = "runs"), or {"raise thin" if even else "lower n_chains"}.'
    )


def available_bytes() -> float | None:
    """Return the bytes of memory that are left, by the machine or the process's control group, whichever has less."""
    found = [value for value in (_of_machine(), _of_group()) if value is not None]
    return min(found) if found else None


def _of_machine() -> float | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return None


def _of_group() -> float | None:
    """Return the memory in bytes that a control group leaves, of version 2 or 1; files it has cached count as free."""
    for limit, used, cached in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ):
        try:
            most, taken = int((CGROUP / limit).read_text()), int((CGROUP / used).read_text())
            lines = dict(line.split() for line in (CGROUP / cached).read_text().splitlines())
        except (OSError, ValueError):
            continue
        return float(most - taken + int(lines.get("inactive_file", lines.get("total_inactive_file", 0))))
    return None
