"""Commands as jobs: their options, and values of the wrong kind."""

from pathlib import Path

import pytest

from codebound.cli.sweep import keywords, verbs
from codebound.errors import UsageError


def test_options_are_those_of_the_command_line_without_what_the_sweep_decides():
    known = verbs()
    assert {"train", "compress", "certify", "measure"} <= set(known)
    assert {"model", "data", "weights", "seed", "epochs", "batch_size"} <= known["train"].options
    assert {"model", "weights", "method", "set"} <= known["compress"].options
    for verb in known.values():
        assert not {"out", "format", "quiet", "list", "engine", "workers", "address"} & verb.options
        assert "weights" in verb.files
        assert {"model", "data"} <= verb.sources
    assert "for_certificate" not in known["train"].options


def test_values_become_what_the_function_takes():
    assert keywords(
        "certify",
        {
            "model": "linear",
            "data": "digits",
            "weights": "a/b",
            "input_range": [0, 16],
            "delta": 1,
            "seed": 2,
        },
    ) == {
        "model": "linear",
        "data": "digits",
        "weights": Path("a/b"),
        "input_range": (0.0, 16.0),
        "delta": 1.0,
        "seed": 2,
    }
    assert keywords("train", {"model": "mlp", "data": "digits", "nesterov": False}) == {
        "arch": "mlp",
        "data": "digits",
        "nesterov": False,
    }


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        ("certify", {"model": "linear"}, "certify needs data"),
        ("train", {"data": "digits"}, "train needs model"),
        ("train", {"model": "linear", "data": "digits", "epochs": "many"}, "epochs is a whole number"),
        ("train", {"model": "linear", "data": "digits", "epochs": True}, "epochs is a whole number"),
        ("train", {"model": "linear", "data": "digits", "nesterov": 1}, "nesterov is true or false"),
        ("train", {"model": "linear", "data": 3}, "data is a text"),
        ("certify", {"model": "linear", "data": "digits", "delta": "5%"}, "delta is a number"),
        ("certify", {"model": "linear", "data": "digits", "input_range": [1]}, "list of 2 values"),
        ("compress", {"model": "linear", "method": "naive", "set": "density=0.1"}, "list of values"),
        ("compress", {"model": "linear", "method": "naive", "examples": 0}, "outside its range"),
    ],
)
def test_wrong_values_are_named(verb, arguments, message):
    with pytest.raises(UsageError, match=message):
        keywords(verb, arguments)
