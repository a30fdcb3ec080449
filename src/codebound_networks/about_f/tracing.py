"""The graph of a factory's module: what its hash names (docs/format.md, section 5.2).

A certificate is about the operations that torch finds in the module for one example, and about the tensors of
the message. So no tensor may enter from elsewhere, and no list of numbers that could be one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import operator
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.export import export
from torch.export.graph_signature import InputKind, OutputKind

from codebound.run.errors import ModelError
from codebound.run.store import file_sha256
from codebound_networks.views.rebuild import with_weights

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from torch import fx, nn
    from torch.export import ExportedProgram

_MOST_ENTRIES = 16
_NO_MEANING = ("cudnn_enable", "cudnn_enabled")
_NO_END = 2**63 - 1  # what a slice without an end says
_NO_EFFECT = "aten._assert_tensor_metadata.default"
_NO_CHANCE = (("train", False), ("dropout_p", 0.0), ("dropout", 0.0))
_REGISTER = "Register what was learned as parameters or buffers, which the message codes."


def traced_sha256(module: nn.Module, input_shape: tuple[int, ...], carried: Collection[str]) -> str:
    """SHA-256 of the graph of a module, without the values of its tensors.

    Args:
        module: The network; read only.
        input_shape: Shape of one example.
        carried: The names of the tensors that a message carries.

    Raises:
        ModelError: It has no graph that a hash can stand for; the message says what to change.
    """
    twin = with_weights(module, module.state_dict()).cpu().double()
    program = _program(twin, input_shape)
    shapes = {name: list(value.shape) for name, value in twin.state_dict().items() if name in carried}
    sizes = {repr(size) for shape in shapes.values() for size in shape}
    operations, output = _GraphText(program, list(shapes), different=sizes).spelled()
    text = json.dumps([list(shapes), list(shapes.values()), operations, output], separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def sources_of(module: nn.Module) -> tuple[tuple[str, str], ...]:
    """The Python modules that define the classes of a network, torch's apart, with their files' SHA-256."""
    classes = {kind for part in module.modules() for kind in type(part).__mro__}
    names = {kind.__module__ for kind in classes} - {"builtins"}
    found = {}
    for name in names:
        path = getattr(sys.modules.get(name), "__file__", None)
        if path is not None and name.partition(".")[0] not in ("torch", "typing", "abc"):
            found[name] = file_sha256(Path(path))
    return tuple(sorted(found.items()))


def _program(twin: nn.Module, input_shape: tuple[int, ...]) -> ExportedProgram:
    """Trace the module for one example."""
    example = torch.zeros((1, *input_shape), dtype=torch.float64)
    before = logging.root.manager.disable
    with contextlib.ExitStack() as quiet:
        quiet.enter_context(torch.no_grad())
        quiet.enter_context(warnings.catch_warnings())
        quiet.enter_context(contextlib.redirect_stderr(io.StringIO()))
        quiet.callback(logging.disable, before)
        logging.disable(logging.ERROR)
        warnings.simplefilter("ignore")
        try:
            return export(twin, (example,), strict=False)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise ModelError(
                f"{type(twin).__name__} cannot be traced, so no hash can name what it computes.\n  {reason}\n"
                "  Its forward may use shapes, but no Python decision may depend on values, on the rest of "
                "the batch or on earlier calls.\n  With trust_code its code becomes an assumption of the "
                "certificate."
            ) from error


@dataclass
class _GraphText:
    """The canonical form of a traced program."""

    program: ExportedProgram
    tensors: list[str]
    inputs: dict[fx.Node, str | None] = field(default_factory=dict)
    counted: int = 0
    different: set[str] = field(default_factory=set)
    previous: int = -1

    def spelled(self) -> tuple[list[Any], Any]:
        """The operations, and the reference to the logits."""
        signature, nodes = self.program.graph_signature, list(self.program.graph.nodes)
        problems = list(self._read_inputs(nodes))
        steps = [node for node in nodes if node.op not in ("placeholder", "output")]
        steps = [node for node in steps if str(node.target) != _NO_EFFECT]
        for node in steps:
            problems.extend(_problems(node))
        kinds = [spec.kind for spec in signature.output_specs]
        if kinds != [OutputKind.USER_OUTPUT] or len(signature.user_inputs) != 1:
            problems.append("it must take one tensor, return one, and change none of its own")
        elif (shape := tuple(nodes[-1].args[0][0].meta["val"].shape))[:-1] != (1,):
            problems.append(f"it makes {shape} of one example; one row of logits is needed")
        if problems:
            raise ModelError(
                "no hash can name what this network computes:\n  " + "\n  ".join(dict.fromkeys(problems))
            )
        place = {node: i for i, node in enumerate(steps)}
        operations = [self._operation(node, place) for node in steps]
        output = self._spell(nodes[-1].args[0][0], len(steps), place)
        self._require_few_numbers(len(steps))
        return operations, output

    def _read_inputs(self, nodes: Iterable[fx.Node]) -> Iterator[str]:
        entries = [node for node in nodes if node.op == "placeholder"]
        for node, spec in zip(entries, self.program.graph_signature.input_specs, strict=True):
            is_example = spec.kind is InputKind.USER_INPUT
            if not is_example and node.users and spec.target not in self.tensors:
                shape = "x".join(map(str, getattr(node.meta["val"], "shape", ()))) or "one number"
                yield f"a tensor enters it that is not in its state ({spec.target}, {shape}). {_REGISTER}"
            self.inputs[node] = None if is_example else str(spec.target)

    def _operation(self, node: fx.Node, place: dict[fx.Node, int]) -> list[Any]:
        here = place[node]
        if node.target is operator.getitem:
            return ["getitem", *(self._spell(value, here, place) for value in node.args)]
        found: list[Any] = [str(node.target)]
        for argument, value in _bound(node):
            is_default = argument.has_default_value() and _equal(value, argument.default_value)
            if not is_default and argument.name not in _NO_MEANING:
                found.append([argument.name, self._spell(value, here, place)])
                self.counted += _numbers(value, str(argument.type))
        return found

    def _spell(self, value: object, here: int, place: dict[fx.Node, int]) -> Any:
        match value:
            case None | bool():
                return value
            case int():
                self.different |= {repr(value)} - {repr(_NO_END)}
                return value
            case float():
                self.different.add(repr(value))
                return ["real", float.hex(value)]
            case str():
                return ["text", value]
            case torch.dtype() | torch.device() | torch.layout() | torch.memory_format():
                return ["torch", str(value)]
            case list() | tuple() if len(value) <= _MOST_ENTRIES:
                return ["list", *[self._spell(entry, here, place) for entry in value]]
        if value in place:
            return ["op", here - place[value]]
        if value in self.inputs:
            name = self.inputs[value]
            if name is None:
                return ["in"]
            position = self.tensors.index(name)
            distance, self.previous = position - self.previous, position
            return ["tensor", distance]
        what = f"a list of {len(value)} entries" if isinstance(value, list) else f"a {type(value).__name__}"
        raise ModelError(
            f"no hash can name what this network computes: it hands {what} to an operation. Lists have at "
            f"most {_MOST_ENTRIES}; recurrent layers in one module become several, one behind the other."
        )

    def _require_few_numbers(self, steps: int) -> None:
        count = len(self.tensors)
        different = sum(map(len, self.different))
        limits = {
            "operations": (steps, 32 + 4 * count),
            "numbers that it computes with": (self.counted, 16 + 2 * count),
            "characters in its different numbers and sizes": (different, 64 + count),
        }
        for what, (found, most) in limits.items():
            if found > most:
                raise ModelError(
                    f"the code of this network has {found} {what}; a network of {count} tensors may have "
                    f"{most}, since more could have been learned from the sample. Use layers of torch "
                    "(nn.GRU, nn.RMSNorm) for what is spelled out, and register what was learned as "
                    "parameters. With trust_code the code becomes an assumption of the certificate."
                )


def _bound(node: fx.Node) -> Iterator[tuple[Any, Any]]:
    """The arguments of an operation as its schema names them, with their values."""
    assert isinstance(node.target, OpOverload)
    arguments = node.target._schema.arguments
    values = dict(zip((argument.name for argument in arguments), node.args, strict=False)) | node.kwargs
    for argument in arguments:
        yield argument, values.get(argument.name, argument.default_value)


def _problems(node: fx.Node) -> Iterator[str]:
    """Yield the objections to an operation in a network.

    Such a network is a function of one example.
    """
    target = node.target
    if target is operator.getitem:
        return
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        yield f"{target} is no operation of torch"
        return
    name = str(target).split(".")[1]
    if "empty" in name or name.startswith(("from_file", "resize", "set_")):
        yield f"it reads memory or files that nobody has written for it ({target})"
    if torch.Tag.data_dependent_output in target.tags:
        yield f"values of tensors become Python numbers ({target}): compute with the tensors instead"
    if torch.Tag.nondeterministic_seeded in target.tags:
        values = {argument.name: value for argument, value in _bound(node)}
        if not any(values.get(name) == harmless for name, harmless in _NO_CHANCE):
            yield f"it draws random numbers ({target}): put dropout into nn.Dropout, or under self.training"


def _numbers(value: object, kind: str) -> int:
    """Count the numbers of an argument that are computed with.

    Integers where the schema wants integers are shapes and positions.
    """
    entries = value if isinstance(value, (list, tuple)) else (value,)
    is_shape = "int" in kind or "bool" in kind
    return sum(isinstance(entry, float) or (type(entry) is int and not is_shape) for entry in entries)


def _equal(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default
