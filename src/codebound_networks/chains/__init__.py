"""Chains of operations: the networks that a message describes by itself."""
