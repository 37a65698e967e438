"""The results of a campaign as a table: a row for each cell, columns that are keys of the grid, numbers and texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from .._base import checks
from . import averages, export
from .columns import array_of, column_of, hashable, label_of, numbers
from .crossing import Crossing, Curve, crossings
from .row import AT

if TYPE_CHECKING:
    import pandas
    import xarray

FAILED = "failed"  # the column of texts that say why a cell has no results
BETA = "beta"  # what columns of several temperatures are of
FOLD = "data.fold"  # averaged over before the best of several settings is chosen


class Table:
    """Rows of a campaign.

    Columns are found by name: ``table["energy"]``, keys of the grid by "model.shape" or, where it is clear, "shape".
    What is not known is NaN among numbers and None among texts; values that are lists, as shapes, are tuples.

    Attributes
    ----------
    keys : tuple of str
        The keys of the grid among the columns.
    axes : tuple of tuple of str
        The keys that go together, by [zip].
    """

    def __init__(
        self, columns: Mapping[str, np.ndarray], keys: Iterable[str], axes: Iterable[Iterable[str]] | None = None
    ) -> None:
        self._columns, self.keys = dict(columns), tuple(keys)
        self.axes = tuple((key,) for key in self.keys) if axes is None else tuple(map(tuple, axes))

    @classmethod
    def of(
        cls,
        keys: Iterable[Mapping[str, Any]],
        rows: Iterable[Mapping[str, Any] | None],
        axes: Iterable[Iterable[str]] | None = None,
    ) -> Table:
        """Make a table from the keys of cells and their rows.

        Parameters
        ----------
        keys : iterable of dict
            `keys` of each cell.
        rows : iterable of (dict or None)
            As `columns_of` returns them; None for cells that are not done, which are left out. A cell that failed has
            the text why under "failed".
        axes : iterable of (iterable of str), optional
            `axes` of the plan.
        """
        both = [(of_grid, row) for of_grid, row in zip(keys, rows, strict=True) if row is not None]
        names = list(dict.fromkeys(name for of_grid, _ in both for name in of_grid))
        others = dict.fromkeys(name for _, row in both for name in row)
        columns = {name: array_of([of_grid.get(name) for of_grid, _ in both]) for name in names}
        columns |= {name: column_of(name, [row.get(name) for _, row in both]) for name in others if name not in columns}
        return cls(columns, names, axes)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __repr__(self) -> str:
        return f"<Table: {len(self)} rows over {', '.join(self.keys) or 'no keys'}; {len(self._columns)} columns>"

    @property
    def columns(self) -> list[str]:
        """Names of all columns, those of the grid first."""
        return list(self._columns)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows, as dicts."""
        lists = [values.tolist() for values in self._columns.values()]
        return [dict(zip(self._columns, row, strict=True)) for row in zip(*lists, strict=True)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._found(name) is not None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> np.ndarray:
        if not isinstance(name, str):
            raise TypeError(f"columns are found by name; got {name!r}. Rows are in `rows`.")
        return self._columns[self.name_of(name)]

    def name_of(self, name: str) -> str:
        """Return the whole name of a column: "model.shape" of "shape", where that is clear.

        Raises
        ------
        KeyError
            If there is no such column, or there are two of the grid.
        """
        found = self._found(name)
        if found is None:
            known = [*self._columns, *(key.rpartition(".")[2] for key in self.keys)]
            twice = [key for key in self.keys if key.endswith(f".{name}")]
            why = f" It may be {' or '.join(twice)}." if twice else checks.nearest(name, known)
            listed = ", ".join(one for one in self._columns if AT not in one)
            raise KeyError(f"the table has no column {name!r}.{why} Columns are {listed}.")
        return found

    def _found(self, name: str) -> str | None:
        if name in self._columns:
            return name
        ends = [key for key in self.keys if key.endswith(f".{name}")]
        return ends[0] if len(ends) == 1 else None

    def where(self, **values: Any) -> Table:
        """Return the rows in which columns have given values: ``table.where(shape=[6, 6, 6], beta=0.5)``.

        One value of each; None asks for rows in which nothing is known.
        """
        keep = np.ones(len(self), bool)
        for name, value in values.items():
            column = self[name]
            if column.dtype.kind == "f" and value is None:
                keep &= np.isnan(column)
            elif column.dtype.kind == "f":
                keep &= np.isclose(column, checks.real(name, value), rtol=1e-12, atol=0.0)
            else:
                wanted = hashable(value)
                keep &= np.array([one == wanted for one in column.tolist()], bool)
        return self._taken(np.flatnonzero(keep))

    def _taken(self, places: np.ndarray) -> Table:
        return Table({name: values[places] for name, values in self._columns.items()}, self.keys, self.axes)

    def done(self) -> Table:
        """Return the rows of the cells that did not fail."""
        if FAILED not in self._columns:
            return self
        left = self._taken(np.flatnonzero([one is None for one in self._columns[FAILED].tolist()]))
        del left._columns[FAILED]
        return left

    def long(self, name: str) -> Table:
        """Return a row for each of several temperatures, or methods, that a run had in one row.

        Parameters
        ----------
        name : str
            What to call them: columns "q2@0.5", "q2@0.9" become the column "q2" of rows whose `name` is 0.5 and 0.9.
            It is a key of the new table, which can be averaged and drawn over it. Numbers with errors that are not
            told of each ("m2" of a ladder's target) are left out.

        Raises
        ------
        ValueError
            If no columns are of this kind.
        """
        labels = dict.fromkeys(column.partition(AT)[2] for column in self._columns if AT in column)
        if not labels:
            raise ValueError(f"the table has no columns NAME{AT}LABEL, as runs at several temperatures leave them.")
        if name in self._columns:
            raise ValueError(f"the table has a column {name!r} already. Call it something else.")
        own = dict.fromkeys(column.partition(AT)[0] for column in self._columns if AT in column)
        alone = {column for column in self._columns if f"{column}_error" in self._columns}
        told = {*own, *alone, *(f"{column}_error" for column in alone)}
        shared = [column for column in self._columns if AT not in column and column not in told]
        rows, keys = [], []
        for row in self.done().rows:
            of_grid = {key: row.pop(key) for key in self.keys}
            common = {column: value for column, value in row.items() if column in shared}
            for label in labels:
                of_one = {column: row.get(f"{column}{AT}{label}") for column in own}
                if any(value is not None and value == value for value in of_one.values()):
                    keys.append(of_grid | {name: label_of(label)})
                    rows.append(of_one | common)
        return Table.of(keys, rows, (*self.axes, (name,)))

    def average(
        self, over: str | Sequence[str] = "model.seed", of: Mapping[str, Callable[..., Any]] | None = None
    ) -> Table:
        """Return means over some keys of the grid, as over samples of disorder, with jackknife errors.

        Parameters
        ----------
        over : str or list of str
            Keys that are averaged over; a row is left for each combination of the others.
        of : dict of name to function, optional
            Functions of averages, whose arguments are called as columns are: ``{"ratio": lambda q2, q4: q4 / q2**2}``
            is [<q^4>] / [<q^2>]^2. They must work on arrays element by element.

        Returns
        -------
        Table
            Of every number the mean, and in "NAME_error" its error over the samples that were averaged, which holds the
            noise within each sample too; NaN where there is one sample. "n" is their number. Binder's
            cumulants are those of averaged moments, 1 - [<q^4>] / (3 [<q^2>]^2), not means of ratios. "converged" is
            the part of the samples that have, "r_hat" the largest and "ess" the least. Rows that failed are left out;
            a number that one sample lacks is NaN.

        Warns
        -----
        UserWarning
            If correlation lengths are left out, as in a field, where they are of connected correlations of each cell.

        Notes
        -----
        A function of averages is computed of all samples and of all but one; the spread of these is its error (the
        jackknife of `fastbm.diagnostics.jackknife`, a block for each sample), widened to Student's quantile with n - 1
        degrees of freedom over the normal one (1.21 for 8 samples, 1.04 for 30), so that 1.96 of them hold the truth in
        95 % of cases. For 8 machines of the 3D +-J glass they hold Binder's cumulant and xi/L in 91 to 95 %; not
        widened, in 87 to 91 %.
        """
        over = self._keys_of(over)
        left = [key for key in self.keys if key not in over]
        axes = [kept for axis in self.axes if (kept := [key for key in axis if key in left])]
        functions = averages.named(of or {}, self.name_of)
        return Table.of(*averages.average(self.done()._columns, left, over, functions), axes)

    def best(
        self, by: str = "holdout", *, lowest: bool = False, over: str | Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return the row that is best by a column.

        Parameters
        ----------
        by : str
            The column of which the largest is the best; the smallest with `lowest`.
        over : str or list of str, optional
            Keys that are averaged over first; unless given, the folds of the data ("data.fold") where the grid has
            them. An empty list averages over nothing.

        Warns
        -----
        UserWarning
            If settings are left out as they lack folds that others have: of cells that failed, or are not done.
            Averages over different folds do not compare, and a setting that fails in some is not to be chosen.

        Raises
        ------
        ValueError
            If the column holds texts, no row has a number, or each setting lacks a fold that another one has.
        """
        over = [FOLD] if over is None and FOLD in self.keys else over
        table = self.done()._comparable(self._keys_of(over)).average(over) if over else self.done()
        values = table._numbers("best", by)
        if not len(values) or np.isnan(values).all():
            raise ValueError(f"no row has a number under {by!r}.")
        place = int(np.nanargmin(values) if lowest else np.nanargmax(values))
        return table._taken(np.array([place])).rows[0]

    def _numbers(self, asks: str, name: str) -> np.ndarray:
        """Return a column as floats; refuse one of texts."""
        if (found := numbers(self[name])) is None:
            raise ValueError(f"{asks} takes columns of numbers; {name!r} holds texts or lists.")
        return found

    def _keys_of(self, over: str | Sequence[str]) -> list[str]:
        """Return the whole names of keys that are averaged over."""
        listed = [over] if isinstance(over, str) else over
        if not isinstance(listed, (list, tuple)) or not all(isinstance(one, str) for one in listed):
            raise TypeError(f"over must be the name of a key of the grid, or a list of names; got {over!r}.")
        found = [self.name_of(one) for one in listed]
        if not found or not set(found) <= set(self.keys):
            raise ValueError(f"average goes over keys of the grid, some of {', '.join(self.keys)}; got {found}.")
        return found

    def _comparable(self, over: Sequence[str]) -> Table:
        """Return the rows of settings that have all of the keys `over` that any has."""
        left = [key for key in self.keys if key not in over]
        return self._taken(averages.complete(self._columns, left, over))

    def crossing(
        self,
        of: str = "binder_cumulant",
        *,
        x: str = BETA,
        group: str = "shape",
        degree: int | None = None,
        pairs: str = "neighbours",
    ) -> list[Crossing]:
        """Return where curves of sizes that follow one another cross, as Binder's cumulants do near a transition.

        Keys of the grid other than `x` and `group`, as samples of disorder, are averaged over; errors are then those of
        the jackknife over samples, which curves have at all their points in common.

        Parameters
        ----------
        of : str
            A column with errors ("NAME_error"), or one that `average` makes of averages.
        x, group : str
            Columns: a curve over `x` for each value of `group`, by size. Of runs at several temperatures `x` may be
            these, as "beta" (see `long`).
        degree : int, optional
            Of the polynomials that are fitted to the seven points of each that are nearest, weighed by their errors;
            3 at most unless given.
        pairs : {"neighbours", "all"}
            Sizes that follow one another, or every two.

        Returns
        -------
        list of Crossing
            One for each pair that crosses once between its first and its last `x`. Those of larger sizes
            lie nearer to the transition.

        Raises
        ------
        ValueError
            If a column holds texts, there are fewer than two curves, too few points or errors for the fits, or if
            correlation lengths in a field would be averaged.
        """
        every = checks.choice("pairs", pairs, ("neighbours", "all")) == "all"
        degree = None if degree is None else checks.whole("degree", degree, least=1)
        table = self.long(x) if x == BETA and x not in self else self
        for name in (x, of):
            if name in table:
                table._numbers("crossing", name)
        over = [key for key in table.keys if key not in (table.name_of(x), table.name_of(group))]
        if over:
            if why := averages.why_not(table.done()._columns, of):
                raise ValueError(why)
            curves = table.done()._over_samples(of, x, group, over)
        else:
            curves = [Curve(*curve) for curve in table.curves(of, x=x, group=group)]
        return crossings(curves, degree, every=every)

    def _over_samples(self, of: str, x: str, group: str, over: Sequence[str]) -> list[Curve]:
        """Return curves of averages over samples, with what their points have in common."""
        function, names = averages.RATIOS.get(of, (lambda mean: mean, (of,)))
        columns = [numbers(self[name]) for name in names]
        samples = list(zip(*(map(hashable, self[key].tolist()) for key in over), strict=True))
        found = []
        for label, some in self._places(x, group):
            rows = {sample: k for k, sample in enumerate(dict.fromkeys(samples[place] for place in some))}
            places, column_of = np.unique(self[x][some], return_inverse=True)
            row_of = [rows[samples[place]] for place in some]
            values = []
            for column in columns:
                spread_out = np.full((len(rows), len(places)), math.nan)
                spread_out[row_of, column_of] = math.nan if column is None else column[some]
                values.append(spread_out)
            y, spread = averages.together(function, values)
            found.append(Curve(label, places, y, np.sqrt((spread**2).sum(axis=1)), spread))
        return found

    def curves(
        self, y: str, *, x: str, group: str | None = None
    ) -> list[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]:
        """Return label, x, y and errors of a curve for each value of `group`, in order; errors are NaN if not known."""
        table = self.done()
        name = table.name_of(y)
        error = table._columns.get(f"{name}_error", np.full(len(table), math.nan))
        return [
            (label, table[x][some], table._columns[name][some], error[some]) for label, some in table._places(x, group)
        ]

    def _places(self, x: str, group: str | None) -> list[tuple[Any, np.ndarray]]:
        """Return the rows of each group by `x`, groups in order."""
        labels = [None] * len(self) if group is None else [hashable(one) for one in self[group].tolist()]
        places: dict[Any, list[int]] = {}
        for place, label in enumerate(labels):
            places.setdefault(label, []).append(place)
        found = []
        for label in sorted(places, key=_order):
            some = np.array(places[label])
            found.append((label, some[np.argsort(self[x][some], kind="stable")]))
        return found

    def to_csv(self, place: str | Path | TextIO) -> None:
        """Write the table as CSV, to a file or into an open one; empty where nothing is known, lists as in JSON."""
        export.to_csv(self._columns, place)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return the table as a pandas.DataFrame; needs pandas."""
        from .._base.frame import to_frame

        return to_frame(self._columns)

    def to_xarray(self) -> xarray.Dataset:
        """Return the table as an xarray.Dataset whose dimensions are the keys of the grid; needs xarray.

        Keys that go together share a dimension, named by the first. Values that are lists are texts, "6x6x6". Cells
        that are not done are NaN.
        """
        return export.to_xarray(self._columns, self.axes)


def _order(label: Any) -> Any:
    """Return what groups are sorted by: numbers and sizes; texts stay in the order of the grid."""
    return ("", 0) if label is None or isinstance(label, str) else (str(type(label)), label)
