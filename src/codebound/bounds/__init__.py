"""Bounds as pure functions of frozen facts: ``certified`` is true as printed, ``published`` is not."""
