"""The compressors by name, each with its options as text, and as functions."""

import math
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import torch

from codebound.run.errors import UsageError
from codebound.sample.dataset import DeviceData
from codebound.sample.outputs import error_count
from codebound_networks.codes.modes import encode_tensors
from codebound_papers.compress.catalogue import COMPRESSORS, find_compressor
from codebound_papers.compress.compressors import AbstractCompressor, AbstractRule, Compressed, Job

Options = dict[str, Any]
_LOSS = 100  # one example in so many may become wrong
_MILDER: dict[str, tuple[Options, ...]] = {"mbp": ({"strength": 0.4}, {"strength": 0.2}, {"strength": 0.1})}


def default_options(method: str) -> Options:
    """The options of a method with their defaults.

    >>> default_options("naive")
    {'density': 0.1, 'levels': 31}
    """
    algorithm: Any = find_compressor(method).algorithm
    return {each.name: each.default for each in fields(algorithm)}


def run_method(method: str, options: Options, job: Job) -> Compressed:
    """Compresses a network by a method of that name."""
    job.network.require_layers("compress")
    return find_compressor(method).algorithm(**options).run(job)


def has_grid(method: str) -> bool:
    """Return True if options of a method can be compared without training."""
    algorithm = find_compressor(method).algorithm
    return issubclass(algorithm, AbstractCompressor) and len((*algorithm.grid(), *algorithm.near())) > 1


def mild_options(method: str, job: Job, sample: DeviceData) -> Options:
    """The options, of all that ``certify`` tries, the defaults and milder ones, of the shortest message that
    costs at most a hundredth of the accuracy on a sample; where all cost more, of the one that costs least.
    """
    algorithm: Any = find_compressor(method).algorithm
    most = error_count(job.network.model, sample, dtype=torch.float32) + sample.n // _LOSS

    def price(each: Any) -> tuple[int, int]:
        found = each.run(job)
        errors = error_count(found.module(), sample, dtype=torch.float32)
        return max(0, errors - most), encode_tensors([layer.code for layer in found.layers]).length

    milder = (algorithm(**each) for each in _MILDER.get(method, ()))
    best = min((algorithm(), *algorithm.grid(), *algorithm.near(), *milder), key=price)
    return {each.name: getattr(best, each.name) for each in fields(best)}


def option_text(value: object) -> str:
    """An option as it is written on a command line; ``parse_options`` reads it back.

    >>> option_text(False), option_text(None), option_text(default_options("heavytail")["threshold"])
    ('false', 'none', 'std')
    """
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def parse_options(method: str, texts: Iterable[str]) -> Options:
    """All options of a method: the given ones, as ``name=value``, and the defaults of the others.

    >>> parse_options("mbp", ["strength=2", "keep_diagonal=false"])["strength"]
    2.0
    """
    options, words = default_options(method), find_compressor(method).algorithm.words
    given: Options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in options:
            known = ", ".join(f"{each}={option_text(default)}" for each, default in options.items())
            raise UsageError(f"cannot read the option {text!r}. {method} takes {known}.")
        if name in given:
            raise UsageError(f"the option {name} is given twice.")
        given[name] = value if words.get(name) == value else _parse(name, value, options[name])
    return {**options, **given}


def _parse(name: str, text: str, default: object) -> object:
    """A value of the kind that the default has; None stands for a number that is not given."""
    try:
        if isinstance(default, bool):
            return ("false", "true").index(text.lower()) == 1
        if isinstance(default, int):
            return int(text)
        if isinstance(default, str):
            return text
        if default is None and text.lower() == "none":
            return None
        rule, *numbers = text.split(":")
        if isinstance(default, AbstractRule) and rule in default.known:
            return default.known[rule](*map(_number, numbers))
        return _number(text)
    except (ValueError, TypeError) as cause:
        raise UsageError(f"the option {name} is {_form(default)}. Got {text!r}.") from cause


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _form(default: object) -> str:
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, int):
        return "a whole number"
    if isinstance(default, AbstractRule):
        return default.form
    return "a number or none" if default is None else "a number"


# The compressors as functions, such as ``mbp(network, strength=2.0, seed=1)``: each takes the options of its
# class and the fields of ``Job`` by name; some of these by position.

_OF_THE_JOB = [each.name for each in fields(Job)]


def _function(name: str, *positional: str) -> Callable[..., Any]:
    """The function of a compressor; fields of the job that follow the network can be given by position."""
    algorithm = COMPRESSORS[name].algorithm
    known = ("network", *positional)

    def compressed(*values: Any, **options: Any) -> Any:
        job = dict(zip(known[: len(values)], values, strict=True))
        job |= {key: options.pop(key) for key in _OF_THE_JOB if key in options}
        return algorithm(**options).run(Job(**job))

    compressed.__name__ = compressed.__qualname__ = name.replace("-", "_")
    compressed.__doc__ = algorithm.__doc__
    return compressed


mbp = _function("mbp")
naive = _function("naive")
project = _function("project")
vector_compress = _function("vector-compress")
vector_project = _function("vector-project")
lowrank = _function("lowrank")
heavytail = _function("heavytail")
lottery = _function("lottery", "sample")
imp = _function("imp", "sample")
balanced = _function("balanced", "sample")
conv_network = _function("conv", "input_shape")
