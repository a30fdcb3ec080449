"""Extensions: what other packages add, what they may not replace, and what happens when they are broken."""

import math
import sys
from types import SimpleNamespace

import pytest
from typer.main import get_command

from codebound.cli.main import OWN_VERBS, app
from codebound.methods.search import METHODS, Method, list_methods
from codebound.run import extensions
from codebound.run.errors import UsageError
from codebound.run.extensions import Verb, find_extensions, form_of, reader
from codebound.run.job import open_engine


class Point:
    """An entry point that loads what it is given, or fails as a package can."""

    def __init__(self, name: str, content: object) -> None:
        self.name, self._content = name, content

    def load(self) -> object:
        if isinstance(self._content, Exception):
            raise self._content
        return self._content


@pytest.fixture
def installed(monkeypatch):
    """Makes these the only extensions."""

    def install(**contents: object) -> extensions.Extensions:
        points = [Point(name, content) for name, content in contents.items()]
        monkeypatch.setattr(
            extensions.metadata,
            "entry_points",
            lambda group: points if group == extensions.GROUP else (),  # torch has some of its own
        )
        find_extensions.cache_clear()
        return find_extensions()

    yield install
    find_extensions.cache_clear()


def test_without_any_the_advice_says_what_is_missing(installed):
    found = installed()
    assert (found.tables, found.missing) == ({}, {})
    assert "codebound_papers" in found.advice


@pytest.mark.parametrize("error", [ImportError("no such module"), ZeroDivisionError("oops")])
def test_a_broken_extension_is_named_and_stops_nobody(installed, error):
    good = SimpleNamespace(METHODS={"toy": Method("A toy.", "toy:propose")})
    found = installed(broken=error, good=good)
    assert str(error) in found.missing["broken"]
    assert str(error) in found.advice
    assert list(found["METHODS"]) == ["toy"]


def test_the_first_extension_to_name_a_thing_has_it(installed):
    found = installed(
        b=SimpleNamespace(NAMES={"toy": "second"}), a=SimpleNamespace(NAMES={"toy": "first", "other": "a"})
    )
    assert found["NAMES"] == {"toy": "first", "other": "a"}


def test_an_extension_replaces_nothing_of_ours(installed, codebound):
    installed(
        a=SimpleNamespace(
            METHODS={"split": Method("Not ours.", "nowhere:at_all")},
            VERBS={"bound": Verb("nowhere:at_all", after="train"), "last": Verb("x:y", after="no such verb")},
        )
    )
    assert list_methods()["split"] is METHODS["split"]
    assert list_methods().keys() == METHODS.keys()
    code, out, _ = codebound("bound", "--errors", "1", "--n", "10", "--bits", "1", "--format", "json")
    assert (code, "binomial" in out) == (0, True)
    assert "bound" in OWN_VERBS
    assert list(get_command(app).commands)[-1] == "last"  # after a verb that does not exist: at the end


def test_an_engine_is_made_by_the_extension_that_names_it(installed, monkeypatch):
    asked = []
    toys = SimpleNamespace(make=lambda address, *, workers: asked.append((address, workers)) or "an engine")
    monkeypatch.setitem(sys.modules, "toy_engines", toys)
    installed(a=SimpleNamespace(ENGINES={"toy": "toy_engines:make"}))
    assert open_engine("toy", address="host:1") == open_engine("toy", workers=3) == "an engine"
    assert asked == [("host:1", None), (None, 3)]
    with pytest.raises(UsageError, match=r"an engine is local or toy\. Got 'ray'"):
        open_engine("ray")
    installed()
    with pytest.raises(UsageError, match=r"an engine is local\. Got 'ray'.*codebound_papers"):
        open_engine("ray")
    assert open_engine("local", workers=2).slots == 2


def test_a_network_is_not_judged_without_the_package_that_bounds_its_rounding(installed):
    installed()
    with pytest.raises(UsageError, match=r"reads or judges networks \(rounding\): codebound_networks does"):
        form_of("rounding")
    installed(networks=SimpleNamespace(FORMS={"rounding": "math:pi"}))
    assert form_of("rounding") == math.pi


def test_without_the_networks_a_reader_says_what_is_missing(installed):
    installed(networks=ImportError("no such module"))
    with pytest.raises(
        UsageError, match=r"reads models: codebound_networks does.*networks \(ImportError: no"
    ):
        reader("models")
