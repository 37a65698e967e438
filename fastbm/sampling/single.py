"""Chains of single-unit updates at one temperature each."""

from __future__ import annotations

from typing import Any, ClassVar

from .._base.options import options
from .chains import start_chains, threads_between
from .clamped import Conditioned
from .engine.choice import MANY_CHAINS, check_kernel
from .settings import SampleSettings, SingleUnit

WORTH_BLOCKS = 5e-4  # seconds of a run from which on chains are cut into blocks, which are the slower on one thread


@options
class _Chains(SingleUnit):
    many_betas: ClassVar[bool] = True
    lookup_from: ClassVar[int | None] = MANY_CHAINS

    def chains(self, settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> Any:
        """Return independent chains."""
        machine, betas, first = subject.machine, settings.by_chain, settings.first_chain
        bias = machine.flat_bias if subject.bias is None else subject.bias
        parts = (machine.couplings, bias, machine.convention)  # of which a spec may name a kernel that cannot take them
        kernel = check_kernel(self.kernel, *parts, beta=betas, order=self.order, first_chain=first)
        chains = start_chains(
            machine, bias, betas, rule=self.update, order=self.order, kernel=kernel, seed=settings.seed,
            initial=initial, first_chain=first, highest_beta=settings.highest_beta,
            threads=threads_between(machine, len(betas), settings.most_sweeps, threads, WORTH_BLOCKS),
        )  # fmt: skip
        chains.expect(settings.most_sweeps)
        return chains


@options
class Gibbs(_Chains):
    """Chains that draw one unit after the other given all others.

    Parameters
    ----------
    order : {"sequential", "permuted", "random", "coloured"}, optional
        How a sweep visits the units; sequential unless given.

    References
    ----------
    Geman and Geman, IEEE Trans. Pattern Anal. Mach. Intell. 6, 721 (1984), doi:10.1109/TPAMI.1984.4767596.
    """

    name: ClassVar[str] = "gibbs"


@options
class Metropolis(_Chains):
    """Chains that propose to flip one unit after the other.

    Parameters
    ----------
    order : {"sequential", "permuted", "random", "coloured"}, optional
        How a sweep visits the units; random (with replacement) unless given, as other orders may be periodic. In
        random order each chain drops one proposal in 16, so that chains part and no model is periodic.

    References
    ----------
    Metropolis et al., J. Chem. Phys. 21, 1087 (1953), doi:10.1063/1.1699114.
    """

    name: ClassVar[str] = "metropolis"
