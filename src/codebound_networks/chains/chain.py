"""Chains: the networks that a message can describe by itself (docs/format.md, section 8.6)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from codebound.run.errors import ModelError
from codebound_networks.chains.operations import Work
from codebound_networks.chains.shifts import MeanOverShifts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from codebound_networks.chains.operations import AbstractOperation


@dataclass(frozen=True, slots=True)
class Chain:
    """An architecture without tensors: operations one after the other, the last one linear."""

    input_shape: tuple[int, ...]
    operations: tuple[AbstractOperation, ...]

    def __post_init__(self) -> None:
        if not self.operations or not self.operations[-1].ends_chain:
            raise ModelError("a chain ends with a linear operation.")
        for position, operation in enumerate(self.operations):
            earlier = range(1, operation.front)
            if operation.front and any(before.front not in earlier for before in self.operations[:position]):
                raise ModelError(
                    f"operation {position} ({operation}): shifts come first in a chain, and a dictionary "
                    "comes first or right after shifts."
                )
        self.input_shapes()

    @property
    def classes(self) -> int:
        """Number of outputs."""
        return self._shapes()[-1][0]

    @property
    def shift_count(self) -> int:
        """Number of copies of an input that the operations see."""
        return self.operations[0].copies

    def input_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of the input of each operation, without the batch."""
        return self._shapes()[:-1]

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the input and of the output of each operation."""
        shapes = [self.input_shape]
        try:
            for operation in self.operations:
                shapes.append(operation.output_shape(shapes[-1]))
        except ModelError as reason:
            raise ModelError(f"operation {len(shapes) - 1} ({operation}): {reason}") from reason
        return tuple(shapes)

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all tensors, in message order."""
        return {
            f"{position}.{name}": size
            for position, (operation, shape) in enumerate(self._with_shapes())
            for name, size in operation.tensor_shapes(shape).items()
        }

    def work(self) -> Work:
        """Return the work for one example with all its shifts, as docs/format.md counts it in section 8.6."""
        each = [operation.work(shape) for operation, shape in self._with_shapes()]
        largest, patches = max(work.largest for work in each), max(work.patches for work in each)
        products = sum(work.products for work in each)
        return Work(*(self.shift_count * count for count in (largest, patches, products)))

    def trained_products(self) -> int:
        """Multiplications for one example behind the fixed operations at the front."""
        behind = (operation.work(shape) for operation, shape in self._with_shapes() if not operation.front)
        return self.shift_count * sum(work.products for work in behind)

    def describe(self) -> list[list[object]]:
        """The operations as plain lists, for a header (docs/format.md, section 9)."""
        return [[operation.name, *map(int, astuple(operation))] for operation in self.operations]

    def parts(self, tensors: Mapping[str, Tensor]) -> tuple[nn.Sequential, nn.Sequential]:
        """The fixed operations at the front, and the others with these tensors, in evaluation mode.

        The network is the one after the other, and then the mean over the shifts.
        """
        parts: tuple[OrderedDict[str, nn.Module], ...] = (OrderedDict(), OrderedDict())
        last = len(self.operations) - 1
        with torch.device("meta"):
            for position, (operation, shape) in enumerate(self._with_shapes()):
                modules = parts[0 if operation.front else 1]
                for suffix, module in operation.modules(shape).items():
                    modules[f"{position}{suffix}"] = module
                if operation.relu_follows and position < last:
                    modules[f"{position}_relu"] = nn.ReLU()
            fixed, trained = map(nn.Sequential, parts)
        trained.load_state_dict(dict(tensors), strict=True, assign=True)
        return fixed.eval(), trained.eval()

    def build(self, tensors: Mapping[str, Tensor]) -> nn.Sequential:
        """The network with these tensors, in evaluation mode. Its state has the names of the message."""
        modules = OrderedDict(each for part in self.parts(tensors) for each in part.named_children())
        if self.shift_count > 1:
            modules[f"{len(self.operations) - 1}_mean"] = MeanOverShifts(self.shift_count)
        return nn.Sequential(modules).eval()

    def _with_shapes(self) -> zip[tuple[AbstractOperation, tuple[int, ...]]]:
        """Each operation and the shape that it sees."""
        return zip(self.operations, self.input_shapes(), strict=True)
