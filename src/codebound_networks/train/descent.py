"""Steps of gradient descent on a few tensors, without the cost that an optimiser for every purpose has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Adam with its usual constants; a step gives what ``torch.optim.Adam`` gives, bit for bit.

    On small tensors that class takes longer for its own work than the whole of a forward pass, and its first
    use imports the compiler of PyTorch, which takes a second.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.parameters = tuple(parameters)
        self._means = [torch.zeros_like(each) for each in self.parameters]
        self._squares = [torch.zeros_like(each) for each in self.parameters]
        self._steps = [0] * len(self.parameters)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Moves all tensors that have a gradient, and takes the gradients away."""
        moved = [place for place, each in enumerate(self.parameters) if each.grad is not None]
        if not moved:
            return
        parameters = [self.parameters[place] for place in moved]
        gradients = [each.grad for each in parameters if each.grad is not None]
        means, squares = ([state[place] for place in moved] for state in (self._means, self._squares))
        for place in moved:
            self._steps[place] += 1
        steps = [self._steps[place] for place in moved]
        torch._foreach_lerp_(means, gradients, 1.0 - _BETA1)
        torch._foreach_mul_(squares, _BETA2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1.0 - _BETA2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_div_(roots, [(1.0 - _BETA2**count) ** 0.5 for count in steps])
        torch._foreach_add_(roots, _EPSILON)
        torch._foreach_addcdiv_(parameters, means, roots, [-rate / (1.0 - _BETA1**count) for count in steps])
        for each in parameters:
            each.grad = None
