"""Networks that a message describes: how they are read, evaluated and counted.

Reached when the message describes a network. In order, and each module needs only earlier ones:

* coded tensors: ``tensors`` (all modes), ``draws`` (random numbers that they are made of);
* the network: ``rounding``, ``operations``, ``chain``, ``network``, and ``subspace`` (scheme 2:
  docs/format.md, 5.4);
* the errors: ``evaluation``;
* claims about the original network: ``original`` (C-12a and C-12b).

Rooms of its own: operations on images (``images``), and codes of the papers' compressors (``papers``), which
can be left out.
"""
