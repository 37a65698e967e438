"""How well a learned machine reproduces its data: means, pairs, triples, and the number of units that are up.

The learning rule sees means and pairs; triples and the distribution of the population count are predictions.
Schneidman, Berry, Segev and Bialek, Nature 440, 1007 (2006), doi:10.1038/nature04701; Tkacik et al., PLoS Comput.
Biol. 10, e1003408 (2014), doi:10.1371/journal.pcbi.1003408.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base import checks, html, rng, threads as threads_module
from ..._base.shown import brief
from ..._base.streams import Stream
from ...data import datasets as data_module
from ...data.rows import Rows
from ...diagnostics import R_HAT_LIMIT
from ...machine.checks import check_columns
from ...machine.machine import BoltzmannMachine, check_machine
from ...machine.magnitude import refuse_beyond_range
from ..errors.blocks import Together
from .machine_moments import can_sum, sampled, summed
from .moments import MOST_TRIPLES, ORDERS, UpMoments, count, errors_of_blocks, n_independent, some_triples, weighted

PARTS = ("data", "machine", "error", "machine_error", "z")
MOST_UNITS = 2_048  # visible ones: 16 matrices of counts take half a gigabyte
# powers of hi - lo by which one row can change a sum
SPANS = {"mean": 1, "second_moment": 1, "covariance": 2, "triple": 3, "population": 0}
NUMBERS = ("n_rows", "n_samples", "r_hat", "precise")


@dataclass(frozen=True, eq=False)
class Compared:
    """Moments of one order, of the data and of the machine.

    Attributes
    ----------
    data, machine : array
    error : array
        Standard error of `data`, from the scatter of contiguous blocks or trials; where rows are independent, theirs.
        It holds for what few rows show, or none, or all of them: two rows more of each kind count (Agresti and Coull,
        Am. Stat. 52, 119 (1998), doi:10.1080/00031305.1998.10480550), as many as independent rows go.
    machine_error : array
        Monte Carlo error of `machine`, likewise; 0 where it was summed exactly.
    z : array
        (machine - data) over its standard error: the sampling noise of the rows, by what was seen of the data or by the
        moments of the machine, whichever is larger, and the Monte Carlo error. It is smaller than `error` of rare
        events, for which the machine says what to expect. Where all of these are 0, as for a unit that neither side
        ever changes, one row more or less stands for them.
    """

    data: np.ndarray
    machine: np.ndarray
    error: np.ndarray
    machine_error: np.ndarray
    z: np.ndarray

    def __repr__(self) -> str:
        return brief(self)

    @property
    def root_mean_square(self) -> float:
        """Root mean square difference between the machine's moments and the data's."""
        return float(np.sqrt(np.mean((self.machine - self.data) ** 2))) if self.data.size else 0.0

    @property
    def chi2(self) -> float:
        """Mean square of the differences in standard errors, z.

        It is 1 where the machine is the source of the rows, below where it was fitted to these moments.
        """
        return float(np.mean(self.z**2)) if self.z.size else 0.0

    @property
    def largest_z(self) -> float:
        """Largest difference in standard errors, |z|."""
        return float(np.abs(self.z).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Fidelity:
    """The comparison of a machine with data, made by `fastbm.fidelity`.

    Attributes
    ----------
    mean : Compared
        <s_i>, (n_visible,), in the machine's units as all moments.
    second_moment, covariance : Compared
        <s_i s_j> and <ds_i ds_j> of all pairs i < j in order.
    triple : Compared
        <ds_i ds_j ds_k> of `triples`.
    population : Compared
        P(K), the probability that K units are up, (n_visible + 1,).
    triples : (n_triples, 3) int array
        All of up to 50 units, else 19,600 that were drawn.
    n_rows, n_samples : int
        Rows of data, of equal weight or worth as much; samples of the machine, 0 where all states were summed.
    r_hat : float
        Of the chains' energies, or of the single unit in which chains agree least, where that is larger than chance
        makes it and the machine is not even; 1 where there are no chains.
    precise : bool
        Whether the machine's errors are below a third of the data's.
    n_worth : float
        Independent rows that they are worth, by the scatter of blocks or trials; 0 where rows are independent.
    """

    mean: Compared
    second_moment: Compared
    covariance: Compared
    triple: Compared
    population: Compared
    triples: np.ndarray
    n_rows: int
    n_samples: int
    r_hat: float
    precise: bool
    n_worth: float = 0.0

    def __repr__(self) -> str:
        worst = max(ORDERS, key=lambda name: getattr(self, name).largest_z)
        found = f"{self.mean.data.size} units, {self.n_rows} rows, largest |z| {getattr(self, worst).largest_z:.3g}"
        return f"<Fidelity: {found} ({worst.replace('_', ' ')})>"

    def _repr_html_(self) -> str:
        rows = [(name.replace("_", " "), f"{value:.4g}") for name, value in self.summary().items()]
        return html.table(rows)

    def plot(self) -> Any:
        """Draw moments of machine and data, and P(K): `plots.figure` of the comparison."""
        from ..._base.late import public

        return public("plots").figure(self)

    @property
    def population_divergence(self) -> float:
        """Jensen-Shannon divergence of P(K), in nats: from 0 to log 2. Lin, IEEE Trans. Inf. Theory 37, 145 (1991)."""
        p, q = self.population.data, self.population.machine
        middle = (p + q) / 2
        return 0.5 * (_relative_entropy(p, middle) + _relative_entropy(q, middle))

    @property
    def population_divergence_noise(self) -> float:
        """Divergence expected from sampling alone: (levels - 1) / 8 (1 / independent rows + 1 / samples)."""
        n_levels = int(((self.population.data > 0) | (self.population.machine > 1 / self.n_rows)).sum())
        return (
            (n_levels - 1) / 8 * (1 / (self.n_worth or self.n_rows) + (1 / self.n_samples if self.n_samples else 0.0))
        )

    def summary(self) -> dict[str, float]:
        """Return the comparison in a few numbers.

        For each order the root mean square difference, chi^2 / n and the largest |z|; for P(K) the Jensen-Shannon
        divergence.
        """
        found: dict[str, float] = {name: getattr(self, name) for name in NUMBERS}
        for name in ORDERS:
            one = getattr(self, name)
            found |= {f"{name}_rms": one.root_mean_square, f"{name}_chi2": one.chi2, f"{name}_z": one.largest_z}
        noise = {"population_divergence_noise": self.population_divergence_noise}
        return found | {"population_divergence": self.population_divergence} | noise

    def rows(self) -> dict[str, np.ndarray]:
        """Return one row of each of `streams`."""
        found = {f"{name}/{part}": getattr(getattr(self, name), part)[None] for name in ORDERS for part in PARTS}
        return (
            found | {"triples": self.triples[None]} | {name: np.array([float(getattr(self, name))]) for name in NUMBERS}
        )

    @classmethod
    def of_rows(cls, rows: Mapping[str, np.ndarray]) -> Fidelity:
        """Make a comparison from rows that `rows` returned; from the last, where there are several."""
        orders = {name: Compared(*(np.asarray(rows[f"{name}/{part}"][-1]) for part in PARTS)) for name in ORDERS}
        n_rows, n_samples, r_hat, precise = (float(rows[name][-1]) for name in NUMBERS)
        return cls(
            **orders,
            triples=rows["triples"][-1],
            n_rows=int(n_rows),
            n_samples=int(n_samples),
            r_hat=r_hat,
            precise=bool(precise),
            n_worth=0.0,
        )

    @staticmethod
    def streams(n_visible: int) -> dict[str, Stream]:
        """Return the streams of `rows` for a machine of `n_visible` visible units."""
        n_pairs = n_visible * (n_visible - 1) // 2
        n_triples = min(n_pairs * (n_visible - 2) // 3, MOST_TRIPLES)
        sizes = dict(zip(ORDERS, (n_visible, n_pairs, n_pairs, n_triples, n_visible + 1), strict=True))
        found = {f"{name}/{part}": Stream("<f8", (size,)) for name, size in sizes.items() for part in PARTS}
        return found | {"triples": Stream("<i8", (n_triples, 3))} | {name: Stream("<f8") for name in NUMBERS}


def _relative_entropy(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.sum(p[p > 0] * np.log(p[p > 0] / q[p > 0])))


def fidelity(
    model: BoltzmannMachine,
    rows: Any,
    *,
    row_weights: Any = None,
    beta: float = 1.0,
    block: int | str = 1,
    trials: Any = None,
    n_samples: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    max_seconds: float = 60.0,
) -> Fidelity:
    """Compare the visible units of a machine with rows of data.

    Parameters
    ----------
    model : BoltzmannMachine
        Visible, restricted, or with hidden units anywhere.
    rows : (n_rows, n_visible) array, or Rows
        In the machine's units; those it was learned from, or better, those held out.
    row_weights : (n_rows,) array, optional
        What rows count for, all alike unless given. Rows are drawn independently, and weights may depend on their
        states: the data's errors are from sum w^2 (x - <x>)^2 / (sum w)^2. As many rows as (sum w)^2 / sum w^2 of equal
        weight are worth as much where weights do not (Kish, Survey Sampling, 1965).
    beta : float
        Inverse temperature.
    block : int or "auto"
        Rows that stay together where errors are found, as neighbours in time are not independent; "auto" takes ten
        autocorrelation times of the slowest of units, the number of units up, and leading principal axes. With 1, the
        default, rows are independent.
    trials : (n_rows,) array, optional
        The trial of each row, in place of `block`: errors come from the scatter of whole trials,
        which should be of about one length: each counts alike, however long it is.
    n_samples : int, optional
        Samples of the machine, rounded up to a multiple of 1024. When left out, all states are summed for up to 20
        visible units, or, where hidden units are coupled to one another, up to 20 units in all; else there are samples
        until the errors of the machine's moments are a third of the data's.
    seed : int
    threads : int, optional
    max_seconds : float
        Stop sampling then; what there is counts.

    Returns
    -------
    Fidelity

    Raises
    ------
    ValueError, TypeError
        For rows that do not fit the machine, and blocks or trials of which there are fewer than 20.

    Examples
    --------
    >>> import fastbm as bm
    >>> model = bm.BoltzmannMachine([[0.0, 0.5], [0.5, 0.0]], units="spin")
    >>> found = bm.fidelity(model, [[1, 1], [1, 1], [-1, -1], [1, -1]])
    >>> found.covariance.data, found.covariance.machine.round(4)
    (array([0.5]), array([0.4621]))
    """
    check_machine(model)
    refuse_many_units(model)
    if isinstance(rows, Rows):
        up = rows
    else:
        given = data_module.check_rows(check_columns("rows", rows, model.names), "rows")
        up = Rows.of(model.check_states(given, argument="rows", n_units=model.n_visible))
    beta, seed = checks.real("beta", beta, least=0.0), rng.resolve(seed)
    refuse_beyond_range(model, beta)
    max_seconds = checks.real("max_seconds", max_seconds, above=0.0)
    threads = threads_module.resolve(threads)
    chosen = some_triples(model.n_visible, seed)
    weights = data_module.check_row_weights(row_weights, len(up))
    by_squares = None
    if weights is None:
        data, n_rows = UpMoments.of(count(up, chosen, threads), chosen), len(up)
    else:
        data, by_squares = weighted(up, weights, chosen), weighted(up, weights**2, chosen)
        n_rows = data_module.n_worth(weights)
    units = model.convention
    scatter = {name: np.sqrt(variance / n_rows) for name, variance in data.variances(units, by_squares).items()}
    n_worth = float(n_rows)
    together = Together.of(block, trials, up)
    if together.block != 1:
        if weights is not None:
            raise ValueError(
                "row_weights go with rows that are independent: leave block and trials out, or the weights."
            )
        alone, scatter = scatter, errors_of_blocks(up, chosen, together, units, threads)
        n_worth = n_independent(n_rows, alone, scatter, len(together.cuts()))
    if n_samples is None and can_sum(model):
        machine = summed(model, beta, chosen)
    else:
        n_samples = None if n_samples is None else checks.whole("n_samples", n_samples, least=1)
        machine = sampled(
            model,
            beta,
            chosen,
            scatter,
            n_rows,
            n_samples=n_samples,
            seed=seed,
            threads=threads,
            max_seconds=max_seconds,
        )
        if machine.r_hat > R_HAT_LIMIT:
            checks.warn(
                f"the machine's chains have not converged: r_hat = {machine.r_hat:.3g} (above {R_HAT_LIMIT}). Its "
                "moments, and their errors, are not to be trusted.",
            )
    ours, theirs = data.values(units), machine.moments.values(units)
    noise = {name: np.sqrt(variance / n_worth) for name, variance in machine.moments.variances(units).items()}
    errors, orders = data.errors(units, scatter, n_worth), {}
    for name in ORDERS:
        scale = np.hypot(np.maximum(scatter[name], noise[name]), machine.errors[name])
        one_row = units.span ** SPANS[name] / n_rows
        z = (theirs[name] - ours[name]) / np.where(scale > 0.0, scale, one_row)
        orders[name] = Compared(ours[name], theirs[name], errors[name], machine.errors[name], z)
    return Fidelity(
        **orders,
        triples=chosen,
        n_rows=n_rows,
        n_samples=machine.n_samples,
        r_hat=machine.r_hat,
        precise=machine.precise,
        n_worth=n_worth if together.block != 1 else 0.0,
    )


def refuse_many_units(model: BoltzmannMachine) -> None:
    """Refuse machines of too many pairs."""
    if model.n_visible > MOST_UNITS:
        raise ValueError(
            f"fidelity is for at most {MOST_UNITS} visible units, as all their pairs are counted many times over; got "
            f"{model.n_visible}. bm.log_likelihood and bm.pseudo_likelihood judge larger machines."
        )
