"""Classes, scaling and options, in front of the architecture of a message (docs/format.md, 8.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codebound.known.messages import CATALOGUE, MAX_CONSTANTS, Setting, count_channels
from codebound.sample.dataset import Scaling
from codebound_networks.codes.numbers import bit, float32, gamma, signed, uniform

if TYPE_CHECKING:
    from codebound_networks.codes.arithmetic import AbstractCoder

MAX_CLASSES = 1 << 16
MAX_THETA_INDEX = 8000


def code_setting(coder: AbstractCoder, given: Setting, input_shape: tuple[int, ...]) -> Setting:
    """Code or read classes and scaling, whose constants have to fit the shape of an input."""
    classes = gamma(coder, given.classes - 1) + 1
    coder.require(classes <= MAX_CLASSES, f"at most {MAX_CLASSES} classes are allowed. Got {classes}.")
    at = CATALOGUE.index(given.scaling) if given.scaling in CATALOGUE else len(CATALOGUE)
    word = uniform(coder, at, len(CATALOGUE) + 1)
    scaling = CATALOGUE[word] if word < len(CATALOGUE) else _code_constants(coder, given.scaling)
    coder.require(
        len(scaling.mean) in (1, count_channels(input_shape)),
        f"scaling has {len(scaling.mean)} constants for inputs of shape {input_shape}.",
    )
    return Setting(classes, scaling)


def code_theta(coder: AbstractCoder, index: int | None) -> int | None:
    """Code or read the index of the margin, or that there is none."""
    if not bit(coder, index is not None):
        return None
    found = signed(coder, index or 0)
    coder.require(abs(found) <= MAX_THETA_INDEX, f"theta has an index within {MAX_THETA_INDEX}. Got {found}.")
    return found


def _code_constants(coder: AbstractCoder, given: Scaling) -> Scaling:
    count = uniform(coder, len(given.mean) - 1, MAX_CONSTANTS) + 1
    numbers = np.array([given.divisor, *given.mean, *given.std])
    numbers = numbers if len(numbers) == 2 * count + 1 else np.zeros(2 * count + 1)  # a reader has none yet
    coder.require(
        (numbers == numbers.astype(np.float32)).all(), f"scaling needs constants in float32. Got {given}."
    )
    patterns = [float32(coder, each) for each in numbers.astype(np.float32).view(np.uint32).tolist()]
    divisor, *rest = np.array(patterns, np.uint32).view(np.float32).tolist()
    coder.require(min(divisor, *rest[count:]) > 0.0, "scaling needs a positive divisor and positive std.")
    return Scaling(divisor, tuple(rest[:count]), tuple(rest[count:]))
