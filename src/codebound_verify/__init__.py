"""Independent verifier of codebound certificates: shares no code with ``codebound``.

It is written from docs/format.md alone. Its kernel, the modules at the top, is what any certificate passes
through, to be read in one sitting and in this order, in which each module needs only earlier ones:

* words and numbers of a message: ``refusal``, ``rooms``, ``arithmetic``, ``faults`` (what is an error);
* the file: ``versions``, ``header``, ``container``;
* the data: ``stream``, ``sample``, ``rows``, ``weights`` (tensors that are given beside a file), ``cores``;
* the bound: ``formulas``, ``forms``;
* the decision: ``checks``, ``course`` (one check after the other), ``words``, ``developed`` (samples that the
  format was made with), ``assumptions``, ``verdict``;
* the command: ``data``, ``demands``, ``files`` (all that is given, read and checked), ``__main__``.

Everything else is a room beside it, loaded where it is reached: networks that a message describes
(``networks``), networks that are learned from the sample (``learn``), classes and test data (``questions``),
datasets by name (``datasets``), what lies beside a certificate (``beside``), and ledgers of looks in place of
certificates (``holdout``). The kernel imports no room: the table ``ROOMS`` below is where they meet, and what
needs a room that was left out is refused. No code but its own is run, whatever a file asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .rooms import OPENED_BY

if TYPE_CHECKING:
    from types import ModuleType

    from .refusal import Refused
    from .verdict import Verdict, decode_network, verify

__all__ = ["Refused", "Verdict", "decode_network", "verify"]


def _message() -> ModuleType:
    from .networks import message

    return message


def _evaluate() -> ModuleType:
    from .networks import evaluate

    return evaluate


def _decoded() -> ModuleType:
    from .networks import checking

    return checking


def _original() -> ModuleType:
    from .networks.original import checking

    return checking


def _picks() -> ModuleType:
    from .learn import checking

    return checking


def _limits() -> ModuleType:
    from .learn import limits

    return limits


def _classes() -> ModuleType:
    from .questions import classes

    return classes


def _testing() -> ModuleType:
    from .questions import testing

    return testing


def _named() -> ModuleType:
    from .datasets import named

    return named


def _finding() -> ModuleType:
    from .beside import finding

    return finding


def _ledger() -> ModuleType:
    from .holdout import ledger

    return ledger


ROOMS = {
    "message": _message,  # of every certificate
    "evaluation": _evaluate,  # a message that describes a network, or weights of one
    "network": _decoded,  # the same, to be counted
    "original network": _original,  # C-12a and C-12b
    "rule": _picks,  # C-15
    "limit of a rule": _limits,  # C-15
    "classes": _classes,  # --by-class
    "test": _testing,  # --test
    "named data": _named,  # --data mnist
    "folder": _finding,  # certificate.cbound
    "ledger": _ledger,  # .jsonl
}
OPENED_BY.update(ROOMS)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import verdict  # torch is loaded when it is needed, not by --help

    return getattr(verdict, name)
