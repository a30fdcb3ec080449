"""Modules of any origin as plain networks with named tensors."""
