"""Sparse matrix sketching: a sparse matrix squeezed to a small one, and its exact recovery."""

from codebound_papers.contents import lazily

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
