"""Rooms beside the kernel, by name: the kernel imports none of them, and the program puts them in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

OPENED_BY: dict[str, Callable[[], Any]] = {}
"""Functions that load a room; ``codebound_verify/__init__.py`` has the table."""


def room(name: str) -> Any:
    """Load a room; one that was left out is a reason to refuse what needs it."""
    try:
        return OPENED_BY[name]()
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(f"{__package__}."):
            raise  # it is there, and lacks something else
        raise Refused(f"Program: {error.name}, which this needs, is not installed.") from None
