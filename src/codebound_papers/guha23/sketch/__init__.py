"""Sparse matrix sketching: a sparse matrix squeezed to a small one, and its exact recovery.

Example:
    >>> import torch
    >>> import codebound as cb
    >>> from codebound.bits.stream import Stream
    >>> sides = Stream(0, "left"), Stream(0, "right")
    >>> a, b = (cb.sketch.column_ensemble(side, m=12, p=16, degree=4) for side in sides)
    >>> x = torch.diag(torch.arange(1, 17))
    >>> torch.equal(cb.sketch.recover_integers(cb.sketch.sketch(x, a, b), a, b).value, x)
    True
"""

from codebound.run.extensions import lazily

__all__, __getattr__, __dir__ = lazily(
    __name__,
    """
    codebound_papers.guha23.sketch.codec: Attempt PlainBits plain_bits sketched smallest_sketch solved
    codebound_papers.guha23.sketch.operators: Bipartite adjoint column_ensemble row_ensemble sketch
    codebound_papers.guha23.sketch.peeling: Peeled is_injective peel
    codebound_papers.guha23.sketch.proof: Proof objection
    codebound_papers.guha23.sketch.recovery: Recovery Status recover recover_integers recover_l1
        recover_l1_batch
    codebound_papers.guha23.sketch.sparsity: DistributedSparsity column_degree distributed_sparsity
        published_sketch_size sketch_size
    """,
)
