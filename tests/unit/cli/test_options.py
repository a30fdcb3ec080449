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
from codebound.run.extensions import find_extensions, resolve

VERBS = ("demo", "train", "certify", "decode", "show", "bound", "doctor")
SHARED = {
    "data_folder": options.DataFolder,
    "base_says": options.BaseSays,
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
        "gallery.py",
        "__main__.py",
        "run.py",
    }  # they print commands
    for path in (*source.glob("codebound/**/*.py"), *source.glob("codebound_papers/**/*.py")):
        if {"cli", "study"} & {*path.parts} or path.name in of_commands:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = re.search(r"(?<!ray start )--[a-z]\w+", node.value)
                assert found is None, f"{path}:{node.lineno}: {found.group()}"
