"""Sweeps: a plan of many jobs, each run once, in a folder that any later call continues."""
