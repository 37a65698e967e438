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

LONG = 4.0  # seconds of a method, by the built-in speeds, from which on looks take longer than what is done meanwhile


class Looks:
    """Looks at a machine besides those of a method, whose work `detail` tells, each taken when it is first asked for.

    With `meanwhile` they are taken `beside` other work, and do not use all threads unless they take far longer.
    """

    def __init__(
        self, model: BoltzmannMachine, method: str, detail: Mapping[str, Any], common: Mapping[str, Any],
        *, meanwhile: bool = False,
    ) -> None:  # fmt: skip
        self._model, self._beta, self._threads = model, common["beta"], common["threads"]
        is_short = float(detail.get("n_updates", 0)) * attempt_seconds(model) < LONG
        of_each = max(1, self._threads // 2) if meanwhile and is_short else self._threads
        self._witness = Witness(model, method, detail, self._beta, common["seed"], of_each)
        self._walks = Walks(model, detail, self._beta, common["seed"], of_each)

    def beside(self, drawn: Drawn, *, of_log_z: bool, witness: bool) -> Inference:
        """Return the result that samples tell, of log Z or not; where there are threads, looks are taken meanwhile.

        On one thread they wait until the result says that it has converged.
        """
        if self._threads == 1:
            return drawn.judge([part() for part in drawn.parts])
        looks: list[Callable[[], Any]] = [self._walks.take_cold]
        looks += [] if of_log_z else [self._walks.take_hot]
        looks += [partial(self._witness.take, of_log_z)] if witness else []
        found = fan_out(lambda look: look(), [*reversed(looks), *drawn.parts], self._threads)  # the longest first
        return drawn.judge(found[len(looks) :])

    def examined(self, found: Inference) -> Inference:
        """Return a result with the verdict of an independent check."""
        return examine(found, self._witness, self._threads)

    def confronted(self, found: Inference) -> Inference:
        """Return a result with the verdicts of counting, where there are few states, and of walks from the cold."""
        return look(confront(self._model, found, self._beta), self._walks)
