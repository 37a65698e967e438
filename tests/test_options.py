"""Options of samplers, methods of inference and rules of learning: said once, checked once, and never ignored."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli
from fastbm._base.options import Options
from fastbm.inference.auto import BY_NAME
from fastbm.inference.methods import METHODS
from fastbm.learning import rules as learning_rules
from fastbm.learning.closed_forms.learn import CLOSED_FORMS
from fastbm.learning.learners.local_objectives import RULES as LOCAL_RULES
from fastbm.learning.methods import OF_MONITOR, OF_RULES, RULES, Convex, Formula
from fastbm.learning.optimise.sgd import SCHEDULES
from fastbm.learning.settings import Clamped, Free, Phased
from fastbm.sampling.samplers import OWN, SAMPLERS
from tests.support import stub
from tests.support.machines import calm

CLASSES: list[type[Options]] = [*SAMPLERS.values(), *BY_NAME.values(), *RULES.values(), bm.rules.Monitor]
MODEL = bm.models.curie_weiss(6)
ROWS = np.array([[1, 1, -1], [1, -1, 1], [-1, 1, 1], [1, 1, 1], [-1, -1, -1]])
# a value of each option that asks for something
TRIED: dict[str, Any] = {
    "beta": 0.5, "optimizer": "adam", "epochs": 3, "batch_size": 5, "l2": 0.1, "l2_bias": 0.1, "tolerance": 1e-4,
    "clamped": "gibbs", "free": "gibbs", "learning_rate": 0.01, "momentum": 0.5, "schedule": "linear", "centring": True,
    "n_chains": 8, "n_sweeps": 2, "clamped_sweeps": 2, "n_betas": 4, "n_starts": 2, "pretrain_epochs": 1, "l1": 0.1,
    "flip_noise": 0.1, "ridge": 0.1,
}  # fmt: skip


def documented(cls: type[Options]) -> str:
    return inspect.getdoc(cls) or ""


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.kind}-{cls.name}")
def test_each_class_documents_each_of_its_options_once(cls: type[Options]) -> None:
    entries = [line.partition(" : ")[0] for line in documented(cls).splitlines() if line and line[0] != " "]
    named = [name.strip() for entry in entries for name in entry.split(",")]
    assert [name for name in cls.names() if named.count(name) != 1] == []
    assert documented(cls).splitlines()[0].rstrip(".;:,") != ""


def test_verbs_have_few_arguments_of_their_own_and_list_the_options_of_each_method() -> None:
    for verb in (bm.sample, bm.fit):
        assert len([p for p in inspect.signature(verb).parameters.values() if p.kind is not p.VAR_KEYWORD]) <= 22
    for verb, classes in ((bm.sample, SAMPLERS.values()), (bm.fit, [*RULES.values(), bm.rules.Monitor])):
        lines = (inspect.getdoc(verb) or "").splitlines()
        for cls in classes:
            head = next(k for k, line in enumerate(lines) if _heads(line, cls))
            listed = " ".join(lines[head + 1 : head + 6]).partition(".")[0].replace("`", "").split(", ")
            assert [one.strip() for one in listed if one.strip() != "None"] == list(cls.names()), cls.name


def _heads(line: str, cls: type[Options]) -> bool:
    return cls.name in line.strip().split(", ") or (cls is bm.rules.Monitor and line.strip() == "what is watched")


def test_names_are_never_those_of_a_verb_or_of_what_is_watched() -> None:
    assert not set(OWN) & set(inspect.signature(bm.sample).parameters)
    assert not (set(OF_RULES) | set(OF_MONITOR)) & set(inspect.signature(bm.fit).parameters)
    assert not set(OF_RULES) & set(OF_MONITOR)
    for cls in BY_NAME.values():
        assert not set(cls.names()) & (set(inspect.signature(bm.infer).parameters) - {"options"}), cls.name


def test_rules_are_those_that_there_are() -> None:
    assert {name for name, cls in RULES.items() if issubclass(cls, Formula)} == set(CLOSED_FORMS)
    assert tuple(name for name, cls in RULES.items() if issubclass(cls, Convex)) == LOCAL_RULES
    assert set(Clamped.__args__) == set(learning_rules.CLAMPED)  # type: ignore[attr-defined]
    assert set(Free.__args__) == {*learning_rules.FREE, learning_rules.AUTO}  # type: ignore[attr-defined]
    assert set(TRIED) == set(OF_RULES)
    hints = inspect.get_annotations(Phased, eval_str=True)
    assert hints["schedule"].__args__ == tuple(SCHEDULES)


@pytest.mark.parametrize("method", METHODS)
def test_an_option_of_another_method_of_inference_is_refused(method: str) -> None:
    every = {name for cls in METHODS.values() for name in cls.names()}
    for name in every - set(METHODS[method].names()):
        with pytest.raises(TypeError, match=rf"{method} has no option '{name}'.*It takes: "):
            bm.infer(MODEL, method, **{name: 3})


@pytest.mark.parametrize("method", RULES)
def test_an_option_of_another_rule_is_refused(method: str) -> None:
    for name in set(OF_RULES) - set(RULES[method].names()):
        with pytest.raises(ValueError, match=rf"{name}|is a formula|has no phases"):
            bm.fit(ROWS, method, **{name: TRIED[name]})


@pytest.mark.parametrize(
    ("verb", "subject", "name", "made", "own"),
    [
        (bm.sample, MODEL, "tempering", bm.samplers.Tempering, {"n_betas": 3}),
        (bm.sample, MODEL, "metropolis", bm.samplers.Metropolis, {"order": "permuted", "kernel": "dense"}),
        (bm.infer, MODEL, "ais", bm.methods.AIS, {"betas": np.linspace(0.0, 1.0, 30), "witness": False}),
        (bm.infer, MODEL, "auto", bm.methods.Auto, {"budget": 1.0}),
        (bm.fit, ROWS, "rise", bm.rules.Rise, {"l1": 0.05}),
        (bm.fit, ROWS, "pcd", bm.rules.PCD, {"epochs": 3, "n_chains": 4}),
    ],
)
def test_a_name_with_options_and_an_object_are_the_same_call(
    verb: Any, subject: Any, name: str, made: Any, own: dict[str, Any]
) -> None:
    common: dict[str, Any] = {"n_chains": 4, "n_sweeps": 20} if verb is bm.sample else {}
    argument = "sampler" if verb is bm.sample else "method"
    found = [
        calm(verb, subject, name, **own, **common),
        calm(verb, subject, made(**own), **common),
        calm(verb, subject, **{argument: name}, **own, **common),
    ]
    bits = [
        one.log_z if verb is bm.infer else one.model.bias.tobytes() if verb is bm.fit else one.states.tobytes()
        for one in found
    ]
    assert bits[0] == bits[1] == bits[2]
    option, value = next(iter(own.items()))
    with pytest.raises(TypeError, match=rf"{option} stands beside {argument}={made.__name__}\(\), which says all"):
        verb(subject, made(), **{option: value})
    with pytest.raises(TypeError, match=rf"{argument} must be a name or an object; got a class. Call it: "):
        verb(subject, made)


def test_samplers_methods_and_rules_are_not_taken_for_one_another() -> None:
    with pytest.raises(TypeError, match=r"sampler must be one of 'gibbs'.*got AIS\(\), which is a method of inference"):
        bm.sample(MODEL, bm.methods.AIS())
    with pytest.raises(TypeError, match=r"method must be one of 'exact'.*got Tempering\(\), which is a sampler"):
        bm.infer(MODEL, bm.samplers.Tempering())
    with pytest.raises(TypeError, match=r"method must be one of 'exact'.*got Tempering\(\), which is a sampler"):
        bm.fit(ROWS, bm.samplers.Tempering())
    with pytest.raises(TypeError, match=r"monitor must be one of 'monitor'.*got PCD\(\), which is a rule of learning"):
        bm.fit(ROWS, monitor=bm.rules.PCD())
    with pytest.raises(TypeError, match=r"patience stands beside monitor=Monitor\(\)"):
        bm.fit(ROWS, monitor=bm.rules.Monitor(), patience=3)
    with pytest.raises(TypeError, match=r"method must be a name, .*; got ndarray"):
        bm.fit(ROWS, ROWS[:, 0])  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"method must be one of .*got 'wolff'"):
        bm.infer(MODEL, "wolff")
    with pytest.raises(ValueError, match=r"sampler must be one of .*got 'ais'"):
        bm.sample(MODEL, "ais")


def test_what_is_watched_may_be_an_object() -> None:
    plain = bm.fit(ROWS, "rise", weights_every=2, fidelity=True)
    assert bm.fit(ROWS, "rise", monitor=bm.rules.Monitor(weights_every=2, fidelity=True)).config == plain.config


def test_the_stub_has_an_overload_for_each_method() -> None:
    made, there = (ast.dump(ast.parse(text)) for text in (stub.stub(), stub.PLACE.read_text()))
    assert made == there, "run python -m tests.support.stub"


def test_objects_say_what_is_wrong_when_they_are_made() -> None:
    for error, text, make in (
        (ValueError, "n_betas must be at least 2; got 1", lambda: bm.samplers.Tempering(n_betas=1)),
        (ValueError, "rule must be one of .*Did you mean 'gibbs'", lambda: bm.samplers.Annealing(rule="gibs")),
        (ValueError, "betas say all that n_betas would", lambda: bm.samplers.Tempering(betas=[0.1, 1.0], n_betas=3)),
        (ValueError, "n_sweeps // thin must be at least 1", lambda: bm.methods.Gibbs(n_sweeps=2, thin=3)),
        (TypeError, "bracket must be True or False; got 1", lambda: bm.methods.AIS(bracket=1)),
        (ValueError, "momentum must be below 1", lambda: bm.rules.PCD(momentum=1.0)),
        (TypeError, "until must be a dict such as", lambda: bm.rules.Monitor(until=3)),
        (TypeError, "unexpected keyword argument 'n_beta'", lambda: bm.samplers.Tempering(n_beta=3)),
    ):
        with pytest.raises(error, match=text):
            make()


def test_objects_with_arrays_can_be_compared_and_are_frozen() -> None:
    path = np.linspace(0.0, 1.0, 5)
    one, same = bm.methods.AIS(betas=path), bm.methods.AIS(betas=path.tolist())
    assert one == same and hash(one) == hash(same) and len({one, same}) == 1
    assert one != bm.methods.AIS(betas=path**2) and one != bm.methods.AIS() and one != bm.methods.ReverseAIS(betas=path)
    assert bm.samplers.Tempering(betas=path) == bm.samplers.Tempering(betas=tuple(path))
    assert repr(bm.samplers.Tempering(n_betas=3, rule="gibbs")) == "Tempering(n_betas=3)"
    with pytest.raises(AttributeError):
        one.n_chains = 3


def test_dataclasses_with_arrays_are_like_themselves_alone() -> None:
    """To compare their fields would ask arrays whether they are true."""
    fidelity = bm.fidelity(MODEL, np.ones((8, 6), int))
    public = {value for name in bm.__all__ if dataclasses.is_dataclass(value := getattr(bm, name))}
    with_arrays = {one for one in public if any("ndarray" in str(field.type) for field in dataclasses.fields(one))}
    for one in with_arrays | {bm.Inference, type(fidelity), type(fidelity.mean)}:
        assert one.__eq__ is object.__eq__ and one.__hash__ is object.__hash__, one


def test_help_on_the_command_line_says_what_the_docstring_says(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            cli.main(["help", *arguments])
        printed = capsys.readouterr()
        return int(str(left.value.code)), printed.out + printed.err

    code, text = said("tempering")
    assert code == 0 and max(map(len, text.splitlines())) <= 80
    for cls in (bm.samplers.Tempering, bm.methods.Tempering):
        assert " ".join(documented(cls).split()) in " ".join(text.split())
    code, text = said()
    assert code == 0 and all(cls.name in text for cls in CLASSES)
    assert said("temperin") == (
        2,
        "fastbm: nothing is called 'temperin'. Did you mean 'tempering'? fastbm help lists all names.\n",
    )
