"""Pictures for notebooks and papers: functions that draw into given axes and return them, and whole figures.

Each function draws into `ax`, or into Matplotlib's current axes where none are given. None of them shows or saves
anything, or changes settings of Matplotlib. Colours can be told apart without red and green.

`figure` draws all that `fastbm plot` does: one figure for a run, a result, or a machine held against its data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import matplotlib
except ImportError:
    raise ImportError('pictures need Matplotlib: pip install "fastbm[plot]"') from None

from ..inference.comparison import Comparison
from ..inference.result import Inference
from ..inference.temperatures import Temperatures
from ..learning.fidelity.fidelity import Fidelity
from ..learning.fidelity.patterns import PatternFrequencies
from ..learning.planted.comparison import RuleComparison
from ..runs.run import Run
from .pictures import fit, sample
from .pictures.campaign import draw_campaign
from .pictures.compare import comparison_figure, rules_figure
from .pictures.given import curves_of, machine_of, of_kind, sampled
from .pictures.run import draw_coupling_matrix, draw_couplings, draw_errors, draw_learning, has_errors, run_figure
from .pictures.style import STYLE
from .pictures.temperatures import PANELS, draw_quantity, draw_temperatures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "autocorrelation", "campaign", "coupling_matrix", "couplings", "covariances", "energies", "energy", "figure",
    "learning", "magnetisation", "means", "overlaps", "patterns", "population_count", "relaxation", "swaps",
    "temperatures", "trace", "triples",
]  # fmt: skip


def figure(what: Any) -> Figure:
    """Draw all that a run, a result or a comparison has to show.

    Parameters
    ----------
    what : Run, Inference, Comparison, RuleComparison, Temperatures or Fidelity

    Returns
    -------
    matplotlib.figure.Figure
        Of its own, which pyplot does not know.

    Raises
    ------
    TypeError
        If it is none of these.
    ValueError
        If there is nothing to draw yet, or a result has no curves over temperatures.
    """
    with matplotlib.rc_context(STYLE):
        if isinstance(what, Run):
            return run_figure(what)
        if isinstance(what, Comparison):
            return comparison_figure(what)
        if isinstance(what, RuleComparison):
            return rules_figure(what)
        if isinstance(what, Fidelity):
            return fit.fidelity_figure(what)
        if isinstance(what, Inference | Temperatures):
            return draw_temperatures({"": curves_of(what)})
    raise TypeError(f"figure draws runs, results and comparisons; got {type(what).__name__}.")


def trace(run: Any, ax: Axes | None = None, *, n_chains: int = 8) -> Axes:
    """Draw energies of the first chains over sweeps.

    Parameters
    ----------
    run : Run
        Of `sample`.
    ax : matplotlib.axes.Axes, optional
        The current axes unless given.
    n_chains : int

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, sample.draw_trace, sampled(run), n_chains)


def energies(run: Any, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the energies of all samples.

    Each temperature and clamped pattern has its own, six of them at most, evenly chosen.

    Parameters
    ----------
    run : Run
        Of `sample`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, sample.draw_energies, sampled(run))


def autocorrelation(run: Any, ax: Axes | None = None) -> Axes:
    """Draw the autocorrelation of the energy over lags in sweeps, with tau_int in the title.

    Each temperature and clamped pattern has a curve of its own, six of them at most, evenly chosen.

    Parameters
    ----------
    run : Run
        Of `sample`, whose chains stay at their temperatures.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, sample.draw_autocorrelation, sampled(run))


def relaxation(run: Any, ax: Axes | None = None, *, quantity: str = "energy") -> Axes:
    """Draw means over chains at each recorded time with their errors where known; logarithmic times on such an axis.

    Parameters
    ----------
    run : Run
        Of `sample`, whose chains stay at their temperatures.
    ax : matplotlib.axes.Axes, optional
    quantity : {"energy" of a unit, "correlation" with the first sample}

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, sample.draw_relaxation, sampled(run), quantity)


def energy(run: Any, ax: Axes | None = None) -> Axes:
    """Draw the energy per unit over inverse temperatures with its errors; of square lattices beside exact values.

    Of a ladder that is the target alone, whose samples these are; `run.thermodynamics()` has all temperatures.

    Parameters
    ----------
    run : Run
        Of `sample`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, sample.draw_energy, sampled(run))


def magnetisation(run: Any, ax: Axes | None = None) -> Axes:
    """Draw the mean size of the magnetisation per unit over inverse temperatures, with its errors.

    Parameters
    ----------
    run : Run
        Of `sample`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, sample.draw_magnetisation, sampled(run))


def swaps(run: Any, ax: Axes | None = None) -> Axes:
    """Draw the part of accepted swaps between neighbours on a ladder of temperatures.

    Parameters
    ----------
    run : Run
        Of `sample` with sampler "tempering".
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, sample.draw_swaps, sampled(run))


def overlaps(run: Any, ax: Axes | None = None, *, beta: float | None = None) -> Axes:
    """Draw P(q), the distribution of overlaps of pairs of chains, with its error as a band.

    Parameters
    ----------
    run : Run
        Of `sample`.
    ax : matplotlib.axes.Axes, optional
    beta : float, optional
        One at which chains were recorded; may be left out where there is one only.

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, sample.draw_overlap, sampled(run), beta)


def learning(run: Any, ax: Axes | None = None) -> Axes:
    """Draw likelihoods and the moment error, or the gradient, over epochs.

    Parameters
    ----------
    run : Run
        Of `fit`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        That of the likelihoods.
    """
    return _drawn(ax, draw_learning, of_kind(run, "fit"))


def couplings(what: Any, ax: Axes | None = None) -> Axes:
    """Draw couplings in order with their standard errors, where these were computed, else their distribution.

    Parameters
    ----------
    what : Run or BoltzmannMachine
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    if isinstance(what, Run) and what.kind == "fit" and has_errors(what):  # type: ignore[arg-type]
        return _drawn(ax, draw_errors, what)
    return _drawn(ax, draw_couplings, machine_of(what))


def coupling_matrix(what: Any, ax: Axes | None = None) -> Axes:
    """Draw the matrix of couplings, visible units first.

    Parameters
    ----------
    what : Run or BoltzmannMachine
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, draw_coupling_matrix, machine_of(what).couplings.matrix(), machine_of(what).names)


def means(fidelity: Fidelity, ax: Axes | None = None) -> Axes:
    """Draw means of units, machine against data, with a band of the data's errors.

    Parameters
    ----------
    fidelity : Fidelity
        As `fastbm.fidelity` returns it, or `run.fidelity`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, fit.draw_against, fidelity, "mean")


def covariances(fidelity: Fidelity, ax: Axes | None = None) -> Axes:
    """Draw covariances of pairs, machine against data, with a band of the data's errors.

    Parameters
    ----------
    fidelity : Fidelity
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, fit.draw_against, fidelity, "covariance")


def triples(fidelity: Fidelity, ax: Axes | None = None) -> Axes:
    """Draw connected moments of triples, machine against data, with a band of the data's errors.

    Parameters
    ----------
    fidelity : Fidelity
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, fit.draw_against, fidelity, "triple")


def population_count(fidelity: Fidelity, ax: Axes | None = None) -> Axes:
    """Draw P(K), the distribution of the number of units that are up, of the data and of the machine.

    Parameters
    ----------
    fidelity : Fidelity
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, fit.draw_population, fidelity)


def patterns(frequencies: PatternFrequencies, ax: Axes | None = None) -> Axes:
    """Draw probabilities of patterns, by the machine and by independent units, against how often they were seen.

    Parameters
    ----------
    frequencies : PatternFrequencies
        As `fastbm.pattern_frequencies` returns it.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    return _drawn(ax, fit.draw_patterns, frequencies)


def temperatures(result: Any, ax: Axes | None = None, *, quantity: str = "log_z") -> Axes:
    """Draw a quantity over inverse temperatures, with its errors.

    Parameters
    ----------
    result : Temperatures or Inference
        Of "tempering" or "population-annealing".
    ax : matplotlib.axes.Axes, optional
    quantity : {"log_z", "energy", "heat_capacity", "entropy"}

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the result has no curves, or there is no such quantity.
    """
    names = dict(PANELS)
    if quantity not in names:
        raise ValueError(f"quantity must be one of {', '.join(names)}; got {quantity!r}.")
    return _drawn(ax, draw_quantity, curves_of(result), quantity, names[quantity])


def campaign(
    table: Any, x: str | None = None, y: str | None = None, *, group: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a column of a campaign's table over a key of its grid, with error bars.

    Parameters
    ----------
    table : Table or Campaign
    x, y, group : str, optional
        A column of numbers, the column that is drawn over it, and one for each value of which there is a curve:
        "beta", "binder_cumulant", "shape". Other keys of the grid are averaged over, with jackknife errors. "beta" may
        be the temperatures of ladders, "method" those of comparisons. docs/campaigns.md says what is chosen.
    ax : matplotlib.axes.Axes, optional
    """
    return _drawn(ax, draw_campaign, getattr(table, "table", table), x, y, group)


def _drawn(ax: Axes | None, draw: Any, *arguments: Any) -> Axes:
    """Draw into axes, or the current ones, and return them."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.gca()
    draw(ax, *arguments)
    return ax
