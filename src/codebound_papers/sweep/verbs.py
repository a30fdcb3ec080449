"""The commands that a plan may ask for: the options of each, and the function that runs it.

The names, kinds, ranges and defaults of options are declared once, in the signature of the verb: the command
line reads it, and so does a plan.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from codebound.run.errors import UsageError
from codebound.run.extensions import resolve
from codebound_papers.sweep.grid import PlannedVerb

if TYPE_CHECKING:
    from collections.abc import Mapping


_STABILITY = "Arora 4.1: noise stability"
# for each: the function it runs, where its options are declared, the weights that it leaves, what to print
_VERBS = {
    "train": (
        "codebound_networks.cli.actions:train_from_options",
        "codebound_networks.cli.train:command",
        "model.safetensors",
        ("train_error", "test_error"),
    ),
    "certify": (
        "codebound.cli.actions:certify_record",
        "codebound.cli.certify:command",
        "g.safetensors",
        ("bound", "errors", "n", "code_bits", "vacuous", "holdout"),
    ),
    "compress": (
        "codebound_papers.compress.compression:compress_from_options",
        "codebound_papers.cli.compress:command",
        "compressed.safetensors",
        ("coded_bits", "accuracy_before", "accuracy_after"),
    ),
    "compare": (
        "codebound_papers.compare.comparison:compare_from_options",
        "codebound_papers.cli.compare:command",
        "",
        ("rows.Test error of f.value", "rows.Hold-out bound of f.value", f"rows.{_STABILITY}.log10"),
    ),
    "measure": (
        "codebound_papers.measure.summary:measure_from_options",
        "codebound_papers.cli.measure:command",
        "",
        ("margins.errors", "margins.min", "margins.max"),
    ),
}
# of the sweep, not of a job: where results go, how they are printed, and what runs at the same time
_OURS = frozenset({"out", "format", "quiet", "verbose", "list", "engine", "workers", "address"})
# a plan has certify for training to a certificate; and compare writes into the folder of a run
_LEFT_OUT = {
    "compare": frozenset({"over"}),
}
_SOURCES = frozenset({"model", "data", "test", "unlabelled", "learner", "helper", "encoder"})


@dataclass(frozen=True)
class _Option:
    """An option of a command as its function declares it."""

    parameter: str
    kind: Any
    default: Any
    is_required: bool
    least: float | None
    most: float | None


def list_verbs() -> dict[str, PlannedVerb]:
    """Every command that can be a job, with its options.

    >>> table = {"grid": {"seed": [0, 1]}, "jobs": [{"verb": "certify", "data": "digits"}]}
    >>> from codebound_papers.sweep.grid import plan_jobs
    >>> len(plan_jobs(table, list_verbs()))  # for `execute`
    2
    """
    found = {}
    for name, (function, _, weights, columns) in _VERBS.items():
        options = {key: each for key, each in _inspect(name).items() if key not in _LEFT_OUT.get(name, ())}
        found[name] = PlannedVerb(
            name=name,
            function=function,
            options=frozenset(options),
            files=frozenset(
                key for key, each in options.items() if Path in (each.kind, *get_args(each.kind))
            ),
            sources=_SOURCES & options.keys(),
            weights=weights,
            columns=columns,
            is_resumable=name == "train",
            complete=partial(complete_options, name),
        )
    return found


def complete_options(verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the options of a plan, by their names on the command line, to all arguments of its command.

    >>> found = complete_options("compress", {"model": "linear", "method": "naive", "set": ["density=0.2"]})
    >>> found["options"], found["seed"]
    (['density=0.2'], 0)
    """
    declared = _inspect(verb)
    missing = [name for name, option in declared.items() if option.is_required and name not in arguments]
    if missing:
        raise UsageError(f"{verb} needs {', '.join(missing)}.")
    given = {declared[name].parameter: _convert(name, declared[name], arguments[name]) for name in arguments}
    return {option.parameter: option.default for option in declared.values()} | given


@cache  # a plan has many jobs
def _inspect(verb: str) -> dict[str, _Option]:
    """All that decide what a job does, by their names in a plan."""
    from codebound.cli.options import KEYS  # a worker needs no command line

    function, found = resolve(_VERBS[verb][1]), {}
    hints = get_type_hints(function, include_extras=True)
    tables = KEYS if verb == "certify" else {}  # a plan has their keys as they are
    for keys in tables.values():
        for key, each in keys.items():
            name = key.replace("-", "_")
            found[name] = _Option(name, each.kind, each.default, False, None, None)
    for parameter in inspect.signature(function).parameters.values():
        annotation, declared = get_args(hints[parameter.name])
        if type(None) in get_args(annotation):
            (annotation,) = (each for each in get_args(annotation) if each is not type(None))
        # the first name given to typer.Option stands where a default used to be
        words = (declared.default, *(declared.param_decls or ()))
        flags = [word for word in words if isinstance(word, str) and word.startswith("--")]
        name = flags[0].partition("/")[0].lstrip("-").replace("-", "_") if flags else parameter.name
        if parameter.name == "arch":
            name = "model"  # one name in all commands of a plan
        # a network may be left out in certify; in train only for a certificate, which is no job
        is_required = parameter.name == "arch" or parameter.default is inspect.Parameter.empty
        found[name] = _Option(
            parameter.name, annotation, parameter.default, is_required, declared.min, declared.max
        )
    return {name: option for name, option in found.items() if name not in _OURS | tables.keys()}


_KINDS = {str: "a text", Path: "a path", bool: "true or false", int: "a whole number", float: "a number"}


def _convert(name: str, option: _Option, value: Any) -> Any:
    kind, parts = get_origin(option.kind) or option.kind, get_args(option.kind)
    if kind in (list, tuple):
        if not isinstance(value, list) or (kind is tuple and len(value) != len(parts)):
            size = f"{len(parts)} values" if kind is tuple else "values"
            raise UsageError(f"{name} is a list of {size}. Got {value!r}.")
        kinds = parts if kind is tuple else parts * len(value)
        return kind(_single(name, part, each) for part, each in zip(kinds, value, strict=True))
    value = _single(name, kind, value)
    is_low = option.least is not None and value < option.least
    if is_low or (option.most is not None and value > option.most):
        raise UsageError(f"{name} lies outside its range. Got {value!r}.")
    return value


def _single(name: str, kind: Any, value: Any) -> Any:
    accepted: Any = {Path: str, float: (int, float)}.get(kind, kind)
    if not isinstance(value, accepted) or isinstance(value, bool) != (kind is bool):
        raise UsageError(f"{name} is {_KINDS[kind]}. Got {value!r}.")
    return kind(value)
