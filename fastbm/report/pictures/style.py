"""Colours and settings that all pictures share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

STYLE: Any = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.0,
    "legend.frameon": False,
}
BLUE, ORANGE, GREY, LIGHT = "#2166ac", "#d6604d", "#777777", "#e4e4e4"
FAR = 10.0  # times the size that most stay below: what is larger would flatten all others
MOST_FAR = 0.1  # of the values may be so far,
FEWEST_FAR = 2  # and of however few as many, where they are
OPEN = 1.0  # beyond this


def clip(values: np.ndarray, n_times: int = 1) -> tuple[np.ndarray, float, str]:
    """Return values none of which is far larger than most, the largest size among them, and words that say so.

    A parameter that the data leave open runs to infinity, and is drawn at the edge of what the others need. Each may
    stand among the values `n_times`.
    """
    sizes = np.sort(np.abs(values[np.isfinite(values) & (values != 0.0)]))
    if not sizes.size:
        return values, 1.0, ""
    most = max(math.ceil(MOST_FAR * (sizes.size - 1)), min(FEWEST_FAR * n_times, int((sizes > OPEN).sum())))
    near = sizes <= FAR * sizes[-1 - min(most, sizes.size - 1)]
    limit, n_far = float(sizes[near].max()), int((~near).sum())
    text = f"{n_far} beyond ±{limit:.3g} drawn at the edge" if n_far else ""
    return np.clip(values, -limit, limit), limit, text
