"""What a machine's couplings say of its layout: which units are hidden, and what is coupled to what."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from .couplings import Couplings, Layered
from .units import Units


class Layout:
    """The part of a machine that says what it is."""

    couplings: Couplings
    convention: Units
    n_hidden: int
    _bias: np.ndarray

    @property
    def layout(self) -> Literal["dense", "sparse", "restricted", "deep", "general"]:
        """What the machine is.

        "dense" and "sparse" without hidden units; "restricted", of two layers, and "deep", of more; "general", whose
        hidden units may be coupled to any.
        """
        if isinstance(self.couplings, Layered):
            return "deep" if len(self.couplings.sizes) > 2 else "restricted"
        if self.n_hidden:
            return "general"
        return "sparse" if self.couplings.kind == "sparse" else "dense"

    @property
    def is_layered(self) -> bool:
        """Whether couplings are blocks between neighbouring layers."""
        return isinstance(self.couplings, Layered)

    @property
    def n_units(self) -> int:
        """Number of units, visible and hidden."""
        return self.couplings.n_units

    @property
    def n_visible(self) -> int:
        """Number of visible units, the first ones."""
        return self.n_units - self.n_hidden

    @property
    def hidden_are_independent(self) -> bool:
        """Whether the layout couples hidden units, if there are any, to visible ones only."""
        return self.n_hidden == 0 or self.layout == "restricted"

    @property
    def has_free_energy(self) -> bool:
        """Whether no two hidden units are coupled, whatever the layout, so that their sum has a closed form."""
        return self.hidden_are_independent or not any(np.any(array) for array in self.hidden().couplings.arrays)

    def hidden(self) -> Self:
        """Return the machine of the hidden units with their couplings, as clamping the visible ones leaves them."""
        hidden = np.arange(self.n_visible, self.n_units)
        return self.trusted(self.couplings.restrict(hidden), self._bias[hidden], self.convention, self.n_hidden, 0.0)

    @classmethod
    def trusted(cls, kind: Couplings, bias: np.ndarray, units: Units, n_hidden: int, offset: float) -> Self:
        """Make a machine of parts that are known to be right; `bias` is flat."""
        raise NotImplementedError
