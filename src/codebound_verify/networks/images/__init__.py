"""Operations that make more of images than a convolution does (docs/format.md, sections 5.1 and 5.5).

Reached when a chain has a normalised convolution, a dictionary or views, or a rule has such features. Read
``batches``, ``dictionary``.
"""
