"""Picked networks (docs/format.md, section 10): the rule of a message, run on the sample.

In the order of the page: ``rule``, ``pictures``, ``columns``, ``filters``, ``whitening``, ``patches``,
``kernel``, ``ridge``, ``picking``.
"""
