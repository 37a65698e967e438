"""Error bars by the Fisher information of one row, F = beta^2 Cov(E[phi | v]), phi = (s_i s_j, s_i).

Without hidden units E[phi | v] is phi itself, and F is minus the Hessian of the mean log-likelihood of a row, whatever
the rows. With hidden units the score of a row is beta (E[phi | v] - E[phi]), clamped less free moments; its covariance
over rows is the information that is left when what the hidden units hide is taken away.

Fisher, Phil. Trans. R. Soc. A 222, 309 (1922), doi:10.1098/rsta.1922.0009; Louis, J. R. Stat. Soc. B 44, 226 (1982),
doi:10.1111/j.2517-6161.1982.tb01203.x.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._base import checks, rng
from ...data.datasets import check_row_weights, n_worth
from ...data.rows import Rows
from ...inference.ais.path import draw_starts
from ...machine.machine import BoltzmannMachine
from ...machine.magnitude import refuse_beyond_range
from ..moments import Parameters
from .errors import Errors, sandwich
from .statistics import Statistics, exact_moments, never_seen, row_moments, visible_moments

METHODS = ("auto", "exact", "monte-carlo", "rows")
MOST_UNITS = 24  # whose states are summed without hidden units
MOST_VISIBLE = 14  # whose states are summed with hidden units
MOST_PARAMETERS = 2_500
FEWEST_SAMPLES, USUAL_SAMPLES = 10, 20  # for each parameter
LEAST_SAMPLES, MOST_SAMPLES = 10_000, 100_000  # by default; in between as many as rows, to see what these have seen
LEAST_ROWS = 0.5  # states of a pair that are expected in fewer rows were in none
SWEEPS = (200, 1_000)  # by default: the second where the first do not converge
WAY_OUT = 'Use errors="bootstrap", which needs no information matrix.'


class Information(NamedTuple):
    """The Fisher information (n_parameters, n_parameters) of one row, and the means <phi>.

    Couplings are in the order of `Couplings.to_vector`, then biases.
    """

    matrix: np.ndarray
    mean: np.ndarray
    method: str
    detail: dict[str, Any]


def fisher_errors(
    model: BoltzmannMachine,
    *,
    n_rows: int,
    beta: float = 1.0,
    rows: np.ndarray | Rows | None = None,
    row_weights: np.ndarray | None = None,
    l2: float = 0.0,
    l2_bias: float = 0.0,
    method: str = "auto",
    n_samples: int | None = None,
    n_sweeps: int | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Errors:
    """Return standard errors of couplings and biases that were learned by maximum likelihood.

    Parameters
    ----------
    model : BoltzmannMachine
        The learned machine.
    n_rows : int
        How many rows it was learned from.
    beta : float
        Inverse temperature at which it was learned.
    rows : (m, n_visible) array, optional
        The data in the machine's units, for "rows".
    row_weights : (m,) array, optional
        What rows count for, all alike unless given.
    l2, l2_bias : float
        The penalty it was learned with. Errors are then those of the penalised estimate about its own mean, which the
        penalty has moved towards 0: they say nothing of that bias.
    method : {"auto", "exact", "monte-carlo", "rows"}
        Moments from all states, from samples of the machine, or from the data's rows, which takes the machine to be as
        good as the truth. "auto" takes rows that are given where there are hidden units, else all states where they can
        be summed.
    n_samples : int, optional
        For "monte-carlo"; 20 for each parameter, and at least 10,000 or as many as rows up to 100,000, unless given.
        States of a pair that no sample has seen count as states that the data do not have.
    n_sweeps : int, optional
        Sweeps of each sample's own chain where samples cannot be drawn from exact tables; 200, and 1000 where these are
        too few, unless given.
    seed, threads : int

    Returns
    -------
    Errors
        `detail["unidentified"]` names what the data do not determine, such as the coupling of two units that are never
        on together: its error is `inf` unless the penalty holds it. `detail["pulled"]` are the numbers of
        couplings that the penalty moves by more than their error, to first order. Of "monte-carlo" and "rows"
        `detail["relative_error"]` is that of the errors themselves. `detail["information"]` and `detail["mean"]` are
        the information of a row, its diagonal, and the means of the statistics, in the order of `Statistics`.

    Raises
    ------
    ValueError
        If there are too many parameters or too few samples for an inverse, or hidden units that are coupled to one
        another.

    Notes
    -----
    The inverse of a covariance from m samples is too large by (m - 1) / (m - n_parameters - 2) on average (of normal
    variables: inverse Wishart); this is divided out. Cost of "exact" O(n 2^n + n_parameters^3).
    """
    n_rows = checks.whole("n_rows", n_rows, least=1)
    l2, l2_bias = checks.real("l2", l2, least=0.0), checks.real("l2_bias", l2_bias, least=0.0)
    if n_samples is None:
        n_samples = max(LEAST_SAMPLES, USUAL_SAMPLES * _n_parameters(model), min(n_rows, MOST_SAMPLES))
    found = fisher_information(
        model, beta=beta, rows=rows, row_weights=row_weights, method=method, n_samples=n_samples, n_sweeps=n_sweeps,
        seed=seed, threads=threads,
    )  # fmt: skip
    statistics = Statistics(model)
    penalty = np.repeat([l2, l2_bias], [statistics.n_pairs, statistics.n_units])
    errors, unidentified, pull = sandwich(found.matrix, penalty, n_rows, statistics.vector(Parameters.of(model)))
    if not model.n_hidden:
        about = (statistics, found.mean, model.convention, LEAST_ROWS / n_rows)
        unidentified |= never_seen(*about, weights_held=False, bias_held=False)
        errors[never_seen(*about, weights_held=l2 > 0, bias_held=l2_bias > 0)] = np.inf
    names = tuple(statistics.name(int(k)) for k in np.flatnonzero(unidentified))
    weights = model.couplings.from_vector(errors[: statistics.n_pairs])
    about_row = {"information": np.diagonal(found.matrix), "mean": found.mean}
    pulled = np.flatnonzero((np.abs(pull) > errors)[: statistics.n_pairs])
    detail = {**found.detail, **about_row, "n_parameters": len(statistics), "unidentified": names, "pulled": pulled}
    return Errors(weights, errors[statistics.n_pairs :], f"fisher {found.method}", detail)


def fisher_information(
    model: BoltzmannMachine,
    *,
    beta: float = 1.0,
    rows: np.ndarray | Rows | None = None,
    row_weights: np.ndarray | None = None,
    method: str = "auto",
    n_samples: int | None = None,
    n_sweeps: int | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Information:
    """Return the Fisher information of one row; arguments as for `fisher_errors`."""
    beta = checks.real("beta", beta, least=0.0)
    refuse_beyond_range(model, beta)
    refuse_information(model)
    n_parameters = _n_parameters(model)
    method = _resolve(model, method, rows is not None)
    if method == "exact":
        moments = visible_moments(model, beta, threads) if model.n_hidden else exact_moments(model, beta)
        return Information(beta**2 * moments.covariance(), moments.mean, method, {})
    if method == "rows":
        if not isinstance(rows, Rows):
            rows = Rows.of(model.check_states(rows, argument="rows", n_units=model.n_visible))
        up: Rows | np.ndarray
        up, weights = rows.of_weight(check_row_weights(row_weights, len(rows)))
        n = len(up) if weights is None else n_worth(weights)
        _refuse_few("rows has", n, n_parameters, 'Leave rows out, which takes samples of the machine ("monte-carlo").')
        detail: dict[str, Any] = {}
    else:
        default = max(LEAST_SAMPLES, USUAL_SAMPLES * n_parameters)
        n_samples = default if n_samples is None else checks.whole("n_samples", n_samples, least=1)
        _refuse_few("n_samples is", n_samples, n_parameters, f"Pass n_samples={USUAL_SAMPLES * n_parameters}.")
        up, detail = _draw(model, beta, n_samples, n_sweeps, seed, threads)
        weights, n = None, n_samples
    surplus = n - n_parameters - 2
    moments = row_moments(model, up, beta, threads, None if weights is None else weights / weights.sum())
    matrix = moments.covariance() * (beta**2 * n / surplus)
    about = {"n_samples": n, "relative_error": float(np.sqrt(0.5 / surplus))}
    return Information(matrix, moments.mean, method, {**detail, **about})


def refuse_information(model: BoltzmannMachine) -> None:
    """Refuse machines whose Fisher information cannot be computed, whatever their parameters are."""
    if not model.hidden_are_independent:
        raise ValueError(
            "the Fisher information needs hidden units that are coupled to visible ones only (a restricted machine). "
            + WAY_OUT
        )
    n_parameters = _n_parameters(model)
    if n_parameters > MOST_PARAMETERS:
        raise ValueError(
            f"the Fisher information of {n_parameters} parameters is too large to be inverted; the limit is "
            f"{MOST_PARAMETERS}. {WAY_OUT}"
        )


def has_enough(model: BoltzmannMachine, n_samples: int) -> bool:
    """Return whether `n_samples` samples determine the information well enough for its inverse."""
    return n_samples >= FEWEST_SAMPLES * _n_parameters(model)


def _n_parameters(model: BoltzmannMachine) -> int:
    return model.couplings.to_vector(model.couplings.arrays).size + model.n_units


def _resolve(model: BoltzmannMachine, method: str, has_rows: bool) -> str:
    """Return the method, chosen where it is "auto", and checked."""
    method = checks.choice("method", method, METHODS)
    n, most, kind = (
        (model.n_visible, MOST_VISIBLE, "visible units of a machine with hidden ones")
        if model.n_hidden
        else (model.n_units, MOST_UNITS, "units")
    )
    if method == "auto":
        if model.n_hidden and has_rows:
            return "rows"
        return "exact" if n <= most else "monte-carlo"
    if method == "exact" and n > most:
        raise ValueError(f'method="exact" is for up to {most} {kind}; got {n}. Use method="monte-carlo".')
    if method == "rows" and not has_rows:
        raise ValueError('method="rows" needs rows, the data. Pass them, or use method="auto".')
    return method


def _refuse_few(what: str, given: int, n_parameters: int, way_out: str) -> None:
    needed = FEWEST_SAMPLES * n_parameters
    if given < needed:
        raise ValueError(
            f"the information of {n_parameters} parameters needs at least {needed} samples for its inverse; "
            f"{what} {given}. {way_out}"
        )


def _draw(
    model: BoltzmannMachine, beta: float, n_samples: int, n_sweeps: int | None, seed: int, threads: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Draw independent samples of the visible units: from exact tables, or the last states of chains of their own."""
    for sweeps in SWEEPS if n_sweeps is None else (n_sweeps,):
        starts = draw_starts(model, beta, n_samples, "auto", sweeps, rng.derive(seed, rng.MONITOR, 1), threads)
        if starts.converged is not False:
            break
    if starts.converged is False:
        checks.warn(
            f"the samples behind the Fisher information have not converged after n_sweeps={sweeps}: error bars may "
            "be wrong. Raise n_sweeps.",
        )
    return starts.up[:, : model.n_visible], {**starts.detail, "converged": starts.converged is not False}
