"""Ready files to run, which come with the package: found by name, so that `fastbm run digits` works anywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._base import checks

_PACKAGE = Path(__file__).parents[2]
FOLDERS = (_PACKAGE / "ready", _PACKAGE.parent / "runs")  # as installed, and in a checkout
PREFIX = "runs/"  # of paths in ready files, as a checkout has them


def files() -> dict[str, Path]:
    """Return all ready files by name."""
    folder = next((folder for folder in FOLDERS if (folder / "digits.toml").is_file()), None)
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find(name: Path) -> Path:
    """Return the path of a file to run: one that is there, else the ready one of that name.

    Raises
    ------
    StorageError
        If there is neither.
    """
    if os.path.isfile(name):
        return name
    known = files()
    ready = str(name).removeprefix(PREFIX).removesuffix(".toml")
    if ready in known:
        return known[ready]
    hint = f" Ready ones, by name: {', '.join(known)}." if known and name.suffix in ("", ".toml") else ""
    raise checks.StorageError(f"{name} {checks.no_file(name)}.{checks.nearest(ready, known)}{hint}")


def beside(tables: Mapping[str, Any], file: Path) -> None:
    """Let machines that lie beside a ready file be read from there where the working folder has none of that name.

    Mutates `tables`.
    """
    if file.parent not in FOLDERS:
        return
    models = tables.get("model", [])
    for model in models if isinstance(models, list) else [models]:
        path = model.get("path") if isinstance(model, dict) else None
        if isinstance(path, str) and path.startswith(PREFIX) and not Path(path).exists():
            model["path"] = str(file.parent / path.removeprefix(PREFIX))


def about(path: Path) -> str:
    """Return the first sentence of the comment that a ready file begins with."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    text = " ".join(lines)
    return text[: end + 1] if (end := text.find(". ")) >= 0 else text


def copy_to(folder: Path) -> list[Path]:
    """Copy all ready files, and what they read, into a folder; return where they are.

    Raises
    ------
    StorageError
        If one of them is there already; nothing is copied then.
    """
    sources = [path for one in list(files().values())[:1] for path in sorted(one.parent.iterdir())]
    sources = [path for path in sources if path.suffix in (".toml", ".txt")]
    places = [folder / path.name for path in sources]
    if there := next((place for place in places if place.exists()), None):
        raise checks.StorageError(f"{there} exists. Nothing was copied. Name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, place in zip(sources, places, strict=True):
            place.write_bytes(source.read_bytes())
    except OSError as error:
        raise checks.StorageError(f"{folder} cannot be written: {error.strerror or error}.") from error
    return places
