"""Rules (docs/format.md, section 7), carried out on the sample.

Reached for the forms `0`, `1110` and `11110`. Read ``exact``, ``dictionaries``, ``choices``, ``pictures``,
``maps``, ``columns``, ``rule``, ``filters``, ``whitening``, ``patches``, ``weighing``, ``kernel``,
``leaving_out``, ``ridge``, ``learned``, ``picking``.
"""
