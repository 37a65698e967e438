"""Colours and settings that all pictures share."""

from __future__ import annotations

from typing import Any

STYLE: Any = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.0,
    "legend.frameon": False,
}
BLUE, ORANGE, GREY, LIGHT = "#2166ac", "#d6604d", "#777777", "#e4e4e4"
