"""What a result is of: a machine at one beta, whole or with units clamped."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ..machine.machine import BoltzmannMachine


class Subject:
    """A machine, a beta and what was clamped; two are alike where all three are.

    Parameters
    ----------
    machine : BoltzmannMachine or str
        The machine, which is not looked at before it is asked for, or its fingerprint.
    beta : float
    clamp : str, optional
        The fingerprint of indices and values, see `clamp_of`; None where nothing was clamped.
    """

    def __init__(self, machine: BoltzmannMachine | str, beta: float, clamp: str | None = None) -> None:
        self._machine, self.beta, self.clamp = machine, beta, clamp

    @property
    def machine(self) -> str:
        """The machine's fingerprint."""
        if not isinstance(self._machine, str):
            self._machine = self._machine.fingerprint
        return self._machine

    def as_dict(self) -> dict[str, Any]:
        """Return plain values; `Subject(**plain)` is the way back."""
        return {"machine": self.machine, "beta": self.beta, "clamp": self.clamp}

    def __reduce__(self) -> Any:
        return Subject, (self.machine, self.beta, self.clamp)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subject) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash((self.beta, self.clamp))

    def __repr__(self) -> str:
        return f"Subject({self.machine[:8]}.., beta={self.beta:g}{', clamped' if self.clamp else ''})"

    def refuse_other(self, argument: str, model: BoltzmannMachine, beta: float) -> None:
        """Refuse a result that is not of this whole machine at this beta; `argument` names it in the error."""
        if self.clamp is not None:
            raise ValueError(
                f"{argument} is a result with units clamped, and its log Z sums over the others alone. Infer the whole "
                "machine, without clamp."
            )
        if self._machine is not model and self.machine != model.fingerprint:
            raise ValueError(
                f"{argument} is a result of another machine: its couplings, biases, offset or units are not those of "
                "model. Infer this one, or pass the machine that the result is of."
            )
        if self.beta != beta:
            raise ValueError(
                f"{argument} is a result at beta = {self.beta:g}, and beta is {beta:g}. Pass beta={self.beta:g}, or "
                "infer anew."
            )


def clamp_of(clamp: Any) -> str | None:
    """Return the fingerprint of clamped indices and values."""
    if clamp is None:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for array, kind in zip(clamp, (np.int64, np.float64), strict=True):
        plain = np.ascontiguousarray(array, kind)
        digest.update(repr(plain.shape).encode())
        digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
