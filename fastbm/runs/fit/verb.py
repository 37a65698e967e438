"""The verb `fit`: learn a machine from data, as a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..._base import checks, rng
from ..._base.workers import check_executor
from ...learning import missing, rules
from ...learning.learners.starts import BROKEN
from ...learning.methods import OF_MONITOR, OF_RULES, RULES, Monitor, Rule, as_spec, named
from ...learning.settings import FitSettings, inverse_temperature
from ...learning.training_set import check_hidden, start_machine
from ...machine.checks import check_columns, columns_of
from ...machine.machine import BoltzmannMachine, check_machine
from ...machine.magnitude import refuse_beyond_range
from ..begin import begin, part
from ..loop import Progress
from ..spec import Given, describe, model_inputs
from ..stop import Stop
from .data import FitData
from .run import FitRun


def fit(
    data: Any,
    method: str | Rule = "pcd",
    *,
    n_hidden: int | Sequence[int] = 0,
    layout: str | None = None,
    units: str | None = None,
    init: BoltzmannMachine | None = None,
    row_weights: Any = None,
    holdout: Any = None,
    labels: Any = None,
    holdout_labels: Any = None,
    classify: Mapping[str, Any] | None = None,
    monitor: Monitor | None = None,
    seed: int | None = 0,
    threads: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    max_seconds: float | None = None,
    progress: bool | Progress | None = None,
    stop: Stop | None = None,
    executor: Executor | None = None,
    **options: Any,
) -> FitRun:
    """Learn a machine from data by dL/dW_ij = beta (<s_i s_j>_clamped - <s_i s_j>_free).

    Parameters
    ----------
    data : (n_rows, n_visible) array, str, list of str, Source, Packed, generator or Moments
        Values in the units of the machine; the name of a dataset, such as "file.h5:dataset" (`fastbm.data.load` tells
        which), or a list of such names, whose rows follow one another; or a `Source`, which is a part of them with a
        threshold; bits that are packed; blocks of values as they are generated; or moments alone, which "exact",
        "monte-carlo" and "mean-field" without hidden units and the closed forms take. Lists of files, HDF5 datasets and
        generators may be larger than memory: they are read once, block by block, into a temporary file of packed bits
        (in the folder that TMPDIR names) where these exceed 4 MB. For the rules that take moments there is none for
        lists of files: rows are counted where they lie, with an `executor` a shard of them by each worker, and the
        others of them that are looked at are read again. The run then keeps their name and sha256; a generator must be
        given again to `resume`.
        Entries that are NaN, or masked in a NumPy masked array, are missing (see Notes).
    method : str or Rule
        The rule's name, whose own options then stand among `options`; or an object that bears them, such as
        ``bm.rules.PCD(n_chains=500)``. Names are "pcd", "cd", "exact", "monte-carlo", "mean-field",
        "pseudolikelihood", "rise", "log-rise", "minimum-probability-flow", "independent-pair", "naive-mean-field",
        "tap", "sessak-monasson" and "bethe".
        A preset of the phases and the optimiser: "exact" sums all states and climbs by L-BFGS; "monte-carlo" runs
        clamped and free chains, hidden units anywhere, by natural steps until moments are the data's; "cd" and "pcd"
        are contrastive divergence from the data and with persistent chains; "mean-field" is the deterministic machine.
        The next four are convex rules for machines without hidden units that need no log Z and no chains (see Notes),
        the last five formulas for couplings from means and covariances (`fastbm.learning.closed_forms`).
    n_hidden : int or list of int
        Hidden units; or their layers' sizes, the nearest to the data first, of a deep machine.
    layout : {"restricted", "general", "deep"}, optional
        "general" couples hidden units to one another, and visible ones too; the default with hidden units is
        "restricted", with several layers of them "deep".
    units : {"binary", "spin"}, optional
        Told from the data unless given.
    init : BoltzmannMachine, optional
        Where learning starts; fixes layout, units and n_hidden.
    row_weights : (n_rows,) array, optional
        What rows count for, all alike unless given; mini-batches are drawn by weight. Error bars by "fisher", for which
        rows are independent of one another, take the number of rows of equal weight that are worth as much. Weights
        are no counts: of distinct patterns, weighed by how often each was seen, parameters are those of all rows, but
        errors are those of that number, at most the number of patterns. Repeat the rows (``numpy.repeat``) for others.
    holdout : optional
        Rows to be judged by as learning goes on and at the end, in any form that data may have but moments.
    labels, holdout_labels : arrays or str, optional
        Classes of the rows, for `classify`; or where to read them.
    classify : dict, optional
        Options of a `BoltzmannClassifier`, by any rule, that is learned from the same rows; its error on the held-out
        rows is in the summary.
    monitor : Monitor, optional
        What is recorded and watched, as an object; or its options stand among `options`.
    seed, threads, out, overwrite, max_seconds, progress, stop
        As for `sample`.
    executor : concurrent.futures.Executor, optional
        Does the fits of ``errors="bootstrap"``, each on one thread, and counts how often units are up together, of
        shards of the rows, for rules that learn from moments: "exact", "monte-carlo" and "mean-field" without hidden
        units and the formulas. What is learned has the bits of a fit without. Refused where neither is to be done:
        steps of mini-batches are too short to be handed out. Refits go on where they were stopped; the run has a
        file once rows are counted, so that counts which are stopped are counted again from the first.
    **options
        Options of the rule, of what is watched, and how the run is stored.

        exact, monte-carlo, pcd, cd, mean-field
            `beta`, `optimizer`, `epochs`, `batch_size`, `l2`, `l2_bias`, `tolerance`, `clamped`, `free`,
            `learning_rate`, `momentum`, `schedule`, `centring`, `n_chains`, `n_sweeps`, `clamped_sweeps`, `n_betas`,
            `n_starts`, `pretrain_epochs`.
        pseudolikelihood, rise, log-rise, minimum-probability-flow
            `beta`, `optimizer`, `epochs`, `batch_size`, `l2`, `l2_bias`, `tolerance`, `l1`.
        independent-pair, naive-mean-field, tap, sessak-monasson, bethe
            `beta`, `flip_noise`, `ridge`.
        what is watched
            `weights_every`, `samples_every`, `monitor_every`, `until`, `patience`, `evaluate`, `errors`, `n_resamples`,
            `block`, `fidelity`, `ais_every`, `ais_start`.

        ``help(bm.rules.PCD)`` and ``help(bm.rules.Monitor)``, or ``fastbm help pcd`` and ``fastbm help monitor``, say
        what each means. The storage takes what it takes for `sample`.

    Returns
    -------
    Run
        `run.model`, `run.metrics`, `run.weights`, `run.summary()`.

    Raises
    ------
    ValueError, TypeError
        For data that are empty or not in the machine's units, and arguments out of range or that would do nothing. For
        learning that diverges: what was learned before is in the error's `run`, and in the file.
    StorageError
        If `out` exists or cannot be written.

    Notes
    -----
    Parameters are float64. Where the free phase of a layered machine is sampled, moments of both phases are float32,
    whose rounding is far below the noise of the samples.

    With u_i the log-odds of what unit i is, given all other units, and < > the mean over rows, the convex rules
    minimise: "pseudolikelihood" sum_i <log(1 + exp(-u_i))>; "rise" (interaction screening) sum_i <exp(-u_i / 2)>;
    "log-rise" sum_i log (<exp(-u_i / 2)> + 1e-15). "minimum-probability-flow" to all states that differ by one flip is
    the objective of "rise" by another name. One coupling serves both its units; a sparse `init` says which pairs are
    coupled.

    A missing entry is a unit that is free in its row: the likelihood is that of what is known of each row, and the
    clamped phase infers missing entries as it does hidden units. "exact" sums over them, and where that would take long
    the other rules of likelihood sample them (clamped="gibbs"). Nothing is learned of why entries are missing, which
    must not depend on what they would be. There is no pseudo-likelihood to watch, and rules that need whole rows ("cd",
    convex rules, closed forms) are refused.

    Centring subtracts mu_i D_j + D_i mu_j from the slope of W_ij, D the slopes of the biases and mu the offsets, and
    what that takes from the biases: what is learned no longer depends on which state of a unit is called 0
    (`fastbm.learning.optimise.centring`).

    The likelihood of a deep machine has no closed form. Where sums over the hidden units of every row would take more
    than a minute, `run.evaluation` has "log_likelihood_bound" and "holdout_log_likelihood_bound" in its place: the mean
    of mean field's bounds of each row's log Z over the hidden units, less log Z. They are lower bounds but for the
    error of log Z.
    The metric "moment_error" is the root mean square, over coupled pairs, of <s_i s_j>_clamped - <s_i s_j>_free,
    averaged over an epoch. "moment_noise" is the standard error of that: of chains, from the difference of two halves
    of them, autocorrelation included, on at most 128 pairs, and of the data as so many rows. Of chains that start at
    the data, and where there are none, it is the data's alone.

    `run.converged` tells, of "l-bfgs", whether the gradient vanished where no direction curves upwards, and
    couplings no longer grew, as they do on the way to a maximum at infinity; `fit` warns of that. Of
    "monte-carlo" and of "natural" steps with chains of their own, parameters rest at the end while chains go on for 72
    epochs, and <s_i s_j> and <s_i> of both phases are compared, pair by pair and unit by unit, in units of the noise of
    data and chains together: true where the largest difference, less what a penalty pulls, may be chance (at 1 %,
    Bonferroni) and chains mix.
    "natural" steps do so after 100, 200, 400 ... epochs too and stop once that holds
    (`fastbm.learning.monitor.moment_test`). With hidden units, whose moments agree at saddles as well, it is False or
    None; of "monte-carlo" and "mean-field" False too where these do nothing, as rows are no likelier than units on
    their own would have it: that may be all there is to learn, or a saddle, which another `seed` may leave. Learning in
    steps that ends with rows much less likely than units on their own would have it, however it began, or that lost
    half of an exact likelihood's gain, diverged: `fit` warns, keeps the parameters of the best look (see
    `monitor_every`), and `converged` is False. Rules that do not look at the machine's own states, the convex ones and
    formulas, may come to a machine that prefers other states than the data's, most of all of many units that are
    seldom up: where the likelihood that is looked at at the end (see `evaluate`) is so much lower, `fit` warns of it,
    and `converged` is False.

    Hidden units whose couplings are 0 are a saddle or worse. "exact", "monte-carlo" and "mean-field" start from
    couplings that make fields of the order of 1; "l-bfgs" climbs from `n_starts` of them for 25 iterations, from the
    best two for 100, and keeps the best, which are not counted as epochs (less far where few `epochs` are asked for,
    so that all climbs of a round together take no more than these); and where it comes to rest it looks at the
    smallest curvature, by Lanczos' method, and goes on from below where that is negative.

    The metric "r_hat" tells whether persistent free chains mix: rank-normalised split R-hat, the largest of that of the
    energy, of the number of units up and of the projection on the leading axis of the data, each relative to the other
    chains, over at most 32 records of the last half of the epochs (`fastbm.learning.monitor.chains`); nan until there
    are 8. Where it ends above 1.2 `fit` warns. With free="auto" the run answers by itself, 8 epochs after the last
    answer at the soonest: `n_sweeps` doubles, up to four times; then ladders of `n_betas` replicas take over, with the
    `n_sweeps` asked for, which may double again four times. The metrics "n_sweeps" and "n_betas" tell what was at work
    (1 replica: no ladders).

    References
    ----------
    Ackley, Hinton and Sejnowski, Cognitive Science 9, 147 (1985), doi:10.1207/s15516709cog0901_7.

    Salakhutdinov and Hinton, AISTATS (2009), PMLR 5, 448 (deep machines); Gabrie, Tramel and Krzakala, NIPS (2015),
    doi:10.48550/arXiv.1506.02914 ("tap" phases).
    Rubin, Biometrika 63, 581 (1976), doi:10.1093/biomet/63.3.581 (missing entries).

    Besag, J. R. Stat. Soc. B 36, 192 (1974), doi:10.1111/j.2517-6161.1974.tb00999.x (pseudo-likelihood); Lokhov,
    Vuffray, Misra and Chertkov, Sci. Adv. 4, e1700791 (2018), doi:10.1126/sciadv.1700791 (rise, log-rise);
    Sohl-Dickstein, Battaglino and DeWeese, Phys. Rev. Lett. 107, 220601 (2011), doi:10.1103/PhysRevLett.107.220601.
    """
    if isinstance(data, BoltzmannMachine):
        raise TypeError(
            "fit takes rows first and all else by name, a machine to start from too: fit(rows, init=model, "
            'method="pcd").'
        )
    check_executor(executor)
    own, storage = part("fit", options, (*OF_RULES, *OF_MONITOR), fit.__kwdefaults__ or ())
    method, own = named(method, monitor, own)
    given: dict[str, Any] = {one.name: own.get(one.name) for one in fields(FitSettings) if one.name != "method"}
    beta = 1.0 if given["beta"] is None else given["beta"]
    if init is not None:
        _check_start(init, n_hidden, layout, units)
        refuse_beyond_range(init, checks.real("beta", beta, least=0.0))
    beta = inverse_temperature("beta", beta)
    hidden = n_hidden if init is None else init.n_hidden
    by_moments = row_weights is None and not check_hidden(hidden) and rules.asks_moments(method, given)
    read = FitData.read(data, units, init, row_weights, holdout, labels, holdout_labels, executor, by_moments)
    seed = given["seed"] = rng.resolve(seed)
    start = init
    if start is None:
        start = start_machine(read.p, n_hidden, layout, read.kind.name, seed, beta)
        if start.n_hidden and method in BROKEN:
            start = read.break_symmetry(start, seed, beta)
    elif given["n_starts"] is None and "n_starts" in RULES[method].names():
        given["n_starts"] = 1
    read.check_machine(start)
    start = _with_names(start.with_base_rates(read.base_rates(start)), data, holdout)
    if read.up is not None:
        missing.suit(start, read.up, method, given)
    settings = rules.check(start, read.n_rows, method, given, gaps=read.has_gaps)
    read.count(settings, start, executor)
    read.check_settings(settings, start, classify=classify is not None)
    if classify is not None:
        read.check_classifier(classify)
    spec = {
        "kind": "fit",
        "model": describe(start),
        "fit": as_spec(settings),
        "classify": None if classify is None else dict(classify),
        "data": read.describe(),
        "judged": True,
    }
    inputs = model_inputs(start) | read.inputs()
    known = Given(model=start, data=read.rows(), executor=executor)
    run = begin(spec, inputs, threads, out, overwrite, max_seconds, progress, stop, storage, given=known)
    assert isinstance(run, FitRun)
    return run


def _with_names(start: BoltzmannMachine, data: Any, holdout: Any) -> BoltzmannMachine:
    """Return the machine with the names of a table's columns; refuse tables whose columns are others."""
    of = "data" if start.names is None else "init"
    named = start if (columns := columns_of(data)) is None or start.names is not None else start.with_names(columns)
    check_columns("data", data, named.names, of)
    check_columns("holdout", holdout, named.names, of)
    return named


def _check_start(init: Any, n_hidden: Any, layout: str | None, units: str | None) -> None:
    """Check that nothing contradicts the machine that learning starts from."""
    check_machine(init, "init")
    hidden = init.couplings.sizes[1:] if init.is_layered else (init.n_hidden,)
    if (given := check_hidden(n_hidden)) and given not in (hidden, (init.n_hidden,)):
        raise ValueError(
            f"n_hidden is {n_hidden}, but init has {' + '.join(map(str, hidden))} hidden units. Leave n_hidden out."
        )
    if units not in (None, init.units):
        raise ValueError(f"units is {units!r}, but init has {init.units} units. Leave units out, or convert init.")
    if layout is not None:
        raise ValueError("layout follows from init. Leave layout out.")
