"""Arora, Ge, Neyshabur, Zhang 2018: the compression framework, noise stability, projection, convolutions."""
