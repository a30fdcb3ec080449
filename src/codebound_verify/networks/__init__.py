"""Parts of a network beyond the kernel: operations on images, short messages, claims about f.

Reached when a chain has a normalised convolution, a dictionary or views, or a rule has such features
(``batches``, ``dictionary``, whose filters are in ``dictionaries.json``, and ``averaging``: docs/format.md,
sections 5.1 and 5.5); when a message has architecture 3 (``stack``: 5.6) or scheme 2 (``subspace``: 5.4), or
a ledger that begins with its form (``short``: docs/format-3.md, 5.7 and 10.9, with the rules of ``learn``).
Two rooms of its own: claims about the original network (``original``), and codes of the papers' compressors
(``papers``), which can be left out.
"""
