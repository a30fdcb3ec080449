"""What a module computes for one example, as a list of operations (docs/format.md, section 5.2).

The list is what the hash names and what errors are counted with: the Python code behind it runs once, to be
traced, and whatever it does at another time makes no difference to g.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import math
import operator
import warnings
import zlib
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram, export
from torch.export.graph_signature import InputKind, OutputKind

from ..refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

NODES = (32, 4)  # operations: at most the first, and the second for every tensor of the message
VALUES = (16, 2)  # numbers that are computed with, likewise
TEXT = (64, 1)  # characters of all different numbers, written out, likewise
END = 2**63 - 1  # where a slice ends that has no end: no number
LIST = 16  # numbers in one list
SWITCHES = frozenset({"cudnn_enabled", "cudnn_enable"})  # arguments that say how to compute, not what
OUTSIDE = ("from_file", "resize", "set_")  # how names begin of operations that read files and old memory
CHECKS = frozenset({"aten._assert_tensor_metadata.default"})  # operations that compute nothing
DROPOUT = {"train": False, "dropout_p": 0.0, "dropout": 0.0}  # arguments that leave chance no part


@dataclass(frozen=True)
class Graph:
    """A traced module: its operations in order, ready to be hashed and to be run.

    ``names`` says which tensor of the state dict an input of the graph is; None is the example itself.
    """

    nodes: tuple[fx.Node, ...]
    output: fx.Node
    names: Mapping[fx.Node, str | None]
    shapes: Mapping[str, tuple[int, ...]]

    @cached_property
    def operations(self) -> list[object]:
        """Shapes, operations and output, spelled out."""
        spelling = _Spelling(self)
        lines = [spelling.operation(i, node) for i, node in enumerate(self.nodes)]
        spelling.check_budget()
        shapes = [list(shape) for shape in self.shapes.values()]
        return [shapes, lines, spelling.value(len(self.nodes), self.output)]

    @property
    def sha256(self) -> str:
        """Names the function, up to the values of its tensors."""
        return hashlib.sha256(_json([list(self.shapes), *self.operations])).hexdigest()

    def bits(self, *, has_base: bool) -> int:
        """What the whole graph would cost in a message: compressed, behind its length as gamma.

        The names of tensors choose nothing, unless they choose tensors of a base.
        """
        names = list(self.shapes) if has_base else []
        packed = 8 * len(zlib.compress(_json([names, *self.operations]), 9))
        return packed + 2 * int(math.log2(packed)) + 1

    def function(self, tensors: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
        """Logits of a batch, each example by itself: one cannot see another.

        What the graph makes in float64 has the precision of the example, as it would where it was not traced.
        """

        def of_one(example: Tensor) -> Tensor:
            found: dict[fx.Node, Any] = {  # copies: what one example changes is there again for the next
                node: (example[None] if name is None else tensors[name]).clone()
                for node, name in self.names.items()
            }

            def given(value: Any) -> Any:
                if isinstance(value, fx.Node):
                    return found[value]
                return example.dtype if value is torch.float64 else value

            for node in self.nodes:
                args, kwargs = fx.node.map_aggregate((node.args, node.kwargs), given)
                found[node] = node.target(*args, **kwargs)  # type: ignore[operator]
            logits: Tensor = found[self.output][0]
            return logits

        return _for_batches(of_one)


def trace(module: nn.Module, *, input_shape: tuple[int, ...], carried: Collection[str]) -> Graph:
    """The graph of a module in evaluation mode; ``carried`` are the tensors that a message has.

    Raises:
        Refused: It cannot be traced, or contains what neither the message nor the hash tells.
    """
    state = module.state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items() if name in carried}
    program = _exported(module.double().cpu(), input_shape)
    signature = program.graph_signature
    reasons = []
    names: dict[fx.Node, str | None] = {}
    nodes: list[fx.Node] = []
    placeholders = (node for node in program.graph.nodes if node.op == "placeholder")
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            names[node] = None
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and spec.target in carried:
            names[node] = spec.target
        elif node.users:
            reasons.append(
                f"Factory: it computes with a tensor that is not in the message ({_where(program, spec)}): "
                "a tensor outside the state dict, or one that is made from numbers in the code."
            )
    for node in program.graph.nodes:
        if node.op == "call_function" and str(node.target) not in CHECKS:
            nodes.append(node)
            reasons.extend(_objections(node))
        elif node.op not in ("placeholder", "output", "call_function"):
            reasons.append(f"Factory: its graph contains {node.op} {node.target}, which has no code.")
    outputs = [spec.kind for spec in signature.output_specs]
    (found,) = program.graph.output_node().args[0] if len(outputs) == 1 else (None,)
    if outputs != [OutputKind.USER_OUTPUT] or list(names.values()).count(None) != 1:
        reasons.append("Factory: its module must take one tensor, return one, and change no other.")
    elif (
        not isinstance(found, fx.Node) or len(found.meta["val"].shape) != 2 or found.meta["val"].shape[0] != 1
    ):
        reasons.append("Factory: its module must make one row of logits of one example.")
    if reasons:
        raise Refused(*dict.fromkeys(reasons))
    graph = Graph(tuple(nodes), found, names, shapes)  # type: ignore[arg-type]
    assert graph.operations  # spelled out, so that what cannot be spelled is refused here
    return graph


def _exported(module: nn.Module, input_shape: tuple[int, ...]) -> ExportedProgram:
    """What torch makes of one example; its notes on failures are for programmers of the module."""
    example = torch.zeros(1, *input_shape, dtype=torch.float64)
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            return export(module, (example,), strict=False)
    except Exception as error:  # the user's code may fail in any way
        first = f"{type(error).__name__}: {error}".splitlines()[0]
        raise Refused(
            f"Factory: torch {torch.__version__} cannot trace its module ({first}): the code may look at "
            "values or at the batch. If you trust it, give --trust-code."
        ) from None
    finally:
        logging.disable(logging.NOTSET)


def _objections(node: fx.Node) -> Iterator[str]:
    target = node.target
    if target is operator.getitem:
        return
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        yield f"Factory: its graph contains the operation {target}, which is none of torch's own."
    elif "empty" in (name := str(target).split(".")[1]) or name.startswith(OUTSIDE):
        yield f"Factory: its graph reads memory or files that nobody has written for it ({target})."
    elif torch.Tag.data_dependent_output in target.tags:
        yield f"Factory: its graph turns values of tensors into numbers of the code ({target})."
    elif torch.Tag.nondeterministic_seeded in target.tags:
        given = {argument.name: value for argument, value in _arguments(node)}
        if not any(name in given and given[name] == harmless for name, harmless in DROPOUT.items()):
            yield f"Factory: it draws random numbers ({target}): g is no function of the example."


def _arguments(node: fx.Node) -> Iterator[tuple[Any, Any]]:
    """Every argument of an operation with its value; what is left out has its default."""
    assert isinstance(node.target, OpOverload)
    for position, argument in enumerate(node.target._schema.arguments):
        given = position < len(node.args)
        yield (
            argument,
            node.args[position] if given else node.kwargs.get(argument.name, argument.default_value),
        )


class _Spelling:
    """Writes operations as JSON and keeps the account of their numbers."""

    def __init__(self, graph: Graph) -> None:
        self.names = graph.names
        self.numbers = {node: i for i, node in enumerate(graph.nodes)}
        self.positions = {name: i for i, name in enumerate(graph.shapes)}
        self.last = -1  # position of the tensor that was referred to last
        self.values = 0
        self.texts = {repr(size) for shape in graph.shapes.values() for size in shape}

    def operation(self, i: int, node: fx.Node) -> list[object]:
        if node.target is operator.getitem:
            return ["getitem", self.value(i, node.args[0]), self.value(i, node.args[1])]
        spelled: list[object] = [str(node.target)]
        for argument, value in _arguments(node):
            if argument.name in SWITCHES:
                continue
            if not argument.has_default_value() or not _same(value, argument.default_value):
                spelled.append([argument.name, self.value(i, value)])
                kind = str(argument.type)
                self._note(value, is_structure="int" in kind or "bool" in kind)
        return spelled

    def value(self, i: int, value: object) -> object:
        """A value as operation ``i`` sees it."""
        if isinstance(value, fx.Node):
            return self._reference(i, value)
        if value is None or type(value) is bool:
            return value
        if type(value) in (int, float) and value != END:
            self.texts.add(repr(value))
        if type(value) is int:
            return value
        if type(value) is float:
            return ["real", value.hex()]
        if isinstance(value, str):
            return ["text", value]
        if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return ["torch", str(value)]
        if not isinstance(value, (list, tuple)):
            raise Refused(f"Factory: its graph has an argument of type {type(value).__name__}.")
        if len(value) > LIST:
            raise Refused(f"Factory: its graph has a list of {len(value)} entries; {LIST} are allowed.")
        return ["list", *(self.value(i, each) for each in value)]

    def _reference(self, i: int, node: fx.Node) -> object:
        """An operation by how far back it is, a tensor by how far it is from the last one."""
        if node in self.numbers:
            return ["op", i - self.numbers[node]]
        if (name := self.names[node]) is None:
            return ["in"]
        before, self.last = self.last, self.positions[name]
        return ["tensor", self.last - before]

    def _note(self, value: object, *, is_structure: bool) -> None:
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if type(each) is float or (type(each) is int and not is_structure):
                self.values += 1

    def check_budget(self) -> None:
        """A graph has no room for weights in its numbers, nor for many in its shape."""
        tensors = len(self.positions)
        text = sum(map(len, self.texts))
        for what, count, most in (
            ("operations", len(self.numbers), NODES[0] + NODES[1] * tensors),
            ("numbers to compute with", self.values, VALUES[0] + VALUES[1] * tensors),
            ("characters in its different numbers and sizes", text, TEXT[0] + TEXT[1] * tensors),
        ):
            if count > most:
                raise Refused(
                    f"Factory: its graph has {count} {what}; for {tensors} tensors {most} are allowed. "
                    "Numbers that were learned belong into tensors of the state dict."
                )


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _where(program: ExportedProgram, spec: Any) -> str:
    tensor = program.constants.get(spec.target)
    shape = f" of shape {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else ""
    return f"{spec.target}{shape}"


def _for_batches(of_one: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The function for a batch: all examples at a time where torch can, else one after the other."""
    together = torch.vmap(of_one, randomness="error")
    torch._C._functorch._set_vmap_fallback_warning_enabled(False)  # type: ignore[attr-defined]
    can_do: list[bool] = []

    def function(x: Tensor) -> Tensor:
        if not can_do:
            can_do.append(_works(together, x[:2]))
        return together(x) if can_do[0] else torch.stack([of_one(example) for example in x])

    return function


def _works(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    try:
        function(x.clone())
    except RuntimeError:
        return False
    return True
