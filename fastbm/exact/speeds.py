"""How fast this machine does what exact sums are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Speeds:
    """Seconds on one thread.

    Attributes
    ----------
    gray_state : float
        One state of the Gray code, moments included.
    product_term : float
        One multiplication and addition of a large matrix product in float64.
    table_entry : float
        One entry of a table of exponentials, weighed and folded.
    layer_term : float
        One factor of a sum over a layer.
    message_entry : float
        One entry of a message of variable elimination.
    """

    gray_state: float = 1.5e-9
    product_term: float = 3e-11
    table_entry: float = 3e-9
    layer_term: float = 3e-10
    message_entry: float = 4e-9
