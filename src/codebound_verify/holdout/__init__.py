"""Ledgers of looks at a test set (docs/looks.md): chain, prices and bounds, from their lines alone.

Reached when the file is a ledger (``.jsonl``) instead of a certificate; it uses faults, formulas and the
sample of the kernel, and no certificate needs it. Read ``ledger``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ledger import LedgerVerdict, verify_ledger

__all__ = ["LedgerVerdict", "verify_ledger"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import ledger

    return getattr(ledger, name)
