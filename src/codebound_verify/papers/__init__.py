"""Codes of tensors that the papers' compressors write: modes 8 to 13 (docs/format.md, sections 4.8 to 4.13).

The kernel reaches them through the table of ``codebound_verify.codes`` alone. Read ``random_tensors`` (all
six modes), then ``sketch``, ``rank`` and ``recovery``, which mode 13 needs.
"""
