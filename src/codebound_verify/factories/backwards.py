"""Matrix products and convolutions that sum in the opposite order: the same function, rounded otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

aten = torch.ops.aten


class Backwards(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, sums of products run from the last to the first.

    Example:
        >>> large = torch.tensor([[1e17, 1.0, -1e17, 3.0]], dtype=torch.float64)
        >>> with Backwards():
        ...     found = torch.mm(large, torch.ones(4, 1, dtype=torch.float64))
        >>> found.shape
        torch.Size([1, 1])
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Turn around what is summed over; what consists of other operations is taken apart first."""
        if (turn := TURNS.get(func)) is not None:
            return func(*turn(args), **(kwargs or {}))
        with self:
            found = func.decompose(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if found is NotImplemented else found


def _product(at: int, first: int, second: int) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Factors at two places of the arguments, and the axes of theirs that are summed over."""

    def turn(args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*args[:at], args[at].flip(first), args[at + 1].flip(second), *args[at + 2 :])

    return turn


def _convolution(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Channels in the opposite order, group by group."""
    x, weight, *rest = args
    is_transposed, groups = rest[4], rest[6]
    turned: Tensor = x.unflatten(1, (groups, -1)).flip(2).flatten(1, 2)
    return args if is_transposed else (turned, weight.flip(1), *rest)


TURNS = {
    aten.mm.default: _product(0, 1, 0),
    aten.addmm.default: _product(1, 1, 0),
    aten.bmm.default: _product(0, 2, 1),
    aten.baddbmm.default: _product(1, 2, 1),
    aten.convolution.default: _convolution,
}
