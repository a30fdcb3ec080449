"""Compressed programs whose length counts, and what counts it."""
