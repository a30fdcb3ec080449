"""Three papers, as published and corrected. Nothing here is a guarantee.

``guha23`` (magnitude pruning, sparse matrix sketching), ``arora18`` (compression framework, noise
stability) and ``shin21`` (heavy-tailed weights) hold statements, algorithms, requirements and items (tables
and figures made again); ``extension`` says what they add to ``codebound``.
"""
