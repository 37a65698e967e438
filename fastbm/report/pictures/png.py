"""Pictures as PNG files: written whole or not at all, and never over a file that is no picture of fastbm."""

from __future__ import annotations

import io
import os
from pathlib import Path

from matplotlib.figure import Figure

from ..._base.checks import StorageError
from ..._base.files import write_whole

SOFTWARE = "fastbm, with Matplotlib"
_HEAD = 4096  # bytes in which a PNG file says what made it


def write_picture(figure: Figure, path: Path) -> None:
    """Write a figure.

    Raises
    ------
    StorageError
        If there is a file that is no picture of fastbm, or the disk refuses.
    """
    if path.is_dir() or (os.path.lexists(path) and not is_ours(path)):
        raise StorageError(
            f"{path} exists and is no picture of fastbm. Nothing was changed. Move it or write elsewhere."
        )
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=150, format="png", metadata={"Software": SOFTWARE})
    write_whole(path, buffer.getbuffer())


def is_ours(path: Path) -> bool:
    """Whether a file is a picture that was drawn here, or empty."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    return not head or b"Software\0" + SOFTWARE.encode() in head
