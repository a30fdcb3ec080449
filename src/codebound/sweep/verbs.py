"""What a plan may ask for: commands, seen from a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _anything(arguments: Mapping[str, Any]) -> object:
    """Accepts all arguments."""
    return arguments


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Verb:
    """A command whose runs can be jobs.

    Attributes:
        name: Its name in a plan.
        function: ``package.module:name``, called in a worker with ``verb``, ``arguments`` and ``out``, the
            folder for its files, which does not exist yet. Returns its result: plain JSON.
        options: Arguments that it takes.
        files: Those of them that name an existing file or folder.
        sources: Those that may name a file, a folder or a ``package.module:factory``.
        weights: The file in its folder that another job means by ``@name``; empty when it has none.
        columns: What to print of its result.
        is_resumable: Whether a second call goes on in the folder that a killed one left.
        check: Raises where arguments are wrong, before anything runs.
    """

    name: str
    function: str
    options: frozenset[str]
    files: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    weights: str = ""
    columns: tuple[str, ...] = ()
    is_resumable: bool = False
    check: Callable[[Mapping[str, Any]], object] = field(default=_anything)
