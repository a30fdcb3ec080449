"""Chains: the networks that a message can describe by itself.

``operations`` has a class for each operation, ``chain`` puts them one after the other, ``reading`` finds the
chain of a module, ``message`` codes it with its tensors, and ``grid`` names common chains in few bits.
"""
