"""Labelled samples: arrays, tables and data frames, with hashes, splits and remarks."""
