"""The message: a network to bits and back, exactly, as docs/format.md says.

From the network down: ``operations`` has a class for each operation, ``chain`` puts them one after the other,
``reading`` finds the chain of a module, ``message`` codes it with its tensors, and ``grid`` names common
chains in few bits.

From the bits up, without torch: a ``Writer`` writes what a ``Reader`` reads (``arithmetic``, ``numbers``); a
tensor has one of the codes of ``modes``, and ``best_tensor_code`` finds the shortest for integer levels; a
``Subspace`` codes all tensors of a network at once. The length of the bits is the code length, and nothing
else is.
"""
