"""Guha, Dubey, Huo 2023: magnitude pruning and sparse matrix sketching."""
