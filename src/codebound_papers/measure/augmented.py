"""Biases as one more coordinate, so that a network with biases is homogeneous."""

import torch
from torch import Tensor

from codebound.nets.layers import AbstractLayerView
from codebound.refs import implements


@implements("A-E20", kind="algorithm")
def augmented_matrix(view: AbstractLayerView, *, last: bool) -> Tensor:
    r"""The layer's matrix with its bias, acting on ``[x; 1]``.

    Statement.  A hidden layer becomes ``[W b; 0 1]``, the last one ``[W b]``. ReLU keeps the constant
                coordinate at 1, so the network computes ``f(x)`` from ``[x; 1]`` without biases, and
                ``M(x) = J x`` holds for the augmented vectors.
    Reference.  A, section 2.1, which says that biases have no effect; they have one on ``M(x) = J x``.
    Needs.      Batch norms folded first (``fold_batch_norms``). For a convolution the matrix acts on one
                input patch with a 1 appended.

    Args:
        view: A layer; without bias ``b`` is zero.
        last: Whether it is the network's last layer, whose output has no constant coordinate.

    Returns:
        A new ``(out + 1, in + 1)`` matrix, or ``(out, in + 1)`` for the last layer.

    Example:
        >>> from torch import nn
        >>> from codebound.nets.layers import view_of
        >>> augmented_matrix(view_of("fc", nn.Linear(3, 2)), last=False)[-1]
        tensor([0., 0., 0., 1.])
    """
    matrix = view.matrix
    bias = matrix.new_zeros(len(matrix)) if view.bias is None else view.bias
    augmented = torch.cat([matrix, bias.unsqueeze(1)], dim=1)
    if last:
        return augmented
    constant = augmented.new_zeros(1, augmented.shape[1])
    constant[0, -1] = 1.0
    return torch.cat([augmented, constant])
