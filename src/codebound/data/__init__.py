"""Samples: known datasets, arrays, image folders and the user's own, with checksums and fixed splits."""
