"""Networks: how they are read, evaluated and counted (docs/format.md, sections 8 and 9).

Reached when the message describes a network. In order, and each module needs only earlier ones:

* the code word: ``arithmetic``;
* coded tensors: ``tensors`` (all modes), ``draws`` (random numbers that they are made of), ``papers``
  (modes 8 to 13, which the papers' compressors write);
* the network: ``scaling``, ``rounding``, ``operations``, ``chain``, ``network``;
* the scores: ``images`` (operations on images), ``evaluation``;
* a network that was given: ``original`` (section 9).
"""
