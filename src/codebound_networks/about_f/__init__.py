"""Statements about the network that was given, through its compressed one."""
