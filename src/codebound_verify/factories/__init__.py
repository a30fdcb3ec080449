"""Networks that are no chains: architectures outside the file (docs/format.md, section 5.2).

Reached when the header names an architecture and the user gives its factory (``--model``), whose code is run.
Read ``graph`` (what a module computes, traced by torch.export), ``factory`` (is it what the header names?),
``backwards`` and ``evaluating`` (counting with it).
"""
