"""Options of a method: the fields of a frozen dataclass, whose annotations are their checks.

A field that is None was left out: it is filled in where the method is resolved. Beside the types that are checked as
they are (`int`, `float`, `bool`, `Literal` names), an annotation may name bounds, or a function of the argument's name
and its value::

    @options
    class Tempering(Sampler):
        rule: Literal["gibbs", "metropolis"] = "gibbs"
        n_betas: Annotated[int | None, Least(2)] = None
        betas: Annotated[tuple[float, ...], ladder] = ()
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from . import checks

Check = Callable[[str, Any], Any]
CHOSEN: Any = None  # the default of a field that is filled in when the method is resolved, and never None after that
Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class Least:
    """The smallest value of a number."""

    value: float


@dataclass(frozen=True)
class Above:
    """What a number must be above."""

    value: float


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field,))
def options(cls: Class) -> Class:
    """Make a class of options a frozen dataclass whose fields are given by name."""
    made: Any = dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
    made.__doc__ = _with_parameters(made)
    return cast("Class", made)


def _with_parameters(cls: Any) -> str:
    """Return the docstring of a class with the parameters that its bases document, in the order of its fields."""
    head, own, tail = _parts(cls.__dict__.get("__doc__") or "")
    known = {
        name: entry for base in reversed(cls.__mro__[1:-1]) for name, entry in _parts(base.__doc__ or "")[1].items()
    }
    known |= own
    entries = list(dict.fromkeys(known[one.name] for one in fields(cls) if one.name in known))
    listed = ["Parameters\n----------\n" + "\n".join(entries)] if entries else []
    return "\n\n".join([head, *listed, *([tail] if tail else [])])


def _parts(doc: str) -> tuple[str, dict[str, str], str]:
    """Return the text before the parameters of a docstring, their entries by name, and the text after them."""
    doc = inspect.cleandoc(doc)
    sections = re.split(r"\n\n(?=[A-Z][a-z]+\n-{4,}\n)", doc)
    at = next((k for k, one in enumerate(sections) if one.startswith("Parameters\n")), None)
    if at is None:
        return sections[0], {}, "\n\n".join(sections[1:])
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", sections[at].split("\n", 2)[2]):
        names = entry.partition("\n")[0].partition(" : ")[0]
        found |= dict.fromkeys((name.strip() for name in names.split(",")), entry)
    return "\n\n".join(sections[:at]), found, "\n\n".join(sections[at + 1 :])


class Options:
    """What a method is asked for.

    Two are equal where they are of one class and all their options are; arrays are compared entry by entry.
    """

    name: ClassVar[str] = ""
    kind: ClassVar[str] = ""  # the argument that takes it: "sampler", "method"

    def __post_init__(self) -> None:
        usual = self.defaults()
        for name, check in option_checks(type(self)).items():
            value = getattr(self, name)
            if value is not None or usual[name] is not None:
                object.__setattr__(self, name, check(name, value))
        self._check_together()

    def _check_together(self) -> None:
        """Refuse options that contradict one another, or that would not be used beside others."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all options."""
        return tuple(option_checks(cls))

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return what each option is where it is left out."""
        return {one.name: one.default for one in fields(cls)}  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, Any]:
        """Return all options by name."""
        return {name: getattr(self, name) for name in self.names()}

    def given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        return {name: value for name, value in self.as_dict().items() if not _alike(value, self.defaults()[name])}

    def filled(self, **values: Any) -> Self:
        """Return the same with some options filled in, which may say twice what they could not be given to say."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), **values)
        return made

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Return the options that a spec holds, resolved or not; those of other methods are left out."""
        known = option_checks(cls)
        found = {k: known[k](k, v) for k, v in values.items() if k in known and v is not None}
        return cls().filled(**found)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.given().items())})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, Options)
        return all(_alike(value, getattr(other, name)) for name, value in self.as_dict().items())

    def __hash__(self) -> int:
        return hash((type(self), *sorted(self.given())))


@cache
def usual(cls: Any) -> Any:
    """Return the options of a class, all left out."""
    return cls()


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.shape(one) == np.shape(other) and bool(np.array_equal(np.asarray(one), np.asarray(other)))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_alike, one, other))
    return type(one) is type(other) and bool(one == other) if isinstance(one, bool) else bool(one == other)


def option_checks(cls: Any) -> dict[str, Check]:
    """Return the check of each option of a class, in order."""
    return _option_checks(cls)


@cache
def _option_checks(cls: Any) -> dict[str, Check]:
    hints = get_type_hints(cls, include_extras=True)
    return {one.name: _check_of(hints[one.name]) for one in fields(cls)}


def plain_types(cls: type[Options]) -> dict[str, Any]:
    """Return the type of each option without its bounds, as a file may name it."""
    hints = get_type_hints(cls)
    return {name: _plain(hints[name]) for name in cls.names()}


def _plain(annotation: Any) -> Any:
    """Names are texts, and tuples lists."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return str
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_plain, parts))]  # noqa: UP007
    return list[parts[0]] if origin is tuple else annotation  # type: ignore[valid-type]


def _check_of(annotation: Any) -> Check:  # noqa: C901 - one branch a kind of annotation
    bounds: dict[str, float] = {}
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
        for extra in extras:
            if isinstance(extra, Least):
                bounds["least"] = extra.value
            elif isinstance(extra, Above):
                bounds["above"] = extra.value
            elif callable(extra):
                return cast("Check", extra)
    if get_origin(annotation) in (Union, types.UnionType):
        left = [one for one in get_args(annotation) if one is not type(None)]
        annotation = left[0] if len(left) == 1 else Any
    if get_origin(annotation) is Literal:
        names = get_args(annotation)
        return lambda name, value: checks.choice(name, value, names)
    if annotation is bool:
        return flag
    if annotation is int:
        return lambda name, value: checks.whole(name, value, least=int(bounds.get("least", 0)))
    if annotation is float:
        return lambda name, value: checks.real(name, value, **bounds)
    return lambda name, value: value


def flag(name: str, value: Any) -> bool:
    """Check that a value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def pick(kind: str, chosen: Any, table: Mapping[str, type[Any]], given: Iterable[str]) -> Any:
    """Return the class that a name stands for, or the object of a class in `table` that was passed in its place.

    Parameters
    ----------
    kind : str
        The argument's name.
    chosen : str or Options
    table : mapping of name to class
    given : iterable of str
        Names of options that stand beside, which an object does not bear.
    """
    if isinstance(chosen, type) and issubclass(chosen, Options):
        raise TypeError(f"{kind} must be a name or an object; got a class. Call it: {_call(chosen)}.")
    if not isinstance(chosen, (str, Options)):
        raise TypeError(
            f"{kind} must be a name, one of {', '.join(map(repr, table))}, or an object that bears its options; got "
            f"{type(chosen).__name__}."
        )
    if isinstance(chosen, str):
        return table[checks.choice(kind, chosen, table)]
    cls = type(chosen)
    if table.get(cls.name) is not cls:
        raise TypeError(
            f"{kind} must be one of {', '.join(map(repr, table))}, or one of their objects; got {_call(cls)}, which is "
            f"a {cls.kind}."
        )
    for name in given:
        raise TypeError(f"{name} stands beside {kind}={_call(cls)}, which says all: {_call(cls, name)}.")
    return chosen


def _call(cls: type[Options], name: str = "") -> str:
    return f"{cls.__name__}({name}=...)" if name else f"{cls.__name__}()"
