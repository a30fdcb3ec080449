"""Chains of operations and the shapes of their tensors (docs/format.md, sections 8.6, 8.7 and 9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..refusal import Refused
from .arithmetic import Decoder
from .operations import KINDS, VIEWS, Misfit, Operation
from .tensors import Shape

Layout: TypeAlias = tuple[tuple[str, Shape], ...]  # names and shapes of tensors, in message order

LENGTH_LIMIT = 256
SIZE_LIMIT = 1 << 16
RESULT_LIMIT = 1 << 22  # numbers in an output, or in a padded input of a convolution
PATCH_LIMIT = 1 << 25  # numbers in the patches that a convolution multiplies
WORK_LIMIT = 1 << 30  # multiplications: about a second
CHOICES = {"table": 7, "views": 15}  # sizes that are one of so many, those that are refused included

WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128)  # of the first stage
KERNELS = (1, 3, 5)
POOLS = ((), (Operation("max pool", kernel=2),), (Operation("average pool", kernel=2),))  # after a stage
ENDS = (
    (),
    (Operation("average pool", kernel=2),),
    (Operation("average pool", kernel=4),),
    (Operation("global average pool"),),
)


@dataclass(frozen=True)
class Chain:
    """Operations that fit together."""

    operations: tuple[Operation, ...]
    inputs: tuple[Shape, ...]  # the shape that each sees
    work: int  # multiplications for one example, all its views together

    def layout(self) -> Layout:
        """Names and shapes of all tensors; a bias follows its weight."""
        result: list[tuple[str, Shape]] = []
        for position, (operation, seen) in enumerate(zip(self.operations, self.inputs, strict=True)):
            for name, shape in KINDS[operation.kind].tensors(operation, seen).items():
                result.append((f"{position}.{name}", shape))
                if operation.bias:
                    result.append((f"{position}.{name.removesuffix('weight')}bias", (operation.out,)))
        return tuple(result)

    def widest(self) -> int:
        """The most numbers that one example takes up in any operation, patches of convolutions included."""
        return max(
            KINDS[operation.kind].count_held(operation, seen)
            for operation, seen in zip(self.operations, self.inputs, strict=True)
        )


def read_chain(decoder: Decoder, input_shape: Shape, classes: int) -> Chain:
    """The chain that the message describes."""
    length = decoder.size("the number of operations", LENGTH_LIMIT)
    kinds = list(KINDS)
    operations = []
    for position in range(length):
        identity = decoder.gamma()
        if identity > len(kinds):
            raise Refused(f"Message: there is no operation {identity}; operations are 1 to {len(kinds)}.")
        kind = kinds[identity - 1]
        is_last = position == length - 1
        sizes = {
            name: classes if is_last and name == "out" else _read_size(decoder, name)
            for name in KINDS[kind].sizes
        }
        operations.append(Operation(kind, **sizes))
    return fit(operations, input_shape, classes)


def _read_size(decoder: Decoder, name: str) -> int:
    if name == "bias":
        return decoder.bit()
    if name == "padding":
        return decoder.size(name, SIZE_LIMIT + 1) - 1
    if name in CHOICES:
        return decoder.uniform(CHOICES[name]) + 1
    return decoder.size(name, SIZE_LIMIT)


def read_stack(decoder: Decoder, input_shape: Shape, classes: int) -> Chain:
    """The chain of a common pattern, which the message names as a point of a grid (8.7)."""
    operations: list[Operation] = []
    if views := decoder.uniform(16):
        operations.append(Operation("views", views=views))
    if table := decoder.uniform(8):
        operations.append(Operation("dictionary", table=table, pool=decoder.uniform(4) + 1))
    stages = decoder.uniform(4) + 1
    width = WIDTHS[decoder.uniform(len(WIDTHS))]
    for stage in range(stages):
        if stage > 0:
            width = (width << decoder.uniform(3)) // 2
        count, kernel = decoder.uniform(3) + 1, KERNELS[decoder.uniform(len(KERNELS))]
        operations += [Operation("normalised conv", out=width, kernel=kernel)] * count
        operations += POOLS[decoder.uniform(len(POOLS))]
    operations += ENDS[decoder.uniform(len(ENDS))]
    operations.append(Operation("linear", out=classes))
    return fit(operations, input_shape, classes)


def make_chain(entries: Sequence[Sequence[Any]], input_shape: Shape, classes: int) -> Chain:
    """The chain of f, as the header lists it: its kinds and sizes were checked there."""
    operations = [
        Operation(kind, **dict(zip(KINDS[kind].sizes, sizes, strict=True))) for kind, *sizes in entries
    ]
    return fit(operations, input_shape, classes)


def fit(operations: Sequence[Operation], input_shape: Shape, classes: int) -> Chain:
    """The chain with the shape that each operation sees, refused where one does not fit."""
    last = operations[-1]
    if last.kind != "linear" or last.out != classes:
        raise Refused(f"Chain: the last operation must be linear with {classes} outputs, one per class.")
    inputs, work, views = [input_shape], 0, VIEWS.get(operations[0].views, 1)
    for position, operation in enumerate(operations):
        kind, seen = KINDS[operation.kind], inputs[-1]
        try:
            _check_place(operations, position)
            inputs.append(kind.output(operation, seen))
            _check_sizes(operation, seen, inputs[-1], views)
        except Misfit as why:
            raise Refused(f"Chain: operation {position} ({operation.kind}) {why}.") from None
        work += views * kind.work(operation, seen)
    if work > WORK_LIMIT:
        raise Refused(f"Chain: one example takes {work} multiplications; at most {WORK_LIMIT} are allowed.")
    return Chain(tuple(operations), tuple(inputs[:-1]), work)


def _check_sizes(operation: Operation, seen: Shape, output: Shape, views: int) -> None:
    """Refuse an operation that makes too many numbers of one example, all its views together."""
    kind = KINDS[operation.kind]
    if views * max(kind.padded(operation, seen), math.prod(output)) > RESULT_LIMIT:
        raise Misfit(f"makes more than {RESULT_LIMIT} numbers out of one example")
    if views * kind.patches(operation, seen) > PATCH_LIMIT:
        raise Misfit(f"multiplies more than {PATCH_LIMIT} numbers in patches of one example")


def _check_place(operations: Sequence[Operation], position: int) -> None:
    """Refuse an operation that may not stand at its position."""
    kind = operations[position].kind
    if kind == "views" and position > 0:
        raise Misfit("must be the first operation")
    if kind == "dictionary" and any(before.kind != "views" for before in operations[:position]):
        raise Misfit("must be the first operation, or come right after views")
