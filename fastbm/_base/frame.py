"""Tables as data frames of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


def to_frame(rows: Iterable[Mapping[str, Any]] | Mapping[str, Any], index: str | None = None) -> pandas.DataFrame:
    """Return rows of names and values, or columns by name, as a data frame; `index` names a column that leads it."""
    try:
        import pandas
    except ImportError:
        raise ImportError('to_dataframe needs pandas: pip install "fastbm[xarray]"') from None
    frame = pandas.DataFrame(dict(rows) if isinstance(rows, Mapping) else list(rows))
    return frame if index is None else frame.set_index(index)
