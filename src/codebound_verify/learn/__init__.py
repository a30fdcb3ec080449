"""Rules (docs/format.md, section 7), carried out on the sample.

Reached for the forms `0`, `1110` and `11110`. Read ``exact``, ``dictionaries``, ``maps``,
``columns``, ``rule``, ``filters``, ``whitening``, ``patches``, ``features``, ``kernel``, ``ridge``,
``picking``.
"""
