"""Declarations of encoders: writing and reading them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

DECLARED = "The inputs are rows of the encoder "
_MADE_OF = re.compile(r"made of the first ([0-9]{1,18}) of ([0-9]{1,18}) examples in the fixed order")


def made_of_words(first: int, n: int) -> str:
    """Declaration of an encoder made of the first examples."""
    return (
        f"made of the first {first} of {n} examples in the fixed order of C-10; this sample is the other "
        f"{n - first}, none of which it saw"
    )


def declared_names(declarations: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the encoders that a certificate declares.

    Example:
        >>> declared_names(["The sample is i.i.d.", "The inputs are rows of the encoder x (SHA-256 0), ..."])
        ('x',)
    """
    found = (each.removeprefix(DECLARED) for each in declarations if each.startswith(DECLARED))
    return tuple(each.partition(" (SHA-256")[0] for each in found)


def declared_name(declarations: Iterable[str]) -> str:
    """Return the name of the first of them; empty where there is none."""
    return next(iter(declared_names(declarations)), "")


def declared_part(declarations: Iterable[str]) -> tuple[int, int] | None:
    """Return the size of the first part that a declared encoder was made of, and of its whole sample.

    Example:
        >>> declared_part([f"The inputs are rows of the encoder x, {made_of_words(600, 3000)}."])
        (600, 3000)
    """
    for each in declarations:
        if found := _MADE_OF.search(each):
            first, n = map(int, found.groups())
            if each.startswith(DECLARED) and each.endswith(f"{made_of_words(first, n)}."):
                return first, n
    return None
