"""Independent verifier of codebound certificates: shares no code with ``codebound``.

It is written from docs/format.md alone. Read it in this order: ``read`` and ``header`` (the file),
``arithmetic``, ``tensors``, ``bell``, ``stream``, ``sketch``, ``rank``, ``search``, ``helpers``,
``subspace``, ``dictionary``, ``chain``, ``stack`` and ``message`` (the network), ``views`` and
``evaluate`` (the errors), ``formulas`` (the bound), ``checks`` and ``verdict`` (the decision).
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
