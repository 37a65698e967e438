"""Colours and settings that all pictures share."""

from __future__ import annotations

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
FAR = 10.0  # times the size that nine in ten stay below: what is larger would flatten all others


def clip(values: np.ndarray) -> tuple[np.ndarray, float, str]:
    """Return values none of which is far larger than most, the largest size among them, and words that say so.

    A parameter that the data leave open runs to infinity, and is drawn at the edge of what the others need.
    """
    sizes = np.abs(values[np.isfinite(values) & (values != 0.0)])
    if not sizes.size:
        return values, 1.0, ""
    near = sizes <= FAR * np.quantile(sizes, 0.9, method="lower")
    limit, n_far = float(sizes[near].max()), int((~near).sum())
    told = f"{n_far} beyond ±{limit:.3g} drawn at the edge" if n_far else ""
    return np.clip(values, -limit, limit), limit, told
