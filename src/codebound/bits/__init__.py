"""Bit strings, numbers and the arithmetic code: lengths that are exact."""
