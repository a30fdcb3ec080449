"""Shin 2021: heavy-tailed weights."""
