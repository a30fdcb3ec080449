"""Chains of operations and the shapes of their tensors (docs/format.md, section 5.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from .dictionary import tables
from .refusal import Refused, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .arithmetic import Decoder

Shape: TypeAlias = tuple[int, ...]
Layout: TypeAlias = tuple[tuple[str, Shape], ...]  # names and shapes of tensors, in message order

LENGTH_LIMIT = 256
SIZE_LIMIT = 1 << 16
RESULT_LIMIT = 1 << 22  # numbers in an intermediate result of one example
PATCH_LIMIT = 1 << 25  # numbers in the patches that a convolution multiplies, for one example
WORK_LIMIT = 1 << 30  # multiplications for one example: about a second
POOL_WORK = 16  # what a number that a pool reads counts as
VIEWS = {1: 2, 2: 5, 3: 1, 4: 5}  # how many views there are of an input, for each kind of views


@dataclass(frozen=True)
class Operation:
    """One operation with its sizes; those that its kind does not have are 0."""

    kind: str
    out: int = 0
    kernel: int = 0
    stride: int = 0
    padding: int = 0
    bias: bool = False
    table: int = 0  # the number of a dictionary
    pool: int = 0  # the window of a dictionary
    views: int = 0  # the kind of views


KINDS: dict[str, tuple[str, ...]] = {  # the sizes of each kind, in the order of the message; ids count from 1
    "linear": ("out", "bias"),
    "conv": ("out", "kernel", "stride", "padding", "bias"),
    "max pool": ("kernel",),
    "average pool": ("kernel",),
    "global average pool": (),
    "residual": ("out", "bias"),
    "local conv": ("out", "kernel", "stride", "padding", "bias"),
    "normalised conv": ("out", "kernel"),
    "dictionary": ("table", "pool"),
    "views": ("views",),
}
CHOICES = {"table": 7, "views": 15}  # sizes that are one of so many, those that are refused included
OWN_KINDS = ("normalised conv", "dictionary", "views")  # of a message alone, never of the network f
CONVOLUTIONS = ("conv", "local conv", "normalised conv")


@dataclass(frozen=True)
class Chain:
    """Operations that fit together; ``inputs[i]`` is the shape that operation i sees."""

    operations: tuple[Operation, ...]
    inputs: tuple[Shape, ...]

    def layout(self) -> Layout:
        """Names and shapes of all tensors."""
        return tuple(
            (f"{position}.{name}", shape)
            for position, (operation, seen) in enumerate(zip(self.operations, self.inputs, strict=True))
            for name, shape in _tensors(operation, seen)
        )

    def widest(self) -> int:
        """The most numbers that one example takes up in any operation, patches of convolutions included.

        A dictionary has the patches of one plane at a time.
        """
        return max(
            max(
                math.prod(seen),
                operation.out,
                _patches(operation, seen),
                *(table.size**2 * math.prod(seen[1:]) for table in tables(operation.table)),
            )
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
        is_last = position == length - 1
        sizes = {}
        for name in KINDS[kinds[identity - 1]]:
            if name == "bias":
                sizes[name] = decoder.bit()
            elif name == "out" and is_last:
                sizes[name] = classes
            elif name == "padding":
                sizes[name] = decoder.size(name, SIZE_LIMIT + 1) - 1
            elif name in CHOICES:
                sizes[name] = decoder.uniform(CHOICES[name]) + 1
            else:
                sizes[name] = decoder.size(name, SIZE_LIMIT)
        operations.append(_operation(kinds[identity - 1], sizes))
    return fit(operations, input_shape, classes)


def described_chain(entries: Sequence[Sequence[object]], input_shape: Shape, classes: int) -> Chain:
    """The chain that ``facts.extra.subject_chain`` of C-12b describes (section 7)."""
    operations = []
    for position, (kind, *values) in enumerate(entries):
        names = KINDS.get(kind) if isinstance(kind, str) and kind not in OWN_KINDS else None
        if names is None or len(values) != len(names):
            raise Refused(f"Header: subject_chain[{position}] is no operation: {shown([kind, *values])}.")
        sizes = {}
        for name, value in zip(names, values, strict=True):
            low = 0 if name == "padding" else 1
            if name == "bias":
                valid = isinstance(value, bool)
            else:
                valid = type(value) is int and low <= value <= SIZE_LIMIT
            if not valid:
                raise Refused(f"Header: {name} of subject_chain[{position}] is {shown(value)}.")
            sizes[name] = int(value)  # type: ignore[call-overload]
        operations.append(_operation(str(kind), sizes))
    return fit(operations, input_shape, classes)


def fit(operations: Sequence[Operation], input_shape: Shape, classes: int) -> Chain:
    """The chain with the shape that each operation sees; refused where one does not fit."""
    last = operations[-1]
    if last.kind != "linear" or last.out != classes:
        raise Refused(f"Chain: the last operation must be linear with {classes} outputs, one per class.")
    inputs = [input_shape]
    for position, operation in enumerate(operations):
        output = _misplaced(operations, position) or _output(operation, inputs[-1])
        if isinstance(output, str):
            raise Refused(f"Chain: operation {position} ({operation.kind}) {output}.")
        inputs.append(output)
    chain = Chain(tuple(operations), tuple(inputs[:-1]))
    work = VIEWS.get(operations[0].views, 1) * sum(map(_work, operations, inputs[:-1]))
    if work > WORK_LIMIT:
        raise Refused(f"Chain: one example takes {work} multiplications; at most {WORK_LIMIT} are allowed.")
    return chain


def _operation(kind: str, sizes: dict[str, int]) -> Operation:
    return Operation(
        kind,
        out=sizes.get("out", 0),
        kernel=sizes.get("kernel", 0),
        stride=sizes.get("stride", 0),
        padding=sizes.get("padding", 0),
        bias=bool(sizes.get("bias", 0)),
        table=sizes.get("table", 0),
        pool=sizes.get("pool", 0),
        views=sizes.get("views", 0),
    )


def _misplaced(operations: Sequence[Operation], position: int) -> str:
    """Why an operation cannot stand where it stands, or nothing."""
    kind = operations[position].kind
    if kind == "views" and position > 0:
        return "must be the first operation"
    if kind == "dictionary" and any(before.kind != "views" for before in operations[:position]):
        return "must be the first operation, or come right after views"
    return ""


def _output(operation: Operation, seen: Shape) -> Shape | str:
    """The shape that an operation makes out of the shape it sees, or why it cannot."""
    if operation.kind == "linear":
        return (operation.out,)
    if len(seen) != 3:
        return f"needs an image (channels, height, width); it sees {seen}"
    channels, *sides = seen
    if operation.kind == "global average pool":
        return (channels, 1, 1)
    out, kernel, stride, padding = channels, operation.kernel, operation.kernel, 0
    if operation.kind == "views":
        if operation.views not in VIEWS:
            return f"has kind {operation.views}; kinds are {', '.join(map(str, VIEWS))}"
        kernel = stride = 1
    elif operation.kind == "dictionary":
        if not tables(operation.table):
            return f"has number {operation.table}, and there is no such dictionary"
        out, kernel, stride = channels * (1 + _filters(operation)), operation.pool, operation.pool
    elif operation.kind in CONVOLUTIONS:
        if operation.kind == "normalised conv" and kernel % 2 == 0:
            return f"has a kernel of {kernel}; it must be odd"
        out, (stride, padding) = operation.out, _motion(operation)
    elif operation.kind == "residual":
        out, kernel, padding = operation.out, 3, 1
        if out < channels:
            return f"has {out} outputs for {channels} channels; it cannot have fewer"
        stride = 1 if out == channels else 2
    if min(sides) + 2 * padding < kernel:
        return f"has a window of {kernel}, larger than its image {seen}"
    height, width = ((side + 2 * padding - kernel) // stride + 1 for side in sides)
    padded = channels * math.prod(side + 2 * padding for side in sides)
    if max(padded if operation.kind in CONVOLUTIONS else 0, out * height * width) > RESULT_LIMIT:
        return f"makes more than {RESULT_LIMIT} numbers out of one example"
    if _patches(operation, seen) > PATCH_LIMIT:
        return f"multiplies more than {PATCH_LIMIT} numbers in patches of one example"
    return (out, height, width)


def _motion(operation: Operation) -> tuple[int, int]:
    """Stride and padding of a convolution."""
    if operation.kind == "normalised conv":
        return 1, operation.kernel // 2
    return operation.stride, operation.padding


def _filters(operation: Operation) -> int:
    return sum(len(table.filters) for table in tables(operation.table))


def _window(operation: Operation, seen: Shape) -> tuple[int, int]:
    """Elements of the filter of one output channel, and pixels of the output; (0, 0) without filters."""
    if operation.kind in CONVOLUTIONS:
        stride, padding = _motion(operation)
        pixels = math.prod((side + 2 * padding - operation.kernel) // stride + 1 for side in seen[1:])
        return seen[0] * operation.kernel**2, pixels
    if operation.kind == "residual":
        stride = 1 if operation.out == seen[0] else 2
        return max(seen[0], operation.out) * 9, math.prod((side - 1) // stride + 1 for side in seen[1:])
    return 0, 0


def _patches(operation: Operation, seen: Shape) -> int:
    return math.prod(_window(operation, seen))


def _work(operation: Operation, seen: Shape) -> int:
    """Multiplications for one example; what a pool reads counts too."""
    if operation.kind == "linear":
        return operation.out * math.prod(seen)
    if operation.kind in (*CONVOLUTIONS, "residual"):
        convolutions = 2 if operation.kind == "residual" else 1
        return convolutions * operation.out * _patches(operation, seen)
    if operation.kind == "dictionary":
        taps = sum(table.filters[..., 0, 0].size * table.size**2 for table in tables(operation.table))
        return taps * math.prod(seen)
    if operation.kind == "views":
        return 0
    return POOL_WORK * math.prod(seen)


def _tensors(operation: Operation, seen: Shape) -> Iterator[tuple[str, Shape]]:
    """Names and shapes of the tensors of one operation, in order."""
    out = operation.out
    if operation.kind == "linear":
        weights: dict[str, Shape] = {"": (out, math.prod(seen))}
    elif operation.kind in ("conv", "normalised conv"):
        weights = {"": (out, seen[0], operation.kernel, operation.kernel)}
    elif operation.kind == "local conv":
        _, pixels = _window(operation, seen)
        weights = {"": (pixels, out, seen[0], operation.kernel, operation.kernel)}
    elif operation.kind == "residual":
        weights = {"a.": (out, seen[0], 3, 3), "b.": (out, out, 3, 3)}
    else:
        return
    for prefix, shape in weights.items():
        yield prefix + "weight", shape
        if operation.bias:
            yield prefix + "bias", (out,)
