"""Ledgers and watches (docs/ledger.md): chain, prices, limits and alarms, and counts where a table is given.

Reached when the file is a ledger (``.jsonl``) instead of a certificate; no certificate needs it. To be read
in this order: ``rules`` (values and statements), ``results`` (levels, prices, limits), ``wealth`` (watches),
``counts``, ``ledger`` (the verdict).
"""
