"""A campaign, as `campaign` and `open` return it: how it stands, its table, the runs of its cells."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from .._base import checks
from .._base.checks import StorageError, nearest
from .._base.files import placed
from .._base.late import public
from .._base.system import keeping
from ..runs.begin import open as open_run
from ..runs.run import Run
from .generations import GRID, LONGER, RETRY, Generation, grid_keys, read_all, value_of
from .leftovers import tidy
from .settled import again, files_of
from .status import Shards, Status, read_rows, status
from .table import Table
from .task import FAILED, length_of, parsed, tables_of, try_out


class Campaign:
    """A campaign in its folder, `path`; what it tells is read when it is asked for, and again after `refresh`.

    Attributes
    ----------
    generations : list of Generation
        What was settled: the first grid, and what was added.
    """

    def __init__(self, path: Path, generations: list[Generation]) -> None:
        self.path, self.generations = path, generations

    def __repr__(self) -> str:
        now = self.status
        return f"<Campaign in {self.path}: {now.done} of {now.n_cells} cells done, {now.failed} failed>"

    def __len__(self) -> int:
        """Return the number of cells."""
        return sum(one.n_cells for one in self.generations if one.why == GRID)

    def refresh(self) -> Campaign:
        """Read what was committed since; return the campaign itself."""
        self.generations = read_all(self.path)
        for name in ("status", "_shards", "_keys", "table"):
            self.__dict__.pop(name, None)
        return self

    @property
    def verb(self) -> str:
        """What a cell is a run of: "sample", "fit", "infer" or "compare"."""
        return self.generations[0].verb

    @property
    def tables(self) -> dict[str, Any]:
        """The tables of the last grid, as written."""
        return [one for one in self.generations if one.why == GRID][-1].tables

    @property
    def keep(self) -> str:
        """What is kept of a cell: "summary" or "runs"."""
        return self.generations[0].keep

    @cached_property
    def status(self) -> Status:
        """How many cells are done, have failed and are left, and what runs."""
        return status(self.path, self.generations)

    @property
    def finished(self) -> bool:
        """Whether all cells are done or have failed."""
        return self.status.finished

    @cached_property
    def _shards(self) -> Shards:
        with keeping:
            return read_rows(self.path, self.generations)

    @cached_property
    def table(self) -> Table:
        """The results: a row for each cell that is done or has failed, in the order of the grid."""
        axes = [one.axes for one in self.generations if one.why == GRID]
        with keeping:
            told = self._told()
            keys = [cell["keys"] | told[cell["at"][0]] for cell in self._shards.cells]
            rows = map(parsed, self._shards.rows)
            return Table.of(keys, rows, axes[0] if len(set(axes)) == 1 else None)

    def _told(self) -> dict[int, dict[str, Any]]:
        """Return what the tables of each grid say of keys that only other grids have."""
        grids = [one for one in self.generations if one.why == GRID]
        keys = dict.fromkeys(key for one in grids for key in grid_keys(one))
        found = {}
        for one in grids:
            said = {key: value_of(one.base, key) for key in keys if key not in set(grid_keys(one))}
            found[one.number] = {key: value for key, value in said.items() if value is not None}
        return found

    @property
    def failed(self) -> dict[str, str]:
        """Why cells have failed, by their ids."""
        found = zip(self._shards.cells, self._shards.rows, self._shards.failed, strict=True)
        return {cell["id"]: parsed(row)[FAILED] for cell, row, failed in found if failed}

    @property
    def unconverged(self) -> list[str]:
        """Ids of the cells that say that they have not converged."""
        found = zip(self._shards.cells, self._shards.rows, self._shards.failed, strict=True)
        return [cell["id"] for cell, row, failed in found if not failed and parsed(row).get("converged") is False]

    @property
    def factors(self) -> dict[str, float]:
        """How much longer than their tables say cells were computed, by their ids."""
        return {name: one.factor for one in self.generations for name in one.ids}

    @property
    def pending(self) -> set[str]:
        """Ids of cells that are to be computed again, and were not yet."""
        last = dict(zip(self.ids, self._shards.generations, strict=True))
        return {name for one in self.generations for name in one.ids if last[name] < one.number}

    @property
    def ids(self) -> list[str]:
        """Ids of the rows of the table."""
        return [cell["id"] for cell in self._shards.cells]

    def keys_of(self, id: str) -> dict[str, Any]:
        """Return a cell's values of the grid."""
        if id not in self._keys:
            raise KeyError(f"no cell that is done has the id {id!r}.{nearest(id, self.ids)}")
        return self._keys[id]

    @cached_property
    def _keys(self) -> dict[str, dict[str, Any]]:
        return {cell["id"]: cell["keys"] for cell in self._shards.cells}

    def run(self, id: str) -> Run:
        """Open the run of a cell, by its id; campaigns that keep summaries have none."""
        if self.keep != "runs":
            raise AttributeError('this campaign was told keep="summary": its cells are rows of its table.')
        return open_run(self.path / "cells" / f"{id}.h5")

    def resume(self, **options: Any) -> Campaign:
        """Go on with what is left, and merge runs of cells that were left in parts; options are those of `campaign`."""
        found: Campaign = public("campaign")(self.tables, out=self.path, **options)
        tidy(self.path, options.get("stop"))
        return found

    def retry(self, **options: Any) -> Campaign:
        """Compute the failed cells again, and all that is left besides; the options are those of `campaign`."""
        self._begin_again(RETRY, list(self.failed), self.factors)
        return self.resume(**options)

    def extend(self, factor: float = 2.0, **options: Any) -> Campaign:
        """Go on, `factor` times as long, with the cells that have not converged; other options as of `campaign`.

        With ``keep="runs"`` their runs go on where they ended, as `extend` does, where a longer run would have begun
        as they did; all others are computed again. Their rows take the place of those before.
        """
        factor = checks.real("factor", factor, least=1.0)
        if factor == 1.0:
            raise ValueError("factor must be above 1: how much longer the cells become.")
        before, ids = self.factors, self.unconverged
        factors = {one: before.get(one, 1.0) * factor for one in ids}
        self._check_lengths(factors)
        self._begin_again(LONGER, ids, factors)
        return self.resume(**options)

    def _check_lengths(self, factors: Mapping[str, float]) -> None:
        """Refuse factors that no run can be longer by, before anything is settled: rows that are good stay so.

        The longest one is tried, unless it has a file, which memory need not hold.
        """
        key = f"{self.verb}.{(name := length_of(self.verb))}"
        lengths: list[tuple[float, Mapping[str, Any]]] = []
        for cell in self._shards.cells:
            if (times := factors.get(cell["id"])) is None:
                continue
            length = tables_of(self._spec_of(cell), cell)[self.verb].get(name)
            if length is None:
                raise ValueError(f"cells can be made longer where {key} stands in the file, which it does not.")
            if length * times > checks.LARGEST_COUNT:
                raise ValueError(
                    f"factor must leave {key} at most {checks.LARGEST_COUNT}; it would be {length * times:.3g} where "
                    f"it is {length}. Name a smaller one."
                )
            lengths.append((length * times, cell))
        if lengths and self.keep == "summary":
            _, longest = max(lengths, key=lambda one: one[0])
            with placed(files_of(self.path, self.generations, [self.generations[longest["at"][0]]])):
                try_out(self._spec_of(longest) | {"factor": factors[longest["id"]]}, longest)

    def _spec_of(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Return what of a shard's spec makes the tables of a cell: those of the grid that it is of."""
        return {"verb": self.verb, "base": self.generations[cell["at"][0]].base}

    def _begin_again(self, why: str, ids: list[str], factors: Mapping[str, float]) -> None:
        """Write down that cells are to be computed again, but for those that are to be in any case."""
        pending, of_grid = self.pending, {cell["id"]: cell["at"][0] for cell in self._shards.cells}
        some = {name: of_grid[name] for name in ids if name not in pending}
        again(self.path, self.generations, some, why, factors)

    def to_dataframe(self) -> Any:
        """Return the table as a pandas.DataFrame; needs pandas."""
        return self.table.to_dataframe()

    def to_xarray(self) -> Any:
        """Return the table as an xarray.Dataset, its dimensions the keys of the grid; needs xarray."""
        return self.table.to_xarray()


def open_campaign(path: str | os.PathLike[str]) -> Campaign:
    """Open the campaign in a folder.

    Raises
    ------
    StorageError
        If there is none, or its beginning makes no sense.
    """
    folder = checks.place("path", path)
    if not (found := read_all(folder)):
        there = "holds no campaign (no generation-0000.json)" if folder.exists() else "does not exist: no such campaign"
        raise StorageError(f"{path} {there}.")
    return Campaign(folder, found)
