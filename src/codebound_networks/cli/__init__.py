"""Verbs of networks."""
