"""Bounds as pure functions of frozen facts, true as printed: explicit constants, rounded to the safe side."""
