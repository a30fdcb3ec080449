"""Independent verifier of codebound certificates: shares no code with ``codebound``.

It is written from docs/format.md alone. Its kernel, the modules at the top, is what any certificate passes
through, to be read in one sitting and in this order, in which each module needs only earlier ones:

* words and numbers of a message: ``refusal``, ``arithmetic``, ``faults`` (what counts as an error);
* the file: ``versions``, ``header``, ``container``;
* coded tensors: ``bell``, ``tensors``, ``codes`` (all modes);
* the network: ``rounding``, ``operations``, ``chain``, ``setting``, ``message``;
* the data: ``stream``, ``sample``, ``rows``, ``weights`` (tensors that are given beside a file);
* the errors: ``cores``, ``memory``, ``evaluate``; the bound: ``formulas``, ``forms``;
* the decision: ``checks``, ``course`` (one check after the other), ``words``, ``developed`` (samples that the
  format was made with), ``assumptions``, ``verdict``;
* the command: ``data``, ``demands``, ``files`` (all that is given, read and checked), ``__main__``.

Whatever else a file or its user may ask for is a package, imported where it is reached: networks that are
learned from the sample (``learn``), what a network may have beyond that (``networks``: images, short
messages, the original network, the papers' codes), classes and test data (``questions``), datasets by name
(``datasets``), what lies beside a certificate (``beside``), and ledgers of looks in place of certificates
(``holdout``). No code but its own is run, whatever a file asks for.
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
