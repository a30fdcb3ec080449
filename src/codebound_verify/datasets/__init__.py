"""Data that are known by their name.

Reached when the user gives a name, such as ``mnist:test``, in place of a file of arrays. Read ``named``.
"""
