"""Operations that make more of images than a convolution does (docs/format.md, sections 8.6 and 8.7).

Reached when a chain has a normalised convolution, a dictionary or views. Read ``batches``, ``dictionary``.
"""
