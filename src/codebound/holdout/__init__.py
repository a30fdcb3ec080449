"""Test sets that are looked at more than once: sealed, with a ledger of every look."""
