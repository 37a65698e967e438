"""Looks of other kinds at a machine, which its estimate is held against.

They do not depend on the estimate, and are taken while it is put together of samples, where there are threads. That is
NumPy's work, in which threads of Python wait for each other; looks are mostly compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .._base.threads import fan_out
from ..machine.machine import BoltzmannMachine
from .ais.cold import Walks, look
from .counted import confront
from .estimator import Drawn
from .result import Inference
from .scout.scout import attempt_seconds
from .witness import Witness, examine

SHORT = (
    4.0  # seconds of a method, by the built-in speeds, up to which looks are not much longer than what they are beside
)


class Looks:
    """Looks at a machine besides those of a method, whose work `detail` tells, each taken when it is first asked for.

    With `halved` they take half of the threads, as others have the rest.
    """

    def __init__(
        self, model: BoltzmannMachine, detail: Mapping[str, Any], common: Mapping[str, Any],
        *, halved: bool = False,
    ) -> None:  # fmt: skip
        self._model, self._beta, self._threads = model, common["beta"], common["threads"]
        self._is_short = float(detail.get("n_updates", 0)) * attempt_seconds(model) < SHORT
        of_each = max(1, self._threads // 2) if halved and self._is_short else self._threads
        self._witness = Witness(model, detail, self._beta, common["seed"], of_each)
        self._walks = Walks(model, detail, self._beta, common["seed"], of_each)

    def beside(self, drawn: Drawn, *, of_log_z: bool, witness: bool) -> Inference:
        """Return the result that samples tell, of log Z or not; where there are threads, looks are taken meanwhile.

        On one thread, where they are long, and where samples are hopeless, they wait until the result says that it has
        converged.
        """
        looks: list[Callable[[], Any]] = []
        if self._threads > 1 and self._is_short and not drawn.hopeless:  # the longest first
            looks += [partial(self._witness.take, of_log_z)] if witness else []
            looks += [self._walks.take_cold] if of_log_z else [self._walks.take_hot, self._walks.take_cold]
        shared, parts = drawn.shared, list(drawn.parts)
        known = [] if shared is None or looks else [shared(self._threads)]
        if shared is not None and looks:
            parts.insert(0, partial(shared, 1))
        found = fan_out(lambda one: one(), [*looks, *parts], self._threads)
        return drawn.judge([*known, *found[len(looks) :]])

    def examined(self, found: Inference) -> Inference:
        """Return a result with the verdict of an independent check."""
        return examine(found, self._witness, self._threads)

    def confronted(self, found: Inference) -> Inference:
        """Return a result with the verdicts of counting, where there are few states, and of walks from the cold."""
        return look(confront(self._model, found, self._beta), self._walks)
