"""The text of a TOML file, and what is refused before the packages that run it are imported, which takes a second."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..._base import checks
from ..._base.files import reading

OF_CAMPAIGNS = ("grid", "zip", "campaign")  # tables


def read(path: str | Path, changes: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    """Read a file's tables and apply changes of the form ``table.key=value``.

    Raises
    ------
    ValueError
        For text that is not TOML, or a change that is not of the form; the text names the place.
    StorageError
        For a file that is missing, or may not be read.
    """
    if not os.path.isfile(path):
        raise checks.StorageError(f"{path} {checks.no_file(path)}.")
    try:
        with reading(path):
            tables = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    for change in changes:
        name, separator, text = change.partition("=")
        table, dot, key = name.strip().partition(".")
        key = key.strip("\"'")  # as a grid has it, grid."sample.beta"
        if not separator or not dot or not key:
            raise ValueError(f"--set must have the form table.key=value; got {change!r}.")
        if isinstance(tables.setdefault(table, {}), list):
            raise ValueError(f"--set {change}: the file has several tables [[{table}]]. Change them in the file.")
        if isinstance(tables[table], dict):
            tables[table][key] = _value(text.strip())
    return tables


def _value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return found["value"] if len(found) == 1 else text  # lines after the first are no part of a value


def output(tables: Mapping[str, Any], file: Path, out: Path | None) -> str:
    """Return, as it was written, where a run goes: `out`, where the file says, or beside the file under its name."""
    return str(out or _named("store", tables) or file.with_suffix(".h5"))


def _named(name: str, tables: Mapping[str, Any]) -> str | None:
    """Return what a table says of where a run or a campaign goes; None where it is silent, or its check will refuse."""
    table = tables.get(name)
    out = table.get("out") if isinstance(table, dict) else None
    if not isinstance(out, str):
        return None
    checks.place(f"{name}.out", out)
    return out


def is_of_campaign(tables: Mapping[str, Any]) -> bool:
    """Return whether a file describes a campaign and no single run."""
    return any(name in tables for name in OF_CAMPAIGNS)


def output_folder(tables: Mapping[str, Any], file: Path, out: Path | None) -> Path:
    """Return where a campaign goes: `out`, where the file says, or beside the file under its name."""
    return Path(out or _named("campaign", tables) or file.with_suffix(""))


def refuse_existing(file: Path, changes: Iterable[str], out: Path | None, only: str | None = None) -> None:
    """Refuse to run a file whose output is there already, and not to be replaced.

    A file without the table `only` is refused for that, elsewhere.

    Raises
    ------
    StorageError
        Where `fastbm.store` would.
    """
    tables = read(file, changes)
    if is_of_campaign(tables) or only not in (None, *tables):  # which goes on
        return
    path = os.path.expanduser(output(tables, file, out))
    store = tables.get("store", {})
    if isinstance(store, dict) and not store.get("overwrite") and any(map(os.path.exists, (path, f"{path}.parts"))):
        from ...store.creation import runs_there
        from ...store.names import Names

        runs_there(Names(output(tables, file, out)), overwrite=False)
