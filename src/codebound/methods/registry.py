"""The methods of ``certify`` by name; each is loaded when it runs, so that listing them costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from codebound.run.errors import UsageError
from codebound.run.extensions import find_extensions, import_named, resolve

if TYPE_CHECKING:
    from codebound.methods.search import Search

Propose = Callable[["Search"], None]


@dataclass(frozen=True, slots=True)
class Method:
    """A way to make messages.

    Attributes:
        sentence: What it does, in words.
        function: What shows its messages to a search, or where that is: ``"package.module:function"``.
        is_own: Whether g is a network of its own, for which f is not looked at unless there is a base.
        is_spare: Whether ``auto`` takes it only where nothing before says more than guessing, or at max.
        needs_network: Whether it starts from f: ``auto`` leaves it out where there is none.
    """

    sentence: str
    function: str | Propose
    is_own: bool = False
    is_spare: bool = False
    needs_network: bool = False

    def propose(self, search: Search) -> None:
        """Shows messages to a search."""
        function: Propose = resolve(self.function) if isinstance(self.function, str) else self.function
        function(search)


METHODS = {
    "split": Method(
        "The usual learner on the usual share of the sample, counted on the rest: quick, and one bit.",
        "codebound.methods.split:propose_split",
        is_own=True,
    ),
    "picks": Method(
        "A classifier learned in closed form from few picked examples; all others count.",
        "codebound.methods.picks:propose_picks",
        is_own=True,
        is_spare=True,
    ),
    "scores": Method(
        "Scores that were made without the counted examples, and are declared: two bits.",
        "codebound.methods.scores:propose_scores",
        is_own=True,
    ),
}
"""Our own, the strongest for their time first: the later ones end early where they have no chance."""


def list_methods() -> dict[str, Method]:
    """All methods, in the order in which ``auto`` tries them: our own, then those of extensions.

    Example:
        >>> list(list_methods())[:2]
        ['split', 'scores']
    """
    known = {**METHODS, **find_extensions()["METHODS"], **METHODS}
    return dict(sorted(known.items(), key=lambda item: item[1].is_spare))


def find_method(name: str) -> Method:
    """The method of this name, or one of yours as ``package.module:function``.

    Raises:
        UsageError: There is none.
    """
    known = list_methods()
    if name in known:
        return known[name]
    if ":" in str(name):
        try:
            return Method(name, import_named(name), is_own=True)
        except (ImportError, AttributeError, ValueError) as error:
            raise UsageError(f"no method {name}: {error}. Give package.module:function.") from error
    near = get_close_matches(str(name), ("auto", *known), n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"unknown method {name!r}.{meant} Known: auto, {', '.join(known)}.{find_extensions().advice}"
    )


def makes_own(name: str) -> bool:
    """Return True if a method makes its own network. ``auto`` tries some that do."""
    return name == "auto" or find_method(name).is_own
