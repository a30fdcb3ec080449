"""Exact code lengths: integers to bits and back, as docs/format.md says; never imports torch.

A message is written with a ``Writer`` and read with a ``Reader``; a tensor has one of the codes of
``modes``, and ``best_tensor_code`` finds the shortest for integer levels; a ``Subspace`` codes all tensors of
a network at once. The length of the bits is the code length, nothing else is.
"""
