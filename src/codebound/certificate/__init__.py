"""Certificates: a message, a claim, and a second program that has to agree."""
