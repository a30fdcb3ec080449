"""A trained network becomes a message."""
