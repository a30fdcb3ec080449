"""Options that mean the same are the same everywhere, and results are recorded with them."""

import inspect
from pathlib import Path
from typing import get_type_hints

import pytest

from codebound.cli import options
from codebound.cli.main import app
from codebound.cli.options import record_options
from codebound.extensions import extensions, loaded

VERBS = ("demo", "train", "certify", "decode", "show", "bound", "sweep", "doctor")
SHARED = {
    "data_folder": options.DataFolder,
    "base_says": options.BaseSays,
    "output": options.Output,
    "quiet": options.Quiet,
    "workers": options.Workers,
    "address": options.Address,
}


def functions():
    own = {verb: f"codebound.cli.{verb}:command" for verb in VERBS}
    papers = {verb: each.function for verb, each in extensions()["VERBS"].items()}
    return {verb: loaded(home) for verb, home in {**own, **papers}.items()}


@pytest.mark.parametrize("verb", [*VERBS, "measure", "compress", "sketch", "plan", "compare", "reproduce"])
def test_what_is_shared_is_declared_once(verb):
    hints = get_type_hints(functions()[verb], include_extras=True)
    for name in SHARED.keys() & hints.keys():
        assert hints[name] == SHARED[name], name


def test_every_verb_can_be_asked_for_help():
    from typer.testing import CliRunner

    for verb, function in functions().items():
        shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [verb, "--help"]).stdout
        assert inspect.getdoc(function).splitlines()[0] in shown


def test_options_of_the_run_are_not_recorded_and_paths_are_texts():
    def command(weights, certificate, method, out, quiet):
        return record_options(locals())

    found = command(Path("a/b"), [Path("c")], "auto", Path("d"), True)
    assert found == {"weights": "a/b", "certificate": ["c"], "method": "auto"}
