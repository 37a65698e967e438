"""Rows of numbers that are copied by loops: numba compiles seconds of text for what may go wrong in `to[:] = row`."""

from .jit import inlined


@inlined
def copy_row(to, row):
    """Write the numbers of a row to another one of the same length. Mutates `to`."""
    for k in range(to.shape[0]):
        to[k] = row[k]
