"""Chains: the networks that a message can describe by itself, and the grids their fields come from."""
