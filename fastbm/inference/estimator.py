"""The base of methods of inference: their options, and the result that they make of a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from .._base import checks
from .._base.options import Options, options
from .._base.threads import fan_out
from ..machine.machine import BoltzmannMachine
from .result import Inference


class Knob(NamedTuple):
    """The option that makes a method slower, and better, about in proportion: a multiple of `least`."""

    name: str
    least: int
    most: int


VISITORS = ("tempering", "population-annealing")  # of many temperatures
Order = Literal["sequential", "permuted", "random", "coloured"]

SWEEPS = Knob("n_sweeps", 50, 10_000_000)
BETAS = Knob("n_betas", 20, 1_000_000)


@options
class Estimator(Options):
    """A method of inference and its options.

    Attributes
    ----------
    knob : Knob, optional
        What a budget decides.
    all_pairs : bool
        Whether moments come as a full matrix.
    cut : bool
        Whether it takes an executor, to do pieces of it.
    """

    kind: ClassVar[str] = "method of inference"
    knob: ClassVar[Knob | None] = None
    all_pairs: ClassVar[bool] = False
    cut: ClassVar[bool] = False

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; the latter, where there are any, are in the machine's units."""
        raise NotImplementedError


@options
class Examined(Estimator):
    """The protocol of methods whose result an independent estimate may contradict (see `fastbm.inference.witness`).

    Parameters
    ----------
    witness : bool
        Whether a short look by another method may contradict the result; without it `converged` is None at best.
    """

    itself: ClassVar[bool] = False  # whether it looks itself

    witness: bool = True


class Drawn(NamedTuple):
    """Samples of a machine; `detail` tells how much work they were.

    What `parts` return, which may be called side by side, `judge` makes a result of. That of `hopeless` samples will
    hardly have converged, so that nothing is worth doing beside that such results do without. `shared`, if there is
    any, takes a number of threads, and what it returns comes before that of the parts.
    """

    detail: Mapping[str, Any]
    parts: Sequence[Callable[[], Any]]
    judge: Callable[[Sequence[Any]], Inference]
    hopeless: bool = False
    shared: Callable[[int], Any] | None = None


@options
class Drawing(Examined):
    """The protocol of methods that draw all their samples before they judge them.

    Attributes
    ----------
    of_log_z : bool
        Whether results tell log Z.
    """

    of_log_z: ClassVar[bool] = True

    def worth(self, model: BoltzmannMachine, threads: int) -> int:
        """Return as many threads as are worth it: short calls are over sooner on one."""
        return threads

    def draw(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Drawn:
        """Draw samples; to judge them is left to others."""
        raise NotImplementedError

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; the latter, where there are any, are in the machine's units."""
        drawn = self.draw(model, beta=beta, moments=moments, seed=seed, threads=threads)
        return drawn.judge(fan_out(lambda part: part(), drawn.parts, threads))


def sweeps(name: str, value: Any) -> int | str:
    """Check a burn-in: a number of sweeps, or "auto"."""
    return value if isinstance(value, str) and value == "auto" else checks.whole(name, value)


def refuse_no_samples(n_sweeps: int, thin: int) -> int:
    """Return the number of samples; refuse 0."""
    if not n_sweeps // thin:
        raise ValueError(f"n_sweeps // thin must be at least 1; got {n_sweeps} // {thin}.")
    return n_sweeps // thin


def refuse_beside_betas(estimator: Any) -> None:
    """Refuse options that would not be used beside `betas`."""
    if estimator.betas is None:
        return
    for name in ("n_betas", "target_ess", "path"):
        if getattr(estimator, name, None) is not None:
            raise ValueError(f"betas say all that {name} would: leave one of them out.")
    start = estimator.start
    if estimator.name in VISITORS and not (start is None or (isinstance(start, str) and start == "uniform")):
        named = f'"{start}"' if isinstance(start, str) else "means"
        raise ValueError(
            f"betas are inverse temperatures from 0, and start={named} leads to the machine by levels that are none: "
            "leave one of them out."
        )
