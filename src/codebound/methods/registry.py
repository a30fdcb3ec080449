"""The methods of ``certify`` by name; each is loaded when it runs, so that listing them costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from codebound.run.errors import UsageError
from codebound.run.extensions import find_extensions, loaded

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
    """

    sentence: str
    function: str | Propose
    is_own: bool = False

    def propose(self, search: Search) -> None:
        """Shows messages to a search."""
        function: Propose = loaded(self.function) if isinstance(self.function, str) else self.function
        function(search)


METHODS = {
    "constant": Method(
        "Always the commonest label: what every other method has to beat.",
        "codebound.methods.constant:propose_constant",
        is_own=True,
    ),
    "picks": Method(
        "A network of its own, learned in closed form from few picked examples: quick, and the tightest.",
        "codebound.methods.rule_search:propose_picks",
        is_own=True,
    ),
    "split": Method(
        "The same learner on a share of the sample, and nothing picked: a hold-out set at 20 bits or so.",
        "codebound.methods.holdout_baseline:propose_split",
        is_own=True,
    ),
    "features": Method(
        "A sparse linear layer on features that cost no bits: those of fixed filters, or of the base.",
        "codebound_networks.methods.sparse_features:propose_features",
        is_own=True,
    ),
    "biases": Method(
        "The base with small numbers added to its last biases: a few tens of bits, for some hundred labels.",
        "codebound_networks.methods.biases:propose_biases",
    ),
    "prune": Method(
        "Prunes and quantises; trains what is left on the sample, unless the effort is quick.",
        "codebound_networks.methods.pruned:propose_pruned",
    ),
    "subspace": Method(
        "All weights from a few integers in a random subspace: of a small network of its own, best on a GPU, "
        "or around the base.",
        "codebound_networks.methods.subspace_networks:propose_subspace",
        is_own=True,
    ),
    "subspace-f": Method(
        "The same in the architecture of f, whatever the inputs are.",
        "codebound_networks.methods.subspace_networks:propose_subspace_of_f",
    ),
}
"""Our own, the strongest for their time first: the later ones end early where they have no chance."""


def known_methods() -> dict[str, Method]:
    """All methods, in the order in which ``auto`` tries them: our own, then those of extensions.

    Example:
        >>> list(known_methods())[:2]
        ['constant', 'picks']
    """
    return {**METHODS, **find_extensions()["METHODS"], **METHODS}


def makes_own(name: str) -> bool:
    """Whether a method, or one of those that ``auto`` tries, makes a network of its own."""
    return name == "auto" or known_methods()[name].is_own


def require_method(name: str) -> None:
    """Refuses a name that is neither ``auto`` nor that of a method."""
    known = known_methods()
    if name not in ("auto", *known):
        near = get_close_matches(name, ("auto", *known), n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"unknown method {name!r}.{meant} Known: auto, {', '.join(known)}.{find_extensions().advice}"
        )
