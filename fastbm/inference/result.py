"""The result type of all inference methods, and its form as text, which is exact to the last bit."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..diagnostics.verdicts import VERDICTS, all_of
from ..machine.clamping import Clamped
from ..machine.couplings import DENSE_LIMIT
from ..machine.units import Units
from .subject import Subject

STATES = "lowest states"  # in `detail`, the one array of small numbers
SECONDS = ("seconds", "compile_seconds")
MANY = 1_000  # numbers from which an array is written as its bytes: as text it takes seconds, and three times the room
BYTES = ("float64", "shape")  # such an array: base64 of its bytes, little-endian, in C order
SPARSE = ("data", "indices", "indptr", "shape")  # what a scipy.sparse.csr_array is made of


@dataclass(frozen=True, eq=False)
class Inference:
    """The result of a method: log Z and moments, with their errors and whether to trust them.

    Fields that a method cannot give are None. Energies are in the units of the model, entropies and log Z in nats. With
    many clamped patterns every numeric field has a leading axis, one entry for each pattern.

    Attributes
    ----------
    log_z, log_z_error : float
        log sum_s exp(-beta E(s)), offset included, and its standard error.
    bound : {"exact", "lower", "upper", "stochastic lower", "stochastic upper", None}
        On which side of the truth `log_z` lies.
    mean, mean_error : (n_units,) array
        <s_i> in the model's units.
    second_moment, covariance : (n_units, n_units) array or scipy.sparse.csr_array
        <s_i s_j>, and <s_i s_j> - <s_i> <s_j>. Of "mean-field", "tap" and "bethe" the covariance is the linear
        response, whose diagonal is not exact; that of the second moment is. For large sparse machines these and "exact"
        may give them on the edges only: sparse arrays hold the diagonal, the coupled pairs and those that were asked
        for; another pair, ``second_moment[i, j]``, is a LookupError. A list of them, one for each of many patterns.
    energy, energy_error, energy_variance : float
        <E>, its standard error, and the variance of E under the model.
    entropy : float
    method : str
    converged : bool or None
        None where nothing tells; `detail["doubt"]` says why.
    n_samples, ess : float
        Samples used, and how many independent ones they are worth.
    seconds, compile_seconds : float
        What it took, and what compiling kernels, or loading compiled ones, took besides.
    detail : dict
        What only this method has to say.
    subject : Subject
        The machine that this is of, by a hash, with beta and what was clamped; None in files of older versions.
    """

    method: str
    log_z: Any = None
    log_z_error: Any = None
    bound: str | None = None
    mean: Any = None
    mean_error: Any = None
    second_moment: Any = None
    covariance: Any = None
    energy: Any = None
    energy_error: Any = None
    entropy: Any = None
    energy_variance: Any = None
    converged: bool | None = True
    n_samples: int | None = None
    ess: float | None = None
    seconds: float = 0.0
    compile_seconds: float = 0.0
    detail: dict[str, Any] = field(default_factory=dict)
    subject: Subject | None = None

    def __post_init__(self) -> None:
        for name in ("second_moment", "covariance"):
            moments = getattr(self, name)
            if is_sparse(moments) or (isinstance(moments, list) and any(map(is_sparse, moments))):
                from .known_pairs import known_pairs

                object.__setattr__(self, name, known_pairs(moments))

    def told(self, **values: Any) -> Inference:
        """Return the same with some fields replaced that need no conversion."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), **values)
        return made

    @property
    def free_energy(self) -> Any:
        """Free energy F = -log Z, so that Z = exp(-F)."""
        return None if self.log_z is None else -self.log_z

    def __repr__(self) -> str:
        return f"<Inference: {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        lines = [f"{self.method}: {VERDICTS[self.converged]}, {self.seconds:.3g} s"]
        if "doubt" in self.detail:
            lines.append(f"  {self.detail['doubt']}")
        return "\n".join([*lines, *(f"  {name:<6}  {value}" for name, value in self._numbers())])

    def _repr_html_(self) -> str:
        from .._base import html

        facts, doubt = VERDICTS[self.converged], self.detail.get("doubt")
        verdict = f"{facts}: {doubt}" if doubt else facts
        about = [["method", self.method], ["verdict", verdict]]
        return html.table([*about, *self._numbers(), ["seconds", f"{self.seconds:.3g}"]])

    def _numbers(self) -> list[list[str]]:
        """Return names and values of what is printed."""
        found = []
        if self.log_z is not None:
            found.append(["log Z", f"{_number(self.log_z, self.log_z_error)}  ({self.bound or 'no bound'})"])
        if (corrected := self.detail.get("log_z_corrected")) is not None:
            found.append(["log Z", f"{_number(corrected, self.detail['log_z_corrected_error'])}  (estimate)"])
        if self.energy is not None:
            found.append(["energy", _number(self.energy, self.energy_error)])
        if self.ess is not None and np.ndim(self.ess) == 0:
            found.append(["ess", f"{self.ess:.4g} of {self.n_samples}"])
        return found

    def plot(self) -> Any:
        """Draw log Z, energy, heat capacity and entropy over temperatures: `plots.figure` of the result."""
        from .._base.late import public

        return public("plots").figure(self)


def claim(found: Inference) -> tuple[float | None, float | None]:
    """Return the log Z that a result claims, and its error; for "sampled-states" the corrected value."""
    if "log_z_corrected" in found.detail:
        return found.detail["log_z_corrected"], found.detail["log_z_corrected_error"]
    return found.log_z, found.log_z_error


def _number(value: Any, error: Any) -> str:
    """Return a number as text with its error; for many patterns, how many there are, and their range."""
    if np.ndim(value):
        return f"{np.min(value):.10g} to {np.max(value):.10g}, {len(value)} patterns"
    return f"{value:.10g}" + (f" +- {error:.2g}" if error is not None else "")


def expand(result: Inference, clamped: Clamped, pattern: int) -> Inference:
    """Return moments over the free units with the clamped ones in their places (their value, covariance 0)."""
    if result.mean is None:
        return result
    whole: dict[str, Any] = {"mean": clamped.full_states(pattern, np.asarray(result.mean))}
    if result.mean_error is not None:
        whole["mean_error"] = np.zeros(clamped.model.n_units)
        whole["mean_error"][clamped.free] = result.mean_error
    if is_sparse(result.second_moment):
        for name in ("covariance", "second_moment"):
            held = np.zeros_like(whole["mean"]) if name == "covariance" else whole["mean"]
            whole[name] = _pairs_among_clamped(getattr(result, name), clamped, held)
    elif result.second_moment is not None:
        covariance = clamped.full_matrix(result.covariance)
        whole["covariance"] = covariance
        whole["second_moment"] = np.outer(whole["mean"], whole["mean"]) + covariance
        whole["second_moment"][np.ix_(clamped.free, clamped.free)] = result.second_moment
    return replace(result, **whole)


def _pairs_among_clamped(pairs: Any, clamped: Clamped, held: np.ndarray) -> Any:
    """Join pairs over the free units with the clamped ones' diagonal and coupled pairs.

    `pairs` is a scipy.sparse.csr_array over the free units; what the clamped ones add are products of `held`
    (n_units,).
    """
    from scipy.sparse import coo_array

    inner, (indptr, columns, _) = pairs.tocoo(), clamped.model.couplings.csr()
    rows = np.repeat(np.arange(len(held)), np.diff(indptr))
    outer = np.isin(rows, clamped.indices) | np.isin(columns, clamped.indices)
    i, j = (np.concatenate([units[outer], clamped.indices]) for units in (rows, columns))
    places = np.concatenate([clamped.free[inner.row], i]), np.concatenate([clamped.free[inner.col], j])
    return coo_array((np.concatenate([inner.data, held[i] * held[j]]), places), shape=(len(held), len(held))).tocsr()


def nothing_free(clamped: Clamped, pattern: int, beta: float, moments: bool = True) -> Inference:
    """Return the result where all units are clamped, so that a single state is left."""
    energy = float(clamped.offset[pattern])
    known: dict[str, Any] = {}
    if moments:
        mean = clamped.full_states(pattern, np.empty(0))
        known = {**moments_of(mean, np.outer(mean, mean)), "mean_error": np.zeros_like(mean)}
    return Inference(
        "exact",
        log_z=-beta * energy,
        log_z_error=0.0,
        bound="exact",
        energy=energy,
        energy_error=0.0,
        energy_variance=0.0,
        entropy=0.0,
        n_samples=1,
        **known,
    )


def is_sparse(value: Any) -> bool:
    """Return whether this is a scipy.sparse array."""
    return hasattr(value, "indptr")


def stack(results: Sequence[Inference]) -> Inference:
    """Join the results of many patterns along a leading axis."""
    joined: dict[str, Any] = {}
    for name in (f.name for f in fields(Inference)):
        values = [getattr(result, name) for result in results]
        if name in ("method", "bound"):
            joined[name] = values[0]
        elif name == "converged":
            joined[name] = all_of(values)
        elif name in ("seconds", "compile_seconds"):
            joined[name] = sum(values)
        elif name == "detail":
            joined[name] = {"patterns": values}
        elif any(is_sparse(value) for value in values):
            joined[name] = values
        elif all(value is not None for value in values):
            joined[name] = np.stack([np.asarray(value) for value in values])
    return Inference(**joined)


def moments_from_up(units: Units, up: np.ndarray) -> dict[str, np.ndarray]:
    """Return the three moment fields from P(i and j up), whose diagonal is P(i up)."""
    return moments_of(*values_from_up(units, up))


def values_from_up(units: Units, up: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and second moments from P(i and j up); they are symmetric to the last bit where these are."""
    p = up.diagonal()
    second = units.span**2 * up
    if units.lo:
        ups = units.lo * units.span * p
        second += ups[:, None] + ups
        second += units.lo**2
    return units.lo + units.span * p, second


def check_pairs(n_units: int) -> None:
    """Refuse a full matrix of second moments that is too large."""
    if n_units > DENSE_LIMIT:
        raise ValueError(
            f"second moments of {n_units} units would take {8.0 * n_units**2 / 1e9:.3g} GB; the limit is {DENSE_LIMIT} "
            "units. Pass moments=False, or use fastbm.sample."
        )


def moments_of(mean: np.ndarray, second_moment: np.ndarray) -> dict[str, np.ndarray]:
    """Return the three moment fields from means and second moments."""
    return {"mean": mean, "second_moment": second_moment, "covariance": second_moment - mean[:, None] * mean}


def to_json(result: Inference) -> str:
    """Return a result as text, without its seconds, which differ from run to run."""
    plain = {f.name: getattr(result, f.name) for f in fields(Inference) if f.name not in SECONDS}
    return json.dumps(plain, default=_plain, sort_keys=True)


def from_json(text: str, seconds: float, compile_seconds: float = 0.0) -> Inference:
    """Read a result from the text that `to_json` returned.

    Arrays come back as arrays, sparse ones as scipy.sparse.csr_array.
    """
    found = _arrays(json.loads(text))
    for detail in (found["detail"], *found["detail"].get("patterns", [])):
        if STATES in detail:
            detail[STATES] = detail[STATES].astype(np.int8)
    subject = found.pop("subject", None)
    found["subject"] = None if subject is None else Subject(**subject)
    return Inference(**found, seconds=seconds, compile_seconds=compile_seconds)


def _arrays(value: Any) -> Any:
    """Turn lists of numbers back to arrays, at any depth of dicts."""
    if isinstance(value, dict):
        if sorted(value) == sorted(BYTES):
            return np.frombuffer(base64.b64decode(value["float64"]), "<f8").reshape(value["shape"]).copy()
        found = {name: _arrays(entry) for name, entry in value.items()}
        return _sparse(found) if sorted(value) == sorted(SPARSE) else found
    if isinstance(value, list) and not any(isinstance(entry, (str, dict)) for entry in value):
        return np.asarray(value)
    return [_arrays(entry) for entry in value] if isinstance(value, list) else value


def _sparse(parts: dict[str, Any]) -> Any:
    from scipy.sparse import csr_array

    indices, indptr = (np.asarray(parts[name], np.int32) for name in ("indices", "indptr"))
    return csr_array((np.asarray(parts["data"], np.float64), indices, indptr), shape=tuple(parts["shape"]))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.size >= MANY and value.dtype == np.float64:
            return {"float64": base64.b64encode(value.astype("<f8").tobytes()).decode(), "shape": value.shape}
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Subject):
        return value.as_dict()
    if is_sparse(value):
        return {name: getattr(value, name) for name in SPARSE}
    raise TypeError(f"{type(value).__name__} cannot be stored")
