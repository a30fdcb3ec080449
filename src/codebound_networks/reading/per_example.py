"""Independence of the examples in a batch, operation by operation.

A few inputs show only what a network does with such inputs. Here every operation is tried on numbers of its
own, for a batch and for the examples of it alone, so that none can hide behind values that hardly ever occur.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EXAMPLES = 3
_TRIALS = 4
_CLOSE = 1e-6
_PICKING = ("index", "index_select", "gather", "take", "embedding_bag", "_embedding_bag")
_MOVING = ("arange", "iota", "to", "reshape", "unsqueeze", "expand", "slice", "add", "mul")


@dataclass(frozen=True)
class _Both:
    """Result of a step for a batch, and for each example alone."""

    together: Any  # for all
    alone: tuple[Any, ...]  # for each
    has_rows: bool = False  # every example has its own part of the whole
    is_place: bool = False  # where an example is in the batch
    mixed: str = ""  # the operation that looks at more than one example; empty where none does


def mixing_step(graph: fx.Graph, tensors: Mapping[str, Tensor], x: Tensor) -> str:
    """The operation by which a prediction depends on the rest of the batch. Empty where there is none.

    Args:
        graph: Of a plain network.
        tensors: What it reads.
        x: A batch; only its shape matters.

    Raises:
        Exception: The graph does not take batches of every size.
    """
    held = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    held |= {name: tensor.double() for name, tensor in held.items() if tensor.is_floating_point()}
    try:
        found = (_Trial(held, torch.Generator().manual_seed(seed)).of(graph, x) for seed in range(_TRIALS))
        return next(filter(None, found), "")
    except Exception:  # an operation that does not take every number, such as a Cholesky factor
        return _Trial(held).of(graph, x)


class _Trial:
    """Runs a graph for a batch and for examples alone, step by step. Without chance on what steps make."""

    def __init__(self, tensors: Mapping[str, Tensor], random: torch.Generator | None = None) -> None:
        self.tensors = tensors
        self.random = random

    @torch.no_grad()
    def of(self, graph: fx.Graph, x: Tensor) -> str:
        known: dict[fx.Node, Any] = {}
        for node in graph.nodes:
            if node.op == "placeholder":
                rows = tuple(self._draw(x[:1].cpu().double() + i / 4) for i in range(_EXAMPLES))
                known[node] = _Both(torch.cat(rows), rows, has_rows=True)
            elif node.op == "get_attr":
                tensor = self.tensors[str(node.target)]
                known[node] = _Both(tensor, (tensor,) * _EXAMPLES)
            elif node.op == "call_function":
                read = [each for used in node.all_input_nodes for each in _flat(known[used])]
                known[node] = self._step(node, known, read)
        last = known[graph.output_node().all_input_nodes[0]]
        return str(last.mixed or ("arange" if last.is_place else ""))

    def _step(self, node: fx.Node, known: dict[fx.Node, Any], read: list[_Both]) -> Any:
        if node.target.__name__ == "getitem" and isinstance(known[node.args[0]], tuple):  # type: ignore[union-attr,index]
            return known[node.args[0]][node.args[1]]  # type: ignore[index]
        found = [
            _apply(node, known, pick)
            for pick in (lambda both: both.together, *(_alone(i) for i in range(_EXAMPLES)))
        ]
        if isinstance(found[0], list | tuple):
            return tuple(self._result(node, parts, read) for parts in zip(*found, strict=True))
        return self._result(node, found, read)

    def _result(self, node: fx.Node, found: Any, read: list[_Both]) -> _Both:
        together, *alone = found
        name = str(node.target).split(".")[1] if "." in str(node.target) else str(node.target)
        mixed = next((each.mixed for each in read if each.mixed), "")
        is_place = any(each.is_place for each in read)
        if mixed or not isinstance(together, Tensor):
            return _Both(together, tuple(alone), mixed=mixed)
        if is_place and not (name.startswith(_PICKING) and any(each.has_rows for each in read)):
            is_moved = name in _MOVING
            return _Both(together, tuple(alone), is_place=is_moved, mixed="" if is_moved else name)
        if together.shape == alone[0].shape and all(_is_same(together, one) for one in alone):
            return _Both(together, tuple(alone))
        join = _find_join(together, alone)
        if join is None:
            is_place = name in ("arange", "iota")
            return _Both(together, tuple(alone), is_place=is_place, mixed="" if is_place else name)
        drawn = [self._draw(one) for one in alone]
        return _Both(join(drawn), tuple(drawn), has_rows=True)

    def _draw(self, like: Tensor) -> Tensor:
        """Other numbers of the same kind, between 0 and 1, where most operations are defined."""
        if self.random is None:
            return like
        drawn = 0.1 + 0.8 * torch.rand(like.shape, generator=self.random, dtype=torch.float64)
        if like.is_complex():
            return torch.complex(drawn, drawn.flip(-1)).to(like.dtype)
        if like.is_floating_point():
            return drawn.to(like.dtype)
        middle = torch.randint(0, 3, (), generator=self.random) / 2  # all of them 1, some, or none
        return (drawn > middle).to(like.dtype)


def _alone(i: int) -> Callable[[_Both], Any]:
    return lambda both: both.alone[i]


def _flat(found: Any) -> tuple[_Both, ...]:
    return found if isinstance(found, tuple) else (found,)


def _apply(node: fx.Node, known: dict[fx.Node, Any], pick: Callable[[_Both], Any]) -> Any:
    def given(value: Any) -> Any:
        if not isinstance(value, fx.Node):
            return value
        found = known[value]
        return tuple(map(pick, found)) if isinstance(found, tuple) else pick(found)

    args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), given)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _find_join(together: Tensor, alone: list[Tensor]) -> Callable[[list[Tensor]], Tensor] | None:
    """Return the map that joins parts along one axis into the whole, or None."""
    for axis, size in enumerate(alone[0].shape):
        whole = list(alone[0].shape)
        whole[axis] *= len(alone)
        if list(together.shape) != whole or not size:
            continue
        for outer in (each for each in range(1, size + 1) if size % each == 0):

            def join(parts: list[Tensor], axis: int = axis, sizes: tuple[int, int] = (outer, -1)) -> Tensor:
                split = [torch.unflatten(part, axis, sizes) for part in parts]
                return torch.stack(split, axis + 1).flatten(axis, axis + 2)

            if _is_same(together, join(alone)):
                return join
    return None


def _is_same(one: Tensor, other: Tensor) -> bool:
    if not one.is_floating_point() and not one.is_complex():
        return torch.equal(one, other)
    largest = one.abs().nan_to_num(0.0, 0.0, 0.0)
    near = _CLOSE * float(largest.amax()) if one.numel() else 0.0
    return torch.allclose(one, other, rtol=_CLOSE, atol=near, equal_nan=True)
