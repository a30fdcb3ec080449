"""Codes of tensors: integers, grids, sketches and subspaces in few bits."""
