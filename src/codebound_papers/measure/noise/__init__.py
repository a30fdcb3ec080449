"""Noise stability: :func:`meter.stability` is the front door; ``result`` has what comes out of it."""
