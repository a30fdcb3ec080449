"""Codes of tensors that the papers' compressors write: modes 8 to 13 (docs/format.md, sections 8.4 and 8.9).

Reached when a tensor of a message has one of these modes, through ``tensors`` alone. It can be left out: then
such a message is refused, and everything else works. Mode 13 needs ``sketch``; all six modes are
in ``random_tensors``.
"""
