"""Chains, or rows of data, side by side in lanes, their bits in words of 32 units."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .. import aligned
from .._vectors import has_look_up
from ..kernels.bit_products import MASKS, add_plainly, add_with_rows
from ..kernels.contrastive import unpack_words
from ..model import BoltzmannMachine
from ..rows import pack

WORD = 32


class Asked(Protocol):
    """What of the settings decides."""

    @property
    def clamped(self) -> str: ...

    @property
    def free(self) -> str: ...

    @property
    def optimizer(self) -> str: ...


def serves(like: BoltzmannMachine, settings: Asked) -> bool:
    """Whether these steps are the ones that settings ask for."""
    return (
        like.is_layered
        and len(like.couplings.sizes) == 2
        and like.units == "binary"
        and like.n_hidden == like.couplings.sizes[1]
        and (settings.clamped, settings.optimizer) == ("exact", "sgd")
        and settings.free in ("gibbs", "contrastive", "auto")
    )


class Lanes:
    """Some chains, or rows of a batch: their bits in words, and room for their fields."""

    def __init__(self, n_chains: int, first: int, n_visible: int, n_hidden: int) -> None:
        step = 16 if n_chains <= 64 else 64  # whole tiles of products are as fast as one and a half narrow ones
        lanes = -(-n_chains // step) * step
        self.n_chains, self.first = n_chains, first
        self.visible = aligned.zeros((n_visible // WORD, lanes), np.uint32)
        self.hidden = aligned.zeros((n_hidden // WORD, lanes), np.uint32)
        self.visible_fields = aligned.zeros((n_visible, lanes), np.float32)
        self.hidden_fields = aligned.zeros((n_hidden, lanes), np.float32)
        self.streams = np.ones((4, lanes), np.uint32)


def to_words(up: np.ndarray) -> np.ndarray:
    """Bits (m, n) in words, (m, ceil(n / 32))."""
    return in_words(pack(up))


def in_words(packed: np.ndarray) -> np.ndarray:
    """Bits that are packed into bytes, in words."""
    n_bytes = packed.shape[1]
    if n_bytes % 4:
        packed = np.pad(packed, ((0, 0), (0, -n_bytes % 4)))
    return np.ascontiguousarray(packed).view("<u4")


def add_bits(fields: np.ndarray, weights: np.ndarray, words: np.ndarray) -> None:
    """Add to `fields` (m, lanes) the rows of `weights` (32 n_words, m) whose bits are set; m is a multiple of 4."""
    if has_look_up():
        add_with_rows(fields, weights, words, MASKS)
    else:
        bits = np.empty((WORD * len(words), words.shape[1]), np.float32)
        unpack_words(bits, words)
        add_plainly(fields, weights, bits, 0)
