"""Options that nothing would look at: better refused than ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .optimizers import OPTIMIZERS
from .phase import OWN_CHAINS, Phase
from .presets import FREE

if TYPE_CHECKING:
    from .settings import FitSettings

OFF = (0, False, "constant")  # values that ask for nothing


def refuse_idle(
    settings: FitSettings, given: Mapping[str, Any], n_hidden: int, n_rows: int, *, gaps: bool = False
) -> None:
    """Refuse those of the `given` options that do nothing under `settings`; say what they go with. `gaps` tells that
    entries of rows are missing.
    """
    s = settings
    steps, chains = s.optimizer in OPTIMIZERS, s.free in (*OWN_CHAINS, "auto")
    by_steps = f"{' and '.join(map(repr, OPTIMIZERS))}; the optimizer here is {s.optimizer!r}"
    rows = s.optimizer == "l-bfgs" or (steps and n_rows > 0)
    goes_with = {
        "learning_rate": (steps, f"optimizers {by_steps}"),
        "schedule": (steps, f"optimizers {by_steps}"),
        "momentum": (s.optimizer == "sgd", f"optimizer 'sgd'; here it is {s.optimizer!r}"),
        "batch_size": (rows, f"rows that are learned in steps, by optimizers {by_steps}"),
        "tolerance": (s.optimizer == "l-bfgs", f"optimizer 'l-bfgs'; here it is {s.optimizer!r}"),
        "n_chains": (chains, f"a free phase that is sampled by chains of its own; free is {s.free!r}"),
        "n_sweeps": (chains or s.free == "contrastive", f"a free phase that is sampled; free is {s.free!r}"),
        "n_betas": (s.free in ("tempering", "auto"), f"free='tempering' or 'auto'; free is {s.free!r}"),
        "clamped_sweeps": (
            (n_hidden > 0 or gaps) and s.clamped in ("gibbs", "annealed"),
            f"hidden units, or missing entries, that are sampled given the rows; clamped is {s.clamped!r}, n_hidden "
            f"{n_hidden}",
        ),
        "samples_every": (
            s.free == "auto" or (s.free in FREE and FREE[s.free].samples is not Phase.samples),
            f"free chains that persist, whose states it records; free is {s.free!r}",
        ),
        "n_starts": (
            s.n_starts == 1 or (s.optimizer == "l-bfgs" and n_hidden > 0),
            f"hidden units that are learned by optimizer 'l-bfgs'; the optimizer here is {s.optimizer!r}, n_hidden "
            f"{n_hidden}",
        ),
        "n_resamples": (s.errors == "bootstrap", f"errors='bootstrap'; errors is {s.errors!r}"),
        "ais_every": (s.optimizer != "none", f"learning in epochs; method={s.method!r} is a formula"),
        "patience": (s.optimizer != "none", f"learning in epochs; method={s.method!r} is a formula"),
    }
    for name, (used, partner) in goes_with.items():
        if name in given and not used and given[name] not in OFF:
            raise ValueError(f"{name} goes with {partner}. Leave {name} out.")
    if s.errors == "fisher" and not _of_maximum_likelihood(s):
        raise ValueError(
            "errors='fisher' goes with rules of maximum likelihood, methods 'exact', 'monte-carlo' and 'pcd'; got "
            f"method={s.method!r} (clamped={s.clamped!r}, free={s.free!r}). Use errors='bootstrap'."
        )
    told = {"moment_error"} if steps else {"gradient"}
    for name in s.until or ():
        if name not in told:
            raise ValueError(
                f"until names {name!r}, which optimizer={s.optimizer!r} does not tell; it tells {min(told)!r}."
            )


def _of_maximum_likelihood(s: FitSettings) -> bool:
    """Whether the parameters that the rule comes to are those of maximum likelihood, but for noise."""
    sampled = ("exact", "gibbs", "annealed")
    return s.clamped in sampled and s.free in (*sampled, "restarted", "tempering", "auto")
