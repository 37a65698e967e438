"""The stub of the package, which has an overload of each verb for each method: ``python -m tests.support.stub``.

Editors complete the options of a method from it, and type checkers refuse those of others.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import fastbm as bm
from fastbm._base.options import Options
from fastbm.inference.auto import BY_NAME
from fastbm.learning.methods import RULES
from fastbm.runs import begin
from fastbm.sampling.samplers import SAMPLERS

SOURCE = Path(bm.__file__)
PLACE = SOURCE.with_suffix(".pyi")
HEAD = '''\
"""What the package offers, each verb with the options of each method; ``python -m tests.support.stub`` makes it."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np

from .inference.estimator import Estimator
from .learning.settings import Monitor, Rule
from .runs.fit.run import FitRun
from .runs.loop import Progress
from .runs.sample.run import SampleRun
from .runs.stop import Stop
from .sampling.settings import Sampler
'''
# each verb: what it is given, the argument that names a method, the classes of these, their base, what it returns
Verb = tuple[Callable[..., Any], str, Mapping[str, type[Options]], str, str]
VERBS: dict[str, Verb] = {
    "sample": (bm.sample, "sampler", SAMPLERS, "Sampler", "SampleRun"),
    "infer": (bm.infer, "method", BY_NAME, "Estimator", "Inference"),
    "fit": (bm.fit, "method", RULES, "Rule", "FitRun"),
}


def stub() -> str:
    """Return the text of the stub."""
    tree = ast.parse(SOURCE.read_text())
    block = next(one for one in tree.body if isinstance(one, ast.If))
    imports = [ast.unparse(_exported(one)) for one in block.body if isinstance(one, ast.ImportFrom)]
    written = [_verb(name, *about) for name, about in VERBS.items()]
    return "\n".join(
        [
            HEAD + "\n".join(line for line in imports if line),
            "",
            "__version__: str",
            f"__all__ = {bm.__all__}",
            *written,
        ]
    )


def _exported(node: ast.ImportFrom) -> ast.AST:
    """The import with every name said to be public, those of the verbs left out."""
    names = [ast.alias(one.name, one.asname or one.name) for one in node.names if one.name not in VERBS]
    return ast.ImportFrom(node.module, names, node.level) if names else ast.Module([], [])


def _verb(
    name: str, verb: Callable[..., Any], argument: str, table: Mapping[str, type[Options]], base: str, returned: str
) -> str:
    parameters = inspect.signature(verb).parameters
    first = next(iter(parameters.values()))
    subject = f"{first.name}: {first.annotation}"
    common = {p.name: str(p.annotation) for p in parameters.values() if p.kind is p.KEYWORD_ONLY}
    stored = inspect.signature(begin._check_storage).parameters
    if name != "infer":
        common |= {key: str(stored[key].annotation) for key in begin.STORAGE}
    own = _class(f"_{name.title()}", "TypedDict", common)
    if name == "fit":
        own += _class("_Watched", "_Fit", _types(bm.rules.Monitor))
    under = "_Watched" if name == "fit" else f"_{name.title()}"
    calls = []
    for key, cls in table.items():
        options = under
        if cls.names():
            options = f"_{name.title()}{cls.__name__}"
            own += _class(options, under, _types(cls))
        usual = " = ..." if parameters[argument].default == key else ""
        calls.append(_call(name, subject, f'{argument}: Literal["{key}"]{usual}', f"Unpack[{options}]", returned))
    of_auto = " | methods.Auto" if name == "infer" else ""
    calls.append(_call(name, subject, f"{argument}: {base}{of_auto}", f"Unpack[{under}]", returned))
    calls.append(_call(name, subject, f"{argument}: str", "Any", returned))
    return "\n".join([own, *calls])


def _class(name: str, base: str, entries: Mapping[str, str]) -> str:
    lines = "\n".join(f"    {key}: {kind}" for key, kind in entries.items())
    return f"class {name}({base}, total=False):\n{lines}\n\n"


def _call(verb: str, subject: str, argument: str, options: str, returned: str) -> str:
    return f"@overload\ndef {verb}({subject}, {argument}, **options: {options}) -> {returned}: ..."


def _types(cls: type[Options]) -> dict[str, str]:
    hints = get_type_hints(cls)
    return {name: _text(hints[name]) for name in cls.names()}


def _text(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"Literal[{', '.join(map(_quoted, parts))}]"
    if origin in (Union, types.UnionType):
        return " | ".join(map(_text, parts))
    if origin is tuple:
        return f"Sequence[{_text(parts[0])}] | np.ndarray"
    if origin is dict:
        return f"Mapping[{_listed(parts)}]"
    return {type(None): "None", Any: "Any"}.get(annotation) or annotation.__name__


def _listed(parts: Iterable[Any]) -> str:
    return ", ".join(map(_text, parts))


def _quoted(name: str) -> str:
    return f'"{name}"'


if __name__ == "__main__":
    PLACE.write_text(stub())
    subprocess.run(["ruff", "format", "-q", str(PLACE)], check=True)
