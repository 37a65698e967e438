"""The data that `fit` is given, checked; and the rows that a run learns from, in its file or in one that it names."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..._base import checks
from ...data import datasets, sources
from ...data.counting import count_by_workers
from ...data.moments import Moments, smoothed_rates
from ...data.rows import Rows
from ...data.shards import Listed, read_in_shards
from ...data.sources import Source, as_source, read
from ...learning import missing
from ...learning.classifier.classifier import BoltzmannClassifier, check_classes, option_names
from ...learning.errors.blocks import block_of
from ...learning.learners.starts import broken_symmetry
from ...learning.methods import PRESETS
from ...learning.settings import FitSettings
from ...learning.training_set import Sample, smoothed_means
from ...machine.machine import BoltzmannMachine
from ...machine.units import Units, units as convention

Arrays = dict[str, np.ndarray]
GIVEN_AS = {"rows": "data", "holdout": "holdout"}  # arguments, by the names that a run has for them


def origin(name: str, data: Any, rows: Rows) -> dict[str, Any]:
    """Return what the spec says of the source of the rows called `name`; nothing where they are arrays.

    Rows that are in memory go into the run's file, and nothing else is needed. Others stay where they are: they are
    read again when the run goes on, and told by their sha256.
    """
    source = as_source(data)
    named = source.absolute().as_dict() if isinstance(source, Source) else None
    if rows.in_memory:
        return {} if named is None else {name: {"source": named}}
    found = {"source": named, "sha256": rows.digest()}
    return {name: found | ({"shard": rows.table.size} if isinstance(rows.table, Listed) else {})}


def inputs_of(rows: Mapping[str, Rows]) -> Arrays:
    """Return the arrays that a run keeps of its rows: those that are in memory, packed."""
    found: Arrays = {}
    for name, one in rows.items():
        if one.in_memory:
            found[f"data/{name}"] = one.packed()
            if (known := one.packed_known()) is not None:
                found[f"data/{name}_known"] = known
        elif isinstance(one.table, Listed) and one.together is not None:
            found[f"data/{name}_together"] = one.together  # to go on without counting again
    return found


def stored_rows(
    about: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    kind: Units,
    n_units: int,
    given: Mapping[str, Rows],
    executor: Executor | None,
) -> dict[str, Rows]:
    """Return the rows of a run: those at hand, those in its file, and those that are in files of their own."""
    found = dict(given)
    for name in GIVEN_AS:
        if name not in found and f"data/{name}" in inputs:
            found[name] = Rows.of_packed(inputs[f"data/{name}"], n_units, inputs.get(f"data/{name}_known"))
        elif name not in found and "sha256" in about.get("origins", {}).get(name, {}):
            found[name] = _from_source(name, about["origins"][name], kind, executor)
        if name in found and found[name].together is None:
            found[name].together = inputs.get(f"data/{name}_together")
    return found


def read_again(spec: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Rows]:
    """Read rows that a user gives again, and check that they are those that the run began with."""
    found = {}
    for name, data in given.items():
        about = spec.get("data", {}).get("origins", {}).get(name, {})
        if "sha256" not in about:
            raise ValueError(f"{GIVEN_AS[name]} is not needed: the run holds all that it needs. Leave it out.")
        source = as_source(data)
        if source is not data and about["source"]:  # the same part of it, by the same threshold
            data = replace(Source(**about["source"]), name=source.name)
        rows, _ = _read_as_before(data, about, convention(spec["model"]["units"]), GIVEN_AS[name], None)
        if rows.digest() != about["sha256"]:
            raise ValueError(f"{GIVEN_AS[name]} holds other rows than those that the run began with (sha256 differs).")
        found[name] = rows
    return found


def _read_as_before(
    data: Any, about: Mapping[str, Any], kind: Units, argument: str, executor: Executor | None
) -> tuple[Rows, Units]:
    if "shard" in about:
        return read_in_shards(data, kind, argument, executor, pairs=False, size=about["shard"])
    return read(data, kind, argument)


def _from_source(name: str, about: Mapping[str, Any], kind: Units, executor: Executor | None) -> Rows:
    argument = GIVEN_AS[name]
    if about["source"] is None:
        raise ValueError(
            f"{argument} came from a generator, which no file can hold: pass it again, resume(..., {argument}=...)."
        )
    source = Source(**about["source"])
    out = f"Put the file back, or pass resume(..., {argument}=...)."
    try:
        rows, _ = _read_as_before(source, about, kind, argument, executor)
    except (checks.StorageError, ValueError, TypeError) as error:
        raise checks.StorageError(f"{error} The run's rows were there. {out}") from None
    if rows.digest() != about["sha256"]:
        raise checks.StorageError(
            f"{source.title} holds other rows than those that the run began with (sha256 differs). {out}"
        )
    return rows


@dataclass(frozen=True)
class FitData:
    """The data of `fit`: rows of bits, or moments in their place; rows that are held out; labels of both."""

    kind: Units
    up: Rows | None
    weights: np.ndarray | None
    moments: Moments | None
    held: Rows | None
    labels: np.ndarray | None
    holdout_labels: np.ndarray | None
    origins: dict[str, Any]

    @classmethod
    def read(
        cls,
        data: Any,
        units: str | None,
        init: BoltzmannMachine | None,
        row_weights: Any,
        holdout: Any,
        labels: Any,
        holdout_labels: Any,
        executor: Executor | None = None,
        by_moments: bool = False,
    ) -> FitData:
        """Check data as users give them; many rows of a list of files stay there if a rule learns `by_moments`."""
        if isinstance(data, Moments):
            return cls._of_moments(data, units, init, row_weights, holdout, labels, holdout_labels)
        known = init.convention if init is not None else None if units is None else convention(units)
        up, kind = read_in_shards(data, known, "data", executor) if by_moments else sources.read(data, known)
        weights = datasets.check_row_weights(row_weights, len(up))
        missing.check_known("data", up, weights, all_units=True)
        origins = origin("rows", data, up)
        held = None
        if holdout is not None:
            held, _ = sources.read(holdout, kind, "holdout")
            origins |= origin("holdout", holdout, held)
            if held.n_units != up.n_units:
                raise ValueError(f"holdout must have {up.n_units} units a row, as data; got {held.n_units}.")
            missing.check_known("holdout", held, all_units=False)
        labels = _check_labels(labels, up, "labels")
        holdout_labels = _check_labels(holdout_labels, held, "holdout_labels")
        return cls(kind, up, weights, None, held, labels, holdout_labels, origins)

    @classmethod
    def _of_moments(cls, data: Moments, units: str | None, init: BoltzmannMachine | None, *rows: Any) -> FitData:
        for name, given in zip(("row_weights", "holdout", "labels", "holdout_labels"), rows, strict=True):
            if given is not None:
                raise ValueError(f"{name} goes with rows; data are moments. Leave it out.")
        target = init.units if init is not None else data.units if units is None else units
        moments = data.to_units(target)
        return cls(convention(target), None, None, moments, None, None, None, {})

    @property
    def n_rows(self) -> int:
        """Number of rows at hand; 0 where data are moments."""
        return 0 if self.up is None else len(self.up)

    @property
    def _n_units(self) -> int:
        if self.up is not None:
            return self.up.n_units
        assert self.moments is not None
        return self.moments.n_units

    @property
    def has_gaps(self) -> bool:
        """Whether entries of the rows to learn from are missing."""
        return self.up is not None and not self.up.complete

    @property
    def p(self) -> np.ndarray:
        """The fraction of the rows in which each unit is up, (n_visible,), kept away from 0 and 1."""
        if self.up is not None:
            return smoothed_means(self.up, self.weights)
        assert self.moments is not None
        part = (self.moments.mean - self.kind.lo) / self.kind.span
        n = self.moments.n_samples or 10**9
        smoothed: np.ndarray = (part * n + 0.5) / (n + 1.0)
        return smoothed

    def base_rates(self, start: BoltzmannMachine) -> np.ndarray:
        """Return what the learned machine carries as the base rates of its visible units."""
        return smoothed_rates(self.moments if self.up is None else self.up, start, self.weights)

    def break_symmetry(self, start: BoltzmannMachine, seed: int, beta: float) -> BoltzmannMachine:
        """Return `start` with couplings to hidden units of the size that the data ask for."""
        p, units = self.p, self.kind
        return broken_symmetry(start, units.lo + units.span * p, units.span * np.sqrt(p * (1.0 - p)), seed, beta)

    def check_machine(self, start: BoltzmannMachine) -> None:
        """Check that a machine has the data's visible units."""
        n = self._n_units
        if start.n_visible != n:
            raise ValueError(f"init has {start.n_visible} visible units; data has {n} units a row.")
        if self.up is None and start.n_hidden:
            raise ValueError(
                f"data are moments, from which no hidden units can be learned; got n_hidden={start.n_hidden}. "
                "Give rows."
            )

    def count(self, settings: FitSettings, start: BoltzmannMachine, executor: Executor | None) -> None:
        """Have workers count what a rule asks of the rows, if moments are all that it asks."""
        if executor is None or self.up is None or self.weights is not None:
            return
        if Sample(start, self.up).by_moments(settings):
            count_by_workers(self.up, executor)

    def check_settings(self, settings: FitSettings, start: BoltzmannMachine, *, classify: bool) -> None:
        """Refuse settings that the data cannot serve; warn of data that have no finite optimum.

        Refused is what needs rows where there are moments, or held-out rows where there are none.
        """
        s = settings
        if self.has_gaps or (classify and self.held is not None and not self.held.complete):
            missing.check_settings(settings, classify=classify)
        if self.up is not None and s.errors == "bootstrap":
            _check_bootstrap(self.up, self.weights, s.block)
        if self.up is None:
            local = PRESETS[s.method].driver == "local"
            needed = {
                f"method={s.method!r}": local or s.free == "contrastive",
                'errors="bootstrap"': s.errors == "bootstrap",
                "fidelity": s.fidelity,
                "ais_every": s.ais_every > 0,
            }
            for name, asked in needed.items():
                if asked:
                    raise ValueError(f"{name} needs rows; data are moments. Give rows, or use another method.")
            if s.errors and self.moments is not None and self.moments.n_samples is None:
                raise ValueError("errors need Moments(..., n_samples=...), the number of rows behind the moments.")
        if s.patience and self.held is None:
            raise ValueError(f"patience={s.patience} needs held-out rows: give holdout.")
        sample = Sample(start, self.up, self.moments, self.weights)
        for line in sample.describe(s):
            checks.warn(f"data: {line}.")

    def check_classifier(self, options: Mapping[str, Any]) -> None:
        """Check the options of `classify`, and that there are labels for it."""
        if not isinstance(options, Mapping):
            raise TypeError(f"classify must be a dict of options, for instance {{}}; got {options!r}.")
        valid = option_names()
        for name in options:
            if name not in valid:
                raise TypeError(f"classify has no option {name!r}.{checks.nearest(name, valid)}")
        BoltzmannClassifier(**options)
        if self.labels is None or self.holdout_labels is None:
            raise ValueError("classify needs labels, holdout and holdout_labels.")
        if self.weights is not None:
            raise ValueError("classify learns from rows that count alike. Leave row_weights out, or classify.")
        check_classes(self.labels)

    def inputs(self) -> Arrays:
        """Return the arrays that a run keeps."""
        if self.up is not None:
            more: Arrays = {} if self.weights is None else {"data/weights": self.weights}
            for name, labels in (("labels", self.labels), ("holdout_labels", self.holdout_labels)):
                if labels is not None:
                    more[f"data/{name}"] = labels
            return inputs_of(self.rows()) | more
        assert self.moments is not None
        found = {"data/mean": self.moments.mean, "data/second_moment": self.moments.second_moment}
        if self.moments.n_samples is not None:
            found["data/n_samples"] = np.array(self.moments.n_samples)
        return found

    def describe(self) -> dict[str, Any]:
        """Return what the spec says of the data."""
        n_rows = self.n_rows if self.moments is None else self.moments.n_samples
        n_held = 0 if self.held is None else len(self.held)
        source = self.origins.get("rows", {}).get("source")
        name = None if source is None else Source(**source).title
        found: dict[str, Any] = {"n_rows": n_rows, "n_holdout": n_held, "source": name, "origins": self.origins}
        if self.up is not None and self.has_gaps:
            found["missing"] = 1.0 - float(self.up.known_counts().sum()) / (len(self.up) * self.up.n_units)
        return found

    def rows(self) -> dict[str, Rows]:
        """Return the rows by the names under which a run keeps them."""
        found = {"rows": self.up, "holdout": self.held}
        return {name: rows for name, rows in found.items() if rows is not None}


def _check_bootstrap(rows: Rows, weights: np.ndarray | None, block: int | str) -> None:
    """Refuse rows that tell no scatter, and blocks of which there are few, before anything is learned."""
    n = len(rows) if weights is None else np.count_nonzero(weights)
    if n < 2:
        raise ValueError(
            f"errors='bootstrap' needs at least 2 rows that count, whose scatter it tells; got {n}. Leave errors out."
        )
    if block != "auto":
        block_of(block, rows)


def _check_labels(labels: Any, rows: Rows | None, argument: str) -> np.ndarray | None:
    if labels is None:
        return None
    if isinstance(labels, (str, Path)):
        with datasets.opened(str(labels)) as table:
            labels = np.asarray(table[...])
        if labels.ndim == 2 and 1 in labels.shape:  # as MATLAB keeps lists
            labels = labels.ravel()
    array = checks.any_array(argument, labels)
    if rows is None:
        raise ValueError(f"{argument} are those of held-out rows: give holdout too, or leave them out.")
    if array.shape != (len(rows),):
        raise ValueError(f"{argument} must have one entry for each row ({len(rows)}); got shape {array.shape}.")
    array = np.array([_decoded(one) for one in array.tolist()]) if array.dtype.kind in "OS" else array
    if array.dtype.kind not in "biufU":
        raise TypeError(f"{argument} must be numbers or texts, all of one kind; got dtype {array.dtype}.")
    return array


def _decoded(label: Any) -> Any:
    """Return a label with its text as str; texts in files are bytes."""
    return label.decode() if isinstance(label, bytes) else label
