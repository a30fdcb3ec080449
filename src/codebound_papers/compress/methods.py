"""The compressors by name, each with its options as text: what a command line needs."""

from __future__ import annotations

import inspect
import math
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from codebound.errors import UsageError
from codebound.progress import Progress, silent
from codebound_papers.arora18 import projection, truncation, vector  # noqa: F401 (they register)
from codebound_papers.arora18.local_filters import LocalNetwork, conv_network
from codebound_papers.compress.catalogue import SENTENCES
from codebound_papers.compress.compressors import COMPRESSORS, CompressedNetwork, compress
from codebound_papers.guha23 import largest  # noqa: F401 (registers)
from codebound_papers.guha23.iterative import imp
from codebound_papers.guha23.magnitude import common_variance
from codebound_papers.guha23.tickets import lottery
from codebound_papers.shin21 import compressor, replacement  # noqa: F401 (they register)
from codebound_papers.shin21.thresholds import (
    AbstractThreshold,
    Corrected,
    Published,
    ScaleFree,
    StandardDeviation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codebound.data.dataset import DeviceData
    from codebound.nets.walk import Network

Options = dict[str, Any]


_FUNCTIONS: dict[str, Callable[..., Any]] = {"conv": conv_network, "lottery": lottery, "imp": imp}
_OF_THE_JOB = ("layers", "seed", "progress")
_COMMON = "common"  # the variance of mbp: one for all layers, which only the whole network knows
_TRAINED = ("lottery", "imp")
_RULES: dict[str, type[AbstractThreshold]] = {
    "std": StandardDeviation,
    "published": Published,
    "corrected": Corrected,
    "scale-free": ScaleFree,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a method is applied to.

    Attributes:
        network: The wrapped network.
        input_shape: Shape of one input.
        sample: Examples, for methods that train.
        layers: Names of the layers to compress; all when None.
        seed: Names all random choices.
        progress: Told how far it is.
    """

    network: Network = field(repr=False)
    input_shape: tuple[int, ...]
    sample: DeviceData | None = None
    layers: tuple[str, ...] | None = None
    seed: int = 0
    progress: Progress = silent


def method_names() -> tuple[str, ...]:
    """All methods.

    Example:
        >>> method_names()[:3]
        ('mbp', 'naive', 'project')
    """
    return tuple(dict.fromkeys((*SENTENCES, *COMPRESSORS)))


def sentence_of(method: str) -> str:
    """What a method does, in words."""
    _check_method(method)
    return SENTENCES.get(method) or str(COMPRESSORS[method].__doc__).split("\n", 1)[0]


def default_options(method: str) -> Options:
    """The options of a method with their defaults.

    Example:
        >>> default_options("naive")
        {'density': 0.1, 'levels': 31}
    """
    _check_method(method)
    if method in _FUNCTIONS:
        parameters = inspect.signature(_FUNCTIONS[method]).parameters.values()
        defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        return {name: value for name, value in defaults.items() if name not in _OF_THE_JOB}
    return {each.name: each.default for each in fields(COMPRESSORS[method])}  # type: ignore[arg-type]


def option_text(value: object) -> str:
    """An option as it is written on a command line; ``parse_options`` reads it back.

    Example:
        >>> option_text(False), option_text(None), option_text(StandardDeviation())
        ('false', 'none', 'std')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, StandardDeviation | Published | Corrected | ScaleFree):
        name = next(name for name, rule in _RULES.items() if rule is type(value))
        return ":".join([name, *map(str, asdict(value).values())])
    return str(value)


def parse_options(method: str, texts: Iterable[str]) -> Options:
    """All options of a method: the given ones, as ``name=value``, and the defaults of the others.

    Example:
        >>> parse_options("mbp", ["strength=2", "keep_diagonal=false"])["strength"]
        2.0
    """
    options = default_options(method)
    given: Options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in options:
            known = ", ".join(f"{each}={option_text(default)}" for each, default in options.items())
            raise UsageError(f"cannot read the option {text!r}. {method} takes {known}.")
        if name in given:
            raise UsageError(f"the option {name} is given twice.")
        is_common = (method, name, value) == ("mbp", "variance", _COMMON)
        given[name] = _COMMON if is_common else _parsed(name, value, options[name])
    return {**options, **given}


def run_method(method: str, options: Options, job: Job) -> CompressedNetwork | LocalNetwork:
    """Compresses a network by a method of that name.

    Args:
        method: One of ``method_names()``.
        options: All its options, as from ``parse_options`` or ``default_options``.
        job: What it is applied to.

    Raises:
        UsageError: The method is unknown, needs a sample, or refuses an option.
    """
    _check_method(method)
    network, seed, progress = job.network, job.seed, job.progress
    if method == "conv":
        return conv_network(
            network, job.input_shape, **options, layers=job.layers, seed=seed, progress=progress
        )
    if options.get("variance") == _COMMON:
        options = {**options, "variance": common_variance(network)}
    if method not in _TRAINED:
        algorithm = COMPRESSORS[method](**options)
        return compress(network, algorithm, seed=seed, layers=job.layers, progress=progress)
    if job.layers is not None:
        raise UsageError(f"{method} trains all layers together, so it cannot be given some of them.")
    if job.sample is None:
        raise UsageError(f"{method} trains on a sample: give one, with --data.")
    train = lottery if method == "lottery" else imp
    return train(network, job.sample, **options, seed=seed, progress=progress)


def _check_method(method: str) -> None:
    if method not in method_names():
        raise UsageError(f"unknown method {method!r}. Known: {', '.join(method_names())}.")


def _parsed(name: str, text: str, default: object) -> object:
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
        if isinstance(default, AbstractThreshold) and rule in _RULES:
            return _RULES[rule](*map(_number, numbers))
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
    if isinstance(default, AbstractThreshold):
        return "a number, std, or one of published, corrected and scale-free with :EPSILON:ETA behind it"
    return "a number or none" if default is None else "a number"
