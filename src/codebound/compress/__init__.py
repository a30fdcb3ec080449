"""Compressors: from a trained network to few bits."""
