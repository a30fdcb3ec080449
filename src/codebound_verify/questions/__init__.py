"""Questions about an accepted certificate beside its claim: no acceptance depends on them.

Reached when the user asks for a bound on every class (``--by-class``: ``classes``), gives test data that
may refute the claim (``--test``: ``refutation``), or requires something (``--max-error`` and others:
``requirements``).
"""
