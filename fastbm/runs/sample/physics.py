"""Physics from sampling runs: averages and responses at each temperature, overlaps, reweighting, exact lattices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import diagnostics
from ..._base import checks
from ...diagnostics import Estimate, OverlapDistribution, Reweighted
from ...diagnostics.autocorrelation import standard_errors
from ...models import square_lattice as lattice
from ...sampling.observables import OF_PAIRS
from .convergence import ODD, groups
from .errors import energy_error, floored, heat_floor, longest_visit, observable_error, of_unvaried
from .samples import Samples
from .series import At, Series, magnetisations, of_states, overlaps, recorded, temperatures
from .valleys import is_even

STEP = 1e-4  # of beta, for the derivative of log Z


class Temperature(NamedTuple):
    """Energy per unit and modulus of the magnetisation per unit at one temperature, with standard errors.

    `exact_energy` is that of the finite periodic lattice (Kaufman), `exact_magnetisation` that of the infinite one
    (Yang); None for other models. `pattern` is the clamped one, None where there are not several.
    """

    beta: float
    energy: float
    energy_error: float
    magnetisation: float
    magnetisation_error: float
    exact_energy: float | None
    exact_magnetisation: float | None
    r_hat: float | None
    pattern: int | None = None


class Thermodynamics(NamedTuple):
    """Averages per unit at one inverse temperature, each a value with its error.

    Magnetisations are means of -1 and +1 for a unit, and None at temperatures whose states were not recorded.

    Of a machine that is even under a flip of all units the magnetisation is 0 by symmetry, whatever side the chains are
    on, and has no error; the susceptibility is that of this mean. Of others P(s) / P(-s) is known, and errors are no
    smaller than what the mean misses for want of mirrors of states.

    Of overlaps q of chains 2k and 2k + 1 there are the spin-glass susceptibility n_units <q^2> and Binder's cumulant
    of q, the mean of its modulus, and that of overlaps of links, where they were recorded.
    """

    beta: float
    energy: Estimate
    specific_heat: Estimate
    magnetisation: Estimate | None = None
    abs_magnetisation: Estimate | None = None
    susceptibility: Estimate | None = None
    binder_cumulant: Estimate | None = None
    spin_glass_susceptibility: Estimate | None = None
    overlap_binder_cumulant: Estimate | None = None
    abs_overlap: Estimate | None = None
    link_overlap: Estimate | None = None


class Curves(list[Thermodynamics]):
    """Rows of `Thermodynamics`, and each of their columns as an array: `energy`, `energy_error`, ..., (n_betas,).

    What is not known at a temperature is NaN.
    """

    def to_dataframe(self) -> Any:
        """Return the rows as a data frame of pandas, errors in columns of their own."""
        from ..._base.frame import to_frame

        return to_frame(as_rows(self), "beta")

    def __repr__(self) -> str:
        betas = f", beta = {self[0].beta:g} to {self[-1].beta:g}" if self else ""
        return f"<Thermodynamics: {len(self)} temperatures{betas}>"

    def _repr_html_(self) -> str:
        from ..._base import html  # only notebooks ask

        known = [name for name in Thermodynamics._fields[1:] if any(getattr(row, name) is not None for row in self)]
        rows = [[f"{row.beta:g}", *(_shown(getattr(row, name)) for name in known)] for row in self]
        return html.table(rows, ["beta", *(name.replace("_", " ") for name in known)])

    def __getattr__(self, name: str) -> np.ndarray:
        """Return a column."""
        field = name.removesuffix("_error")
        if name.startswith("_") or field not in Thermodynamics._fields or name == "beta_error":
            raise AttributeError(f"there is no {name}; columns are {', '.join(Thermodynamics._fields)}, with _error")
        return np.array([row[name] for row in as_rows(self)])


def thermodynamics(run: Samples) -> Curves:
    """Return one row for each inverse temperature, those of a ladder included."""
    _check_series(run)
    check_one_pattern(run, "thermodynamics")
    spins, pairs, even = magnetisations(run), recorded(run, "overlap"), is_even(run)
    links = recorded(run, "link_overlap")
    return Curves(averages_at(run, at, spins, pairs, even=even, links=links) for at in temperatures(run))


def averages_at(
    run: Samples, at: At, spins: Series, pairs: Series, *, even: bool, links: Series | None = None
) -> Thermodynamics:
    """Return averages at one temperature, given the magnetisations and the overlaps of the run."""
    from .order import (
        mirrors_of,
        of_energies,
        of_link_overlaps,
        of_magnetisations,
        of_overlaps,
    )  # which a sample does without

    n_units, beta, energy = run._start.n_units, at.beta, at.energy
    heat, m = diagnostics.specific_heat(energy, beta, n_units), spins.at(at)
    error, *errors = standard_errors(energy, *(() if m is None else (m, np.abs(m), m * m)))
    mirrors = None if even or m is None else mirrors_of(run, at, m)
    row = Thermodynamics(
        beta,
        of_energies(run, at, error, mirrors),
        floored(heat, heat_floor(run, energy, beta, error)),
    )
    if m is not None:
        row = Thermodynamics(*row[:3], *of_magnetisations(run, beta, m, errors, mirrors, even=even))
    if (q := pairs.at(at)) is not None:
        chi, binder, modulus = of_overlaps(run, q)
        row = row._replace(spin_glass_susceptibility=chi, overlap_binder_cumulant=binder, abs_overlap=modulus)
    if links is not None and (q := links.at(at)) is not None:
        row = row._replace(link_overlap=of_link_overlaps(run, q))
    return row


def _shown(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.value:.5g} ± {estimate.error:.2g}"


def as_rows(found: list[Thermodynamics]) -> list[dict[str, float]]:
    """Return averages as rows of plain numbers, errors in columns of their own."""
    rows = []
    for one in found:
        row = {"beta": one.beta}
        for name, estimate in zip(one._fields[1:], one[1:], strict=True):
            row[name], row[f"{name}_error"] = (np.nan, np.nan) if estimate is None else estimate
        rows.append(row)
    return rows


def _check_series(run: Samples) -> None:
    """Refuse averages over samples that are no series of chains at their temperatures."""
    check_chains(run)
    if run.at_log_times:
        raise AttributeError(
            'samples at logarithmic times (thin="log") are a relaxation, over which there are no averages: '
            "relaxation() has means over chains at each time."
        )


def check_chains(run: Samples) -> None:
    """Refuse runs whose chains did not stay at their temperatures, or that have no samples yet."""
    if not run.has_chains:
        raise AttributeError("this needs chains that stay at their temperatures, as no schedule of annealing has.")
    if not len(run.sweep):
        raise ValueError("the run has no samples yet.")


def check_one_pattern(run: Samples, name: str) -> None:
    """Refuse to average over chains of several clamped patterns: each pattern makes another machine."""
    if (n_patterns := n_clamped_patterns(run)) > 1:
        raise ValueError(
            f"{name} would mix the {n_patterns} clamped patterns of this run, each a machine of its own. Sample one "
            "pattern a run."
        )


def overlap_distribution(run: Samples, beta: float | None, bins: int | None) -> OverlapDistribution:
    """Return P(q) at one temperature, from the recorded overlaps or else from the recorded states."""
    _check_series(run)
    check_one_pattern(run, "overlap_distribution")
    values, beta = overlaps(run), None if beta is None else checks.real("beta", beta)
    known = [at for at in temperatures(run) if values.at(at) is not None]
    if beta is None and len(np.unique(run.beta)) > 1:
        raise ValueError(f"overlap_distribution needs beta, one of {', '.join(f'{at.beta:g}' for at in known)}.")
    chosen = known[-1] if beta is None else min(known, key=lambda at: abs(at.beta - beta))
    if beta is not None and not np.isclose(chosen.beta, beta):
        raise ValueError(
            f"beta must be a temperature at which chains were recorded; the nearest to {beta:g} is {chosen.beta:g}."
        )
    q = values.at(chosen)
    if q is None or not q.shape[1]:
        raise ValueError(
            f"overlap_distribution compares chains 2k and 2k + 1; there is no such pair at {chosen.beta:g}."
        )
    return diagnostics.overlap_distribution(q, run._start.n_units, bins, even=is_even(run))


class CorrelationLengths(NamedTuple):
    """Second-moment correlation lengths at the temperatures of a run, in lattice spacings, each with its error."""

    beta: np.ndarray
    value: np.ndarray
    error: np.ndarray

    def __repr__(self) -> str:
        from ..._base.shown import brief

        return brief(self)


def correlation_length(run: Samples, of: str) -> CorrelationLengths:
    """Return the correlation length at each temperature whose structure factor or states were recorded."""
    from ...sampling.structure import periodic_sides

    checks.choice("of", of, ("spins", "overlaps"))
    _check_series(run)
    check_one_pattern(run, "correlation_length")
    origin = run.config.get("model", {}).get("origin", {})
    sides = periodic_sides(origin, run._start.n_units, "correlation_length")
    names = ("magnetisation", "structure_factor") if of == "spins" else ("overlap", "overlap_structure_factor")
    order, smallest = (recorded(run, name) for name in names)
    if order.of_chains is None or smallest.of_chains is None:
        run._need("samples/states", f"samples, and not both of observables {names[0]!r} and {names[1]!r},")
    rows, even = [], is_even(run)
    for at in temperatures(run):
        q, s_k = order.at(at), smallest.at(at)
        if (q is None or s_k is None) and at.has_states and run.has_states:
            q, s_k = np.moveaxis(_structure(run, at, sides, of), -1, 0)
        if q is not None and s_k is not None:
            if not q.shape[1]:
                raise ValueError("of='overlaps' compares chains 2k and 2k + 1, and there is one chain.")
            rows.append((at.beta, *length_of(q, s_k, run._start.n_units, max(sides), even=even)))
    return CorrelationLengths(*np.array(rows).T)


def length_of(q: np.ndarray, s_k: np.ndarray, n_units: int, length: int, *, even: bool) -> Estimate:
    """Return the correlation length from means of spins or overlaps, and S(k); connected but for an even machine."""
    structure, order = np.stack([n_units * q * q, s_k], axis=-1), None if even else np.sqrt(n_units) * q
    return diagnostics.correlation_length(structure, length, order)


def _structure(run: Samples, at: At, sides: list[int], of: str) -> np.ndarray:
    """Return the mean and S(k) at the smallest k of recorded states, (n_samples, n_chains or n_pairs, 2)."""
    from ...sampling.structure import structure_factor

    n_units = run._start.n_units

    def structure(packed: np.ndarray) -> np.ndarray:
        if of == "overlaps":
            n_pairs = packed.shape[1] // 2
            packed = packed[:, : 2 * n_pairs : 2] ^ packed[:, 1 : 2 * n_pairs : 2]
        mean = 2.0 * np.bitwise_count(packed).sum(axis=-1, dtype=np.int64) / n_units - 1.0
        return np.stack([mean, structure_factor(packed, sides)], axis=-1)

    return of_states(run, at, structure)


def reweight(run: Samples, betas: Any, observable: Any) -> Reweighted:
    """Return means at other inverse temperatures, each from the nearest one that was sampled."""
    _check_series(run)
    check_one_pattern(run, "reweight")
    wanted = checks.finite_array("betas", betas)
    if wanted.ndim > 1 or not wanted.size:
        raise ValueError(f"betas must be a number or a list of numbers; got shape {wanted.shape}.")
    values, kind = _values(run, observable), _kind(run, observable)
    sampled = [(at, None if values is None else values.at(at)) for at in temperatures(run)]
    sampled = [(at, observed) for at, observed in sampled if values is None or observed is not None]
    rows = []
    for new in np.atleast_1d(wanted):
        at, observed = min(sampled, key=lambda one: abs(one[0].beta - new))
        energy = at.energy
        if kind in OF_PAIRS:  # both go to the other temperature, so that the sum of their energies weighs a pair
            energy = energy[:, ::2] + energy[:, 1::2]
        if observed is None:
            rows.append(diagnostics.reweight(energy, energy, at.beta, float(new)))
        elif kind in ODD and is_even(run):  # whatever side chains are on
            rows.append(diagnostics.reweight(energy, np.zeros_like(observed), at.beta, float(new)))
        else:
            rows.append(of_unvaried(diagnostics.reweight(energy, observed, at.beta, float(new))))
    value, error, ess = (np.array([row[k] for row in rows]) for k in range(3))
    return Reweighted(value, error, ess) if wanted.ndim else Reweighted(value[0], error[0], float(ess[0]))


def _kind(run: Samples, observable: Any) -> str | None:
    """Return which of the named observables is asked for, under whatever name; None for functions and arrays."""
    named = run.config["sample"].get("observables") or {}
    return named.get(observable, observable) if isinstance(observable, str) else None


def _values(run: Samples, observable: Any) -> Series | None:
    """Return the values of an observable for all samples, of chains or pairs; None for the energy."""
    if isinstance(observable, str):
        if observable == "energy":
            return None
        if observable in run.observables:
            values, of_pairs = run.observables[observable], _kind(run, observable) in OF_PAIRS
            ladder = run.read(f"ladder/{observable}") if f"ladder/{observable}" in run.streams else None
            return Series(values if of_pairs else _of_chains(run, values), ladder, of_pairs)
        if observable == "magnetisation":
            run._need("samples/states", "samples")
            return magnetisations(run)
        known = ["energy", "magnetisation", *run.observables]
        raise ValueError(f"observable must be one of {', '.join(map(repr, known))}, or an array; got {observable!r}.")
    return Series(_of_chains(run, checks.any_array("observable", observable)), None)


def _of_chains(run: Samples, values: np.ndarray) -> np.ndarray:
    if values.shape[:2] != (len(run.sweep), len(run.beta)):
        raise ValueError(
            f"observable must have one value for each sample and chain, {(len(run.sweep), len(run.beta))}; got "
            f"{values.shape}."
        )
    return values


def by_temperature(run: Samples) -> list[Temperature]:
    """Return one row for each inverse temperature of a sampling run, and each clamped pattern at it."""
    _check_series(run)
    energy, magnetisation = run.energy / run._start.n_units, np.abs(run.magnetisation)
    sides = square_lattice(run)
    n_patterns = n_clamped_patterns(run)
    rows = []
    for chains in groups(run):
        beta, e, m = float(run.beta[chains[0]]), energy[:, chains], magnetisation[:, chains]
        rows.append(
            Temperature(
                beta,
                float(e.mean()),
                energy_error(run, energy[:, chains] * run._start.n_units, beta) / run._start.n_units,
                float(m.mean()),
                observable_error(m, 2.0 / run._start.n_units, longest_visit(run)),
                lattice_energy(*sides, beta) if sides is not None else None,
                lattice.onsager_magnetisation(beta) if sides is not None else None,
                float(diagnostics.r_hat(e)) if np.ptp(e) > 0.0 else None,
                int(chains[0]) * n_patterns // len(run.beta) if n_patterns > 1 else None,
            )
        )
    return rows


def n_clamped_patterns(run: Samples) -> int:
    """Return the number of patterns that are clamped, each of which makes another machine; 1 where nothing is."""
    return int(run.config["sample"].get("n_patterns") or 1)


def square_lattice(run: Samples) -> tuple[int, int] | None:
    """Return the sides of the periodic square lattice with J = 1 and no field that a run samples, or None.

    With clamped units it is another machine, hence None.
    """
    if run.config.get("sample", {}).get("n_patterns"):
        return None
    origin = run.config.get("model", {}).get("origin", {})
    if origin.get("name") != "ising" or not origin["periodic"] or origin["coupling"] != 1.0:
        return None
    if origin["field"] != 0.0 or origin.get("random_field"):
        return None
    sides = origin["shape"]
    return (sides[0], sides[1]) if len(sides) == 2 and min(sides) >= 3 else None


def lattice_energy(rows: int, columns: int, beta: float) -> float:
    """Return the exact energy per unit of the periodic lattice: minus the derivative of Kaufman's log Z."""
    if beta < STEP:  # where it is linear to 1e-8
        return lattice_energy(rows, columns, STEP) * (beta / STEP)
    high, low = beta + STEP, beta - STEP
    slope = (lattice.kaufman_log_z(rows, columns, high) - lattice.kaufman_log_z(rows, columns, low)) / (high - low)
    return -slope / (rows * columns)
