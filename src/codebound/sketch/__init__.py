"""Sparse matrix sketching: a sparse matrix squeezed to a small one, and its exact recovery."""
