"""The choice of a kernel for couplings and chains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..._base import checks, rng
from ...machine.couplings import DENSE_LIMIT, Couplings, Layered
from ...machine.units import Units
from . import lookup, multispin, words
from .dense import DenseChains
from .engine import Engine
from .lanes import LANES
from .layered import LayeredChains
from .levels import ORDERS as SIDE_BY_SIDE
from .lookup import LookupChains
from .multispin import MultispinChains
from .sparse import SparseChains

KERNELS: Mapping[str, type[Engine]] = {
    "dense": DenseChains,
    "sparse": SparseChains,
    "layered": LayeredChains,
    "lookup": LookupChains,
    "multispin": MultispinChains,
}
FEWEST_LADDERS = 16  # from which a level of ladders pays for a word of 32 chains
BY_LAYERS = ("sequential", "coloured")  # orders in which a layer can be drawn at once
MANY_CHAINS, MANY_REPLICAS = 9, 256  # from which looking up, at fixed temperatures, and multi-spin coding pay
WORTH_COMPILING = 1 << 22  # updates at one temperature, from which on tables of several are worth their kernels
MANY_COOLED = 64  # from which looking up pays where tables are made for every temperature
# neighbours of a unit up to which sums of them take less time than fields that are kept, and more for every unit: of
# chains that are swept one after the other, and more for every 16 lanes
NEIGHBOURS, OF_LANES = (9.0, 0.05), (4.0, 0.009)
MOST_VECTORS, SLOW_UNITS = 4, 4096  # of lanes, beyond which they share no more; units whose fields take twice the time
ALONE, SCATTERED = 0.5, 1.3  # times as many for every unit, where no units are swept side by side; of chains in lanes


def natural_kernel(couplings: Couplings, order: str) -> str:
    """Return the kernel that goes with the way the couplings are stored."""
    if isinstance(couplings, Layered):
        return "layered" if order in BY_LAYERS else "dense"
    return "sparse" if couplings.kind == "sparse" else "dense"


def choose_kernel(
    couplings: Couplings,
    bias: np.ndarray,
    units: Units,
    *,
    beta: np.ndarray,
    order: str,
    first_chain: int = 0,
    lookup_from: int | None = None,
) -> str:
    """Return the kernel that is the fastest for chains with inverse temperatures `beta` (n_chains,).

    "dense" and "sparse" give the same states, the others their own. `lookup_from` chains are worth the tables of
    "lookup", which are made at every change of temperatures; None says that none are.

    Raises
    ------
    ValueError
        If these are part of a larger set of chains, which together may have taken a kernel that these cannot.
    """
    natural = natural_kernel(couplings, order)
    if natural == "layered":
        return natural
    n_all = first_chain + len(beta)
    for kernel, least in _by_words(couplings, lookup_from):
        if n_all < least:
            continue
        if len(beta) >= least and not why_not(kernel, couplings, bias, units, beta, first_chain):
            return kernel
        if first_chain and _may_share_words(kernel, couplings, bias, units, beta):
            raise ValueError(
                f"first_chain = {first_chain}: {n_all} chains run together may take the {kernel} kernel, and these "
                f"{len(beta)} alone would not, with other samples. Name the kernel in all parts of the run: "
                f'kernel="sparse", or kernel="{kernel}" with parts that begin at multiples of {_word(kernel)}.'
            )
    return by_units(couplings, n_all, order)


def by_units(couplings: Couplings, n_chains: int, order: str) -> str:
    """Return which of "dense" and "sparse" is the faster for chains that draw one unit after the other.

    States are the same, and energies but for their rounding.
    """
    n_units, few = couplings.n_units, SparseChains.are_few(n_chains, order)
    vectors = 0 if few else min(-(-n_chains // LANES), MOST_VECTORS)
    most, of_units = (once + vectors * each for once, each in zip(NEIGHBOURS, OF_LANES, strict=True))
    if order not in SIDE_BY_SIDE:
        of_units *= ALONE if few else SCATTERED
    most += of_units * n_units * (1.0 + n_units / SLOW_UNITS)
    return "sparse" if n_units > DENSE_LIMIT or couplings.n_entries < most * n_units else "dense"


def are_worth_tables(n_units: int, n_chains: int, n_sweeps: int) -> bool:
    """Return whether ladders and populations sweep long enough for kernels that take longer to compile."""
    return n_units * n_chains * n_sweeps >= WORTH_COMPILING


def _word(kernel: str) -> int:
    kind = KERNELS[kernel]
    assert issubclass(kind, words.WordChains)
    return kind.word_chains


def _by_words(couplings: Couplings, lookup_from: int | None) -> list[tuple[str, int]]:
    """Return the kernels of chains in words, and the chains from which they pay; first the one that is the faster."""
    if couplings.n_entries > multispin.MOST_NEIGHBOURS * couplings.n_units:
        return []
    found = [("multispin", MANY_REPLICAS)] + ([("lookup", lookup_from)] if lookup_from else [])
    return found[::-1] if lookup_from == MANY_CHAINS else found  # with tables that stay, looking up is the faster


def why_not(
    kernel: str, couplings: Couplings, bias: np.ndarray, units: Units, beta: np.ndarray, first_chain: int
) -> str:
    """Return why a kernel of chains in words cannot take these; empty if it can."""
    try:
        if kernel == "multispin":
            multispin.unit_coupling(couplings, bias, units)
            multispin.check_whole(len(beta))
        else:
            lookup.check_graph(couplings, bias)
        words.check_words(beta, first_chain, _word(kernel))
    except words.Unfit as unfit:
        return str(unfit)
    return ""


def _may_share_words(kernel: str, couplings: Couplings, bias: np.ndarray, units: Units, beta: np.ndarray) -> bool:
    """Return whether the kernel could take these chains of one temperature if there were enough of them."""
    whole = np.full(_word(kernel), beta[0])
    return bool((beta == beta[0]).all()) and not why_not(kernel, couplings, bias, units, whole, 0)


def check_kernel(
    kernel: str,
    couplings: Couplings,
    bias: np.ndarray,
    units: Units,
    *,
    beta: np.ndarray,
    order: str,
    first_chain: int = 0,
) -> str:
    """Return a kernel that was asked for by name.

    Raises
    ------
    ValueError
        If it cannot take the machine; the text says why.
    """
    kernel = checks.choice("kernel", kernel, KERNELS)
    if kernel == "layered" and (not isinstance(couplings, Layered) or order not in BY_LAYERS):
        what = f"{order} order" if isinstance(couplings, Layered) else f"{couplings.kind} couplings"
        raise ValueError(
            f'kernel="layered" draws layers at once, in sequential or coloured order; got {what}. Leave kernel out.'
        )
    if kernel == "dense" and couplings.n_units > DENSE_LIMIT:
        raise ValueError(
            f'kernel="dense" takes at most {DENSE_LIMIT} units; got {couplings.n_units}. Use kernel="sparse".'
        )
    if kernel in _SHARED and (why := why_not(kernel, couplings, bias, units, beta, first_chain)):
        what = f"couplings of one magnitude without biases, at most {multispin.MOST_NEIGHBOURS} neighbours"
        if kernel == "lookup":
            what = f"graphs of at most {lookup.MOST_NEIGHBOURS} neighbours, biases that chains share"
        raise ValueError(
            f'kernel="{kernel}" takes {what}, and words of {_word(kernel)} chains: {why}. Use kernel="sparse", or '
            "leave kernel out."
        )
    return kernel


def looks_up_ladders(couplings: Couplings, bias: np.ndarray, n_ladders: int, first_ladder: int) -> bool:
    """Return whether ladders take the kernel "lookup", with the same temperature in all chains of a word.

    Raises
    ------
    ValueError
        If these are part of a larger set of ladders, which together may have taken it while these cannot.
    """
    if first_ladder + n_ladders < FEWEST_LADDERS or why_no_ladders(couplings, bias, 0):
        return False
    if n_ladders >= FEWEST_LADDERS and not why_no_ladders(couplings, bias, first_ladder):
        return True
    raise ValueError(
        f"first_chain = {first_ladder}: {first_ladder + n_ladders} ladders run together may take the lookup kernel, "
        f"and these {n_ladders} alone would not, with other samples. Name the kernel in all parts of the run: "
        f'kernel="sparse", or kernel="lookup" with first_chain a multiple of {LookupChains.word_chains}.'
    )


def why_no_ladders(couplings: Couplings, bias: np.ndarray, first_ladder: int) -> str:
    """Return why the kernel "lookup" cannot take ladders; empty if it can."""
    try:
        lookup.check_graph(couplings, bias)
    except words.Unfit as unfit:
        return str(unfit)
    size = LookupChains.word_chains
    return "" if first_ladder % size == 0 else f"ladders come in words of {size}; first_chain is {first_ladder}"


def chains_of_state(kernel: str, n_chains: int) -> int:
    """Return how many chains have a state where so many are asked for: those of whole words."""
    return words.whole_words(n_chains, _word(kernel)) if kernel in _SHARED else n_chains


def make_streams(kernel: str, seed: int, n_chains: int, first_chain: int) -> np.ndarray:
    """Return random streams: one for each chain, for every two chains, or for each half word of 32.

    Those of chains that fill up the last word are among them.
    """
    if kernel in _SHARED:
        share, purpose = _SHARED[kernel]
        n_all = chains_of_state(kernel, n_chains)
        return rng.streams(seed, n_all // share, first=first_chain // share, purpose=purpose)
    return rng.streams(seed, n_chains, first=first_chain)


_SHARED = {"multispin": (MultispinChains.stream_chains, rng.WORDS), "lookup": (LookupChains.stream_chains, rng.PAIRS)}
