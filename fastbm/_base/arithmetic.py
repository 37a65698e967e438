"""What decides the last bits of matrix products and of NumPy's functions, beside their versions."""

from __future__ import annotations

import numpy as np

from .threads import blas_libraries

_ABOUT = ("internal_api", "version", "architecture")


def arithmetic() -> str:
    """Return the libraries of linear algebra, with the processor that they compute for, and NumPy's instructions.

    ``"openblas 0.3.30 SkylakeX; numpy X86_V3 X86_V4"``
    """
    kinds = (library.info() for library in blas_libraries())
    found = sorted({" ".join(str(kind.get(key)) for key in _ABOUT if kind.get(key)) for kind in kinds})
    extensions = np.show_config(mode="dicts").get("SIMD Extensions", {})
    return f"{', '.join(found)}; numpy {' '.join(extensions.get('found', ()))}"
