"""Noise stability (Arora et al. 2018): ``meter`` is the front door."""
