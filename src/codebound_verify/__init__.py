"""Independent verifier of codebound certificates: shares no code with ``codebound``.

It is written from docs/format.md alone, to be read in one sitting and in this order:

* the file: ``versions``, ``container``, ``header``;
* coded numbers: ``arithmetic``, ``bell``, ``tensors``; numbers made of few: ``stream``, ``subspace``;
* the network: ``setting``, ``operations``, ``chain``, ``stack``, ``message``;
* the errors: ``images``, ``dictionary``, ``evaluate``; the bound: ``formulas``, ``forms``;
* networks that are learned from the sample: ``picks``;
* the decision: ``rows``, ``domain``, ``checks``, ``assumptions``, ``verdict``.

``sample``, ``weights``, ``factory`` and ``data`` read what is given beside a file; ``files`` has all of it
read and checked. ``codes`` lists all tensor modes; those of the papers' compressors are in ``papers``, which
can be left out.
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
