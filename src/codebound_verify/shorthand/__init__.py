"""Messages that say what is usual in few bits.

Reached when a message has architecture 3 (``stack``: docs/format.md, 5.6), scheme 2 (``subspace``: 5.4), or a
ledger that begins with its form (``short``: docs/format-3.md, 5.7 and 10.9, with the rules of picks).
"""
