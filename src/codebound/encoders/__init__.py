"""Frozen maps in front of the data: a sample becomes the table of its encoded inputs."""
