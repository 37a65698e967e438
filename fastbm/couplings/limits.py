"""How large a dense matrix may be."""

from __future__ import annotations

DENSE_LIMIT = 16_384  # units: beyond it a dense float64 matrix takes more than 2 GiB


def check_size(n_units: int) -> None:
    """Refuse what would not fit as a dense matrix."""
    if n_units > DENSE_LIMIT:
        gigabytes = 8.0 * n_units**2 / 1e9
        raise ValueError(
            f"{n_units} units are too many: couplings as one dense matrix would take {gigabytes:.3g} GB; the limit is "
            f"{DENSE_LIMIT} units. Couplings given as a scipy.sparse matrix, or as a list of blocks for a layered "
            "machine, are stored as they are and may have more, where what is asked of them needs no dense matrix."
        )
