"""Options that mean the same are the same everywhere, and results are recorded with them."""

import ast
import inspect
import re
from pathlib import Path
from typing import get_type_hints

import pytest

import codebound
from codebound.cli import options
from codebound.cli.actions import record_options
from codebound.cli.main import OWN_VERBS, app
from codebound.run.errors import UsageError
from codebound.run.extensions import find_extensions, resolve

VERBS = ("demo", "train", "certify", "export", "show", "bound", "doctor")
SHARED = {
    "data_folder": options.DataFolder,
    "output": options.Output,
    "quiet": options.Quiet,
    "workers": options.Workers,
    "address": options.Address,
}


def functions():
    return {
        verb: resolve(each.function)
        for verb, each in {**OWN_VERBS, **find_extensions()["VERBS"]}.items()
        if verb in VERBS or verb not in OWN_VERBS
    }


@pytest.mark.parametrize(
    "verb", [*VERBS, "measure", "compress", "sketch", "plan", "compare", "reproduce", "sweep"]
)
def test_what_is_shared_is_declared_once(verb):
    hints = get_type_hints(functions()[verb], include_extras=True)
    for name in SHARED.keys() & hints.keys():
        assert hints[name] == SHARED[name], name


def test_every_verb_can_be_asked_for_help():
    from typer.testing import CliRunner

    for verb, function in functions().items():
        shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [verb, "--help"]).stdout
        assert inspect.getdoc(function).splitlines()[0] in shown
        assert not re.search("[\U0001f100-\U0001faff]", shown), verb  # `:a:` is no picture


@pytest.mark.parametrize(
    ("table", "pairs", "found"),
    [
        (
            "known",
            ["share=.5", "scores=a.npy", "scores=b.npy"],
            {"share": 0.5, "scores": [Path("a.npy"), Path("b.npy")]},
        ),
        (
            "claim",
            ["by-class=true", "on=each class"],
            {"by_class": True, "on": "each class", "loss": "wrong"},
        ),
        (
            "run",
            ["workers=2", "effort=quick", "effort=max"],
            {"workers": 2, "effort": "max", "device": "cpu"},
        ),
    ],
)
def test_keys_have_kinds_and_the_last_value_counts(table, pairs, found):
    read = options.read_keys(table, pairs)
    assert {name: read[name] for name in found} == found


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("shre=0.5", "no key 'shre'; did you mean share=...? Its keys: share, base, says"),
        ("share", "takes KEY=VALUE, not 'share'; did you mean share=...?"),
        ("share=half", "share=... is a number. Got 'half'"),
    ],
)
def test_a_wrong_key_is_answered_with_the_nearest(pair, says):
    with pytest.raises(UsageError, match=re.escape(says)):
        options.read_keys("known", [pair])


def test_certify_has_few_options_and_at_most_twenty_keys():
    hints = get_type_hints(functions()["certify"], include_extras=True)
    assert len(hints.keys() - {"data", "return"}) == 19
    assert sum(map(len, options.KEYS.values())) <= 20


def test_the_help_has_eight_verbs_first_and_hides_the_demo():
    from typer.testing import CliRunner

    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["--help"]).stdout
    panels = [re.findall(r"│ (\w+) ", part) for part in re.split("╭─", shown)[2:]]
    assert panels == [
        ["certify", "verify", "show", "export", "bound", "holdout", "data", "doctor"],
        ["study", "train", "measure", "compress", "sketch", "compare", "plan", "reproduce", "sweep"],
        ["audit"],
    ]


def test_options_of_the_run_are_not_recorded_and_paths_are_texts():
    def command(weights, certificate, method, out, quiet):
        return record_options(locals())

    found = command(Path("a/b"), [Path("c")], "auto", Path("d"), True)
    assert found == {"weights": "a/b", "certificate": ["c"], "method": "auto"}


@pytest.mark.thorough
def test_messages_of_the_library_name_no_options():
    source = Path(codebound.__file__).parents[1]
    of_commands = {
        "verification.py",
        "folder.py",
        "summary.py",
        "compression_summary.py",
        "download.py",
        "__main__.py",
        "run.py",
    }  # they print commands
    for path in (*source.glob("codebound/**/*.py"), *source.glob("codebound_papers/**/*.py")):
        if {"cli", "study"} & {*path.parts} or path.name in of_commands:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if re.fullmatch(r"--[a-z]+", node.value):
                    continue  # a word of a command that is printed
                found = re.search(r"(?<!ray start )--[a-z]\w+", node.value)
                assert found is None, f"{path}:{node.lineno}: {found.group()}"
