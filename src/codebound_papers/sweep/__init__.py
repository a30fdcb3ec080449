"""Sweeps: a plan of many jobs, on this machine or on a cluster, each run once."""
