"""Ledgers of looks at a test set (docs/looks.md): chain, prices and bounds, from their lines alone.

Reached when the file is a ledger (``.jsonl``) instead of a certificate; it uses losses, formulas and the
sample of the kernel, and no certificate needs it. Read ``ledger``.
"""
