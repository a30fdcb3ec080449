"""Networks that a message describes: how they are read, evaluated and counted.

Reached when the file has a message. In order, and each module needs only earlier ones:

* coded tensors: ``bell``, ``tensors``, ``codes`` (all modes);
* the network: ``rounding``, ``operations``, ``chain``, ``setting``, ``message`` (which hands a rule on to
  ``learn``);
* the errors: ``memory``, ``evaluate``, ``checking``;
* messages that say what is usual in few bits: ``stack`` (architecture 3: docs/format.md, 5.6), ``subspace``
  (scheme 2: 5.4), and ``short``, where the ledger begins with its form (docs/format-3.md, 5.7 and 10.9).

Rooms of its own: operations on images (``images``), claims about the original network (``original``), and
codes of the papers' compressors (``papers``), which can be left out.
"""
