"""Picked networks (docs/format.md, section 10): the rule of a message, run on the sample.

Reached when the statement is C-15. About in the order of the page: ``dictionaries``, ``rule``, ``exact``,
``pictures``, ``maps``, ``columns``, ``filters``, ``whitening``, ``patches``, ``kernel``, ``ridge``,
``picking``.
"""
