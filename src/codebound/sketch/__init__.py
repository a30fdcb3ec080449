"""Sparse matrix sketching: a sparse matrix squeezed to a small one, and its exact recovery."""

from codebound.sketch.certify import Certificate, objection
from codebound.sketch.codec import Attempt, PlainBits, plain_bits, sketched, smallest_sketch, solved
from codebound.sketch.operators import Bipartite, adjoint, column_ensemble, row_ensemble, sketch
from codebound.sketch.peel import Peeled, peel
from codebound.sketch.recover import (
    Recovery,
    Status,
    recover,
    recover_integers,
    recover_l1,
    recover_l1_batch,
)
from codebound.sketch.sparsity import (
    DistributedSparsity,
    column_degree,
    distributed_sparsity,
    published_sketch_size,
    sketch_size,
)
from codebound.sketch.support import is_injective

__all__ = [
    "Attempt",
    "Bipartite",
    "Certificate",
    "DistributedSparsity",
    "Peeled",
    "PlainBits",
    "Recovery",
    "Status",
    "adjoint",
    "column_degree",
    "column_ensemble",
    "distributed_sparsity",
    "is_injective",
    "objection",
    "peel",
    "plain_bits",
    "published_sketch_size",
    "recover",
    "recover_integers",
    "recover_l1",
    "recover_l1_batch",
    "row_ensemble",
    "sketch",
    "sketch_size",
    "sketched",
    "smallest_sketch",
    "solved",
]
