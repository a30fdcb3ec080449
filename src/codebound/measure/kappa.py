r"""The factors kappa of Guha et al. 2023, Appendix C. **Diagnostic only**: they enter no certificate.

If the inputs x of a layer B were so spread out that
:math:`P(\langle x, v\rangle \ge t\|x\|) \le a e^{-b t^2 d_{in}}` for every unit v, then :math:`\|Bx\|`
would be below :math:`\kappa \|B\|_2 \|x\|` with kappa < 1. Non-negative inputs, such as those after
a ReLU, are not: they have a large inner product with the constant vector. And a perturbation is no draw of
the data. :func:`kappa_violations` shows how often a kappa is wrong on real inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from codebound.bounds.published.kappa import RELEASED_FAILURE, Kappa, SpreadInputs, layer_kappa
from codebound.errors import UnsupportedLayerError, UsageError
from codebound.measure.spectral import matrix_spectral_norm
from codebound.nets.layers import LinearView
from codebound.refs import implements

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.nets.walk import Network


@implements("I-12", kind="published-form")
def kappa_diagnostics(
    network: Network, *, n: int, failure: float = RELEASED_FAILURE, a: float = 1.0, b: float = 1.0
) -> tuple[Kappa, ...]:
    """The factors of all layers of a network of linear layers.

    Args:
        network: A wrapped network.
        n: Examples.
        failure: Probability left to a layer, in (0, 1).
        a: Constant of the assumed tail, which the paper leaves open.
        b: Constant in its exponent, which the paper leaves open.

    Example:
        >>> from codebound.nets import wrap
        >>> (kappa,) = kappa_diagnostics(wrap(torch.nn.Sequential(torch.nn.Linear(784, 10))), n=48_000)
        >>> round(kappa.proved, 4), round(kappa.printed, 4), round(kappa.released, 4)
        (0.443, 1.1836, 0.443)
    """
    spread = SpreadInputs(n=n, failure=failure, a=a, b=b)
    kappas = []
    for view in network.layers:
        if not isinstance(view, LinearView):
            raise UnsupportedLayerError(
                f"layer {view.name}: kappa is defined for linear layers. Got {type(view).__name__}."
            )
        outputs, inputs = view.matrix.shape
        kappas.append(layer_kappa(view.name, inputs=inputs, outputs=outputs, spread=spread))
    return tuple(kappas)


def kappa_violations(matrix: Tensor, inputs: Tensor, kappa: float) -> float:
    """Share of inputs with ``||B x|| > kappa ||B||_2 ||x||``: how often a kappa is wrong.

    Args:
        matrix: ``(out, in)``.
        inputs: ``(n, in)``, at least one.
        kappa: The factor to be checked.

    Example:
        >>> kappa_violations(torch.ones(1, 4), torch.ones(3, 4), 0.9)
        1.0
    """
    if inputs.dim() != 2 or len(inputs) == 0 or inputs.shape[1] != matrix.shape[1]:
        raise UsageError(
            f"inputs must have shape (n, {matrix.shape[1]}) with n >= 1. Got {tuple(inputs.shape)}."
        )
    rows = inputs.detach().double()
    images = rows @ matrix.detach().double().T
    limit = kappa * matrix_spectral_norm(matrix).value * torch.linalg.vector_norm(rows, dim=1)
    return float((torch.linalg.vector_norm(images, dim=1) > limit).double().mean())
