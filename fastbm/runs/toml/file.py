"""Reading of a TOML file that describes one run: its check against the functions' own arguments, and the call.

The keys of a table are the arguments of the function it stands for, so that there is nothing to keep in step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from ..._base import checks, rng
from ..._base.options import plain_types
from ...sampling.samplers import SAMPLERS
from .machines import arguments_of, check_table, many_models, one_model, signature_of
from .text import read as read

VERBS = ("sample", "fit", "infer", "compare")
TABLES = ("model", "data", *VERBS, "classify", "store")
FIT_STORE_KEYS = {"weights_every": int, "samples_every": int}
STORE_KEYS = {
    "out": str,
    "overwrite": bool,
    "commit_seconds": float,
    "commit_bytes": int,
    "compression": str,
    "merge": bool,
}
# arguments of sample that take more than a file can say
SAMPLE_KEYS: dict[str, Any] = {
    "sampler": str,
    "beta": float | list[float],
    "betas": list[float],
    "clamp": list[Any],
    "initial": str,
    "observables": list[str] | dict[str, str],
    "until": dict[str, float],
}
# arguments that a file names in another table, or cannot name
NOT_IN_FILES = {
    "model",
    "data",
    "holdout",
    "labels",
    "holdout_labels",
    "row_weights",
    "classify",
    "init",
    "executor",
    "progress",
    "stop",
    "threads",
    "storage",
    "options",
    "units",
    "max_seconds",
    "monitor",
    *FIT_STORE_KEYS,
    *STORE_KEYS,
}


def check(tables: Mapping[str, Any]) -> str:
    """Refuse unknown tables and keys and wrong types, naming the nearest; return the verb."""
    for name, table in tables.items():
        if name not in TABLES:
            raise ValueError(f"unknown table [{name}].{checks.nearest(name, TABLES)} Tables are {', '.join(TABLES)}.")
        several = name == "model" and "compare" in tables and isinstance(table, list) and len(table) > 0
        if not all(isinstance(one, dict) for one in (table if several else [table])):
            raise ValueError(f"[{name}] must be a table; got {name} = {table!r}.")
    verbs = [verb for verb in VERBS if verb in tables]
    if len(verbs) != 1:
        raise ValueError(
            f"a file needs exactly one of the tables [sample], [fit], [infer], [compare]; this has {verbs or 'none'}."
        )
    verb = verbs[0]
    source = "data" if verb == "fit" else "model"
    if source not in tables:
        raise ValueError(f"[{verb}] needs a table [{source}].")
    if (other := "model" if verb == "fit" else "data") in tables:
        raise ValueError(f"[{verb}] takes a table [{source}], not [{other}].")
    if "classify" in tables and verb != "fit":
        raise ValueError("[classify] stands beside [fit] only.")
    keys = _keys(verb, tables)
    for name, table in tables.items():
        if name != "model":
            check_table(name, table, keys)
    _check_names(verb, tables)
    return verb


def _check_names(verb: str, tables: Mapping[str, Any]) -> None:
    """Refuse samplers, methods and rules that there are none of; those of infer are refused by `_verb_keys`."""
    table = tables[verb]
    if verb == "sample" and "sampler" in table:
        checks.choice("sample.sampler", table["sampler"], SAMPLERS)
    for name in ("fit", "classify") if verb == "fit" else ():
        if "method" in tables.get(name, {}):
            from ...learning.methods import RULES

            checks.choice(f"{name}.method", tables[name]["method"], RULES)
    if _has_rules(tables):
        from ...learning.planted.rules import read_rules

        read_rules(table["rules"], table.get("options"))
    elif verb == "compare":
        _check_methods(table)


def _check_methods(table: Mapping[str, Any]) -> None:
    """Refuse a comparison without methods, or with methods and options that there are none of."""
    from ...inference.methods import METHODS, make_estimator

    if "methods" not in table:
        raise ValueError(
            f"[compare] needs methods, a list of some of {', '.join(METHODS)}; or rules, a list of methods of fit."
        )
    options = table.get("options", {})
    if extra := set(options) - set(table["methods"]):
        raise ValueError(f"compare.options names {min(extra)!r}, which is not among compare.methods.")
    for name in table["methods"]:
        make_estimator(name, options.get(name, {}))


def _keys(verb: str, tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the keys, and the types of their values, of all tables that a file has but [model]."""
    keys = {"store": STORE_KEYS | {"max_seconds": float} | (FIT_STORE_KEYS if verb == "fit" else {})}
    if verb == "fit":
        from .data import KEYS

        keys["data"] = KEYS
    if "classify" in tables:
        keys["classify"] = _classifier_keys()
    return keys | {verb: _verb_keys(verb, tables)}


def function_of(verb: str, *, rules: bool = False) -> Callable[..., Any]:
    """Return what does a verb, or compares rules: a file needs one of them, and each brings packages of its own."""
    if verb == "sample":
        from ..sample.verb import sample

        return sample
    if verb == "fit":
        from ..fit.verb import fit

        return fit
    if verb == "infer":
        from ..infer.verb import infer

        return infer
    if rules:
        from ..planted.verb import compare_rules

        return compare_rules
    from ..infer.compare import compare

    return compare


def _classifier_keys() -> dict[str, Any]:
    from ...learning.classifier.classifier import BoltzmannClassifier
    from ...learning.methods import Monitor

    fit = function_of("fit")
    rules = {"layout": arguments_of(fit)["layout"], "until": plain_types(Monitor)["until"]} | _rule_options()
    return rules | arguments_of(BoltzmannClassifier, drop={"units"})


@cache
def _rule_options() -> dict[str, Any]:
    from ...learning.methods import RULES

    return {name: kind for rule in RULES.values() for name, kind in plain_types(rule).items()}


@cache
def _sampler_options() -> dict[str, Any]:
    return {name: kind for sampler in SAMPLERS.values() for name, kind in plain_types(sampler).items()}


def _has_rules(tables: Mapping[str, Any]) -> bool:
    """Return whether a comparison is one of rules of learning."""
    return "rules" in tables.get("compare", {})


def _verb_keys(verb: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    if _has_rules(tables):
        return _rules_keys(tables["compare"])
    keys = arguments_of(function_of(verb), NOT_IN_FILES)
    if verb == "fit":
        from ...learning.methods import Monitor

        watched = {name: kind for name, kind in plain_types(Monitor).items() if name not in FIT_STORE_KEYS}
        keys |= {"method": str} | _rule_options() | watched
    if verb == "sample":
        keys |= _sampler_options()
    if verb == "infer":
        from ...inference.auto import BY_NAME

        method = tables["infer"].get("method", "")
        checks.choice("infer.method", method, BY_NAME)
        keys |= {"method": str} | plain_types(BY_NAME[method])
    if verb == "compare":
        keys |= {
            "methods": list[str],
            "beta": float | list[float],
            "seed": int | list[int],
            "options": dict[str, dict[str, Any]],
        }
    if verb == "sample":
        keys |= SAMPLE_KEYS
    return keys


def _rules_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    if "methods" in table:
        raise ValueError("[compare] takes methods of inference or rules of learning, not both. Make two files of them.")
    return arguments_of(function_of("compare", rules=True), {"models", *NOT_IN_FILES}) | {
        "rules": list[str | dict[str, Any]],
        "beta": float | list[float],
        "n_rows": int | list[int],
        "seed": int | list[int],
        "options": dict[str, dict[str, Any]],
    }


def takes_executor(tables: Mapping[str, Any], verb: str) -> bool:
    """Return whether what a file describes can be done by workers."""
    return "executor" in signature_of(function_of(verb, rules=_has_rules(tables)))


def call(tables: Mapping[str, Any], verb: str) -> Callable[..., Any]:
    """Return the call that a checked file describes; storage, progress and threads are given to it by the caller.

    An error about an argument that stands in the file names its table too.
    """
    with _naming(tables, "model", "data"):
        made = _call(tables, verb)

    def named(**given: Any) -> Any:
        with _naming(tables, verb, "store", "data"):
            return made(**given)

    return named


@contextmanager
def _naming(tables: Mapping[str, Any], *names: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        named = re.match(r"\w+", str(error))  # "shape" of "shape[1] must be"
        if where := [name for name in names if named and named[0] in (tables.get(name) or ())]:
            error.args = (f"{where[0]}.{error}", *error.args[1:])
        raise


def _call(tables: Mapping[str, Any], verb: str) -> Callable[..., Any]:
    if verb == "fit":
        return _fit_call(tables)
    settings = dict(tables[verb])
    if verb == "sample":
        return partial(function_of(verb), one_model(tables["model"]), **settings)
    if verb == "infer":
        from ..infer.verb import infer_run

        common = {k: settings.pop(k) for k in ("beta", "clamp", "moments", "seed") if k in settings}
        return partial(infer_run, one_model(tables["model"]), settings.pop("method"), settings, **common)
    if _has_rules(tables):
        rules = settings.pop("rules")
        return partial(function_of(verb, rules=True), many_models(tables["model"]), rules, **settings)
    options = settings.pop("options", {})
    methods = {name: options.get(name, {}) for name in settings.pop("methods")}
    return partial(function_of(verb), many_models(tables["model"]), methods, **settings)


def _fit_call(tables: Mapping[str, Any]) -> Callable[..., Any]:
    from . import data

    table, settings = tables["data"], dict(tables["fit"])
    settings["seed"] = rng.resolve(settings.get("seed", 0))
    settings |= data.arguments(table, settings["seed"])
    if "classify" in tables:
        if "labels" not in settings:
            raise ValueError(
                f"[classify] needs labels, which {table['source']!r} does not have. Name them: data.labels."
            )
        settings["classify"] = dict(tables["classify"])
    return partial(function_of("fit"), settings.pop("data"), **settings)


def storage(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of [store]; the default output lies beside the file, under its name."""
    return dict(tables.get("store", {}))
