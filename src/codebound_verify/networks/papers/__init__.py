"""Codes of tensors that the papers' compressors write: modes 8 to 13 (docs/format.md, sections 4.8 to 4.13).

Reached when a tensor of a message has one of these modes, through ``tensors`` alone. It can be left out: then
such a message is refused, and everything else works. Mode 13 needs ``rank``, ``sketch`` and,
where the file has no witness, ``recovery``; all six modes are in ``random_tensors``.
"""
