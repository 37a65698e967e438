"""Pictures as PNG files: written whole or not at all, and never over a file that is no picture of fastbm."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure

from ..._base.files import marked, refuse_foreign, write_whole

SOFTWARE = "fastbm, with Matplotlib"


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure.

    Raises
    ------
    ValueError
        If the name has the ending of another kind of picture.
    StorageError
        If there is a file that is no picture of fastbm, or the disk refuses.
    """
    kind = path.suffix[1:].lower()
    if kind != "png" and kind in figure.canvas.get_supported_filetypes():
        raise ValueError(f"pictures are PNG; got {path.name!r}. Name it {path.with_suffix('.png').name!r}.")
    target = refuse_foreign(path, "picture", marked(b"Software\0" + SOFTWARE.encode()))
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=150, format="png", metadata={"Software": SOFTWARE})
    write_whole(target, buffer.getbuffer())
