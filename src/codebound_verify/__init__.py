"""Independent verifier of codebound certificates: shares no code with ``codebound``.

It is written from docs/format.md alone. Its kernel, the modules at the top, is what any certificate passes
through, to be read in one sitting and in this order, in which each module needs only earlier ones:

* words and numbers of a message: ``refusal``, ``rooms``, ``arithmetic``, ``losses`` (what is an error);
* the file: ``versions``, ``header``, ``container``, ``message`` (how it begins and ends);
* the data: ``stream``, ``sample``, ``weights`` (tensors that are given beside a file), ``cores``;
* the bound: ``formulas``;
* the decision: ``checks``, ``checklist`` (one check after the other), ``development`` (samples that the
  format was made with), ``words`` (numbers, claim, assumptions), ``verdict``;
* the command: ``data``, ``requirements``, ``files`` (all that is given, read and checked), ``__main__``.

Everything else is a room beside it, loaded where it is reached: networks that a message describes
(``networks``), networks that are learned from the sample (``learn``), classes and test data (``questions``),
data in a certificate's folder or known by name (``sources``), and ledgers of looks in place of certificates
(``holdout``). The kernel imports no room: one table is where they meet, and what needs a room
that was left out is refused. No code but its own is run, whatever a file asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .refusal import Refused
    from .verdict import Verdict, decode_network, verify

__all__ = ["Refused", "Verdict", "decode_network", "verify"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import verdict  # torch is loaded when it is needed, not by --help

    return getattr(verdict, name)
