"""Any module as a plain network: operations of torch, and the tensors that they read.

``torch.export`` looks through classes, containers and Python code, so that networks that compute the same
look the same, whoever wrote them and however. What is left is canonical: no dropout, no casts between
precisions, no operation in place; what follows from tensors alone (weight norms, masks of pruning, positions
that are looked up in a table) is computed once and is a tensor itself.
"""

from __future__ import annotations

import operator
import traceback
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import Dim, export
from torch.export.graph_signature import InputKind, OutputKind
from torch.nn.modules.batchnorm import _BatchNorm

from codebound.run.errors import DependenceError, ModelError, brief
from codebound_networks.reading.callables import Adapter, quiet
from codebound_networks.reading.canonical import simplify
from codebound_networks.reading.constants import fold_constants
from codebound_networks.reading.equivalence import require_same
from codebound_networks.views.kinds import arguments_of
from codebound_networks.views.rebuild import PLAIN, copy_with, first_weight, tensors_of, unwrap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.export import ExportedProgram

aten = torch.ops.aten

_BATCHES = (101, 103, 107, 113, 131, 137)  # of which hardly any size of a network is a multiple
_SAME = {"alias", "clone", "contiguous", "detach", "lift_fresh_copy", "dropout", "_to_copy", "to", "type_as"}
_CHECKS = ("_assert", "sym_constrain")
_NO_CHANCE = (("train", False), ("training", False), ("dropout_p", 0.0), ("dropout", 0.0))


@dataclass(frozen=True, eq=False)
class Plain:
    """A network as operations of torch and the tensors that they read."""

    graph: fx.Graph  # one input, one output; tensors are ``get_attr`` nodes
    # by the names that they have in the module; those that nothing has changed are the module's own
    tensors: Mapping[str, Tensor]
    notes: tuple[str, ...] = ()  # what was done to the module, in sentences

    def module(self) -> fx.GraphModule:
        """The network as a module of torch, in evaluation mode."""
        root = nn.Module()
        for name, tensor in self.tensors.items():
            put(root, name, tensor)
        return mark_plain(fx.GraphModule(root, self.graph))


def mark_plain(module: fx.GraphModule) -> fx.GraphModule:
    """A module of ours, in evaluation mode, that is known to be a plain network."""
    module.meta[PLAIN] = True
    return module.eval()


def put(root: nn.Module, name: str, part: nn.Module | Tensor) -> None:
    """Gives a module a part of that name, which may have dots. What is held under it already stays.

    A tensor that is no parameter becomes a buffer.
    """
    *path, last = name.split(".")
    for step in path:
        if step not in root._modules:
            root.add_module(step, nn.Module())
        root = root.get_submodule(step)
    known = root._modules.get(last)
    if known is not None and known is not part and isinstance(part, nn.Module):
        for inner, value in (*known._parameters.items(), *known._modules.items()):
            if getattr(part, inner, None) is None:
                setattr(part, inner, value)
    if isinstance(part, nn.Module | nn.Parameter):
        setattr(root, last, part)
    else:
        root.register_buffer(last, part)


def plain_network(model: nn.Module, example: Tensor, *, classes: int | None = None) -> Plain:
    """Read the operations of a module with ``torch.export``.

    Args:
        model: The network; never changed.
        example: A batch of inputs; only shape, type and device matter.
        classes: Number of logits, which tells them from other outputs.

    Raises:
        ModelError: It cannot be read; the message says why and what to do.
    """
    inside, notes = unwrap(model)
    inside, kept = _with_kept_norms(inside)
    twin = copy_with(inside, {id(held.tensor): held.tensor for held in tensors_of(inside)})
    name = type(inside).__name__
    batch_norms = (
        n for n, part in twin.named_modules() if isinstance(part, _BatchNorm) and part.running_mean is None
    )
    if (norm := next(batch_norms, None)) is not None:
        raise ModelError(
            f"{norm} ({name}) is a batch norm without running statistics: predictions depend on the rest of "
            "the batch. Train it with track_running_stats=True."
        )
    adapter = Adapter(twin, classes)
    first = first_weight(twin)
    inputs = example[:1].to(device=first.device, dtype=first.dtype)
    inputs = adapter.settle(inputs, name)
    program, batch = _export(adapter, inputs, name)
    plain = _Reader(program, batch).plain((*notes, *kept, *adapter.notes), inside)
    require_same(plain, adapter, inputs, name, tolerance=0.05 if _is_narrow(program) else 1e-3)
    return plain


def _with_kept_norms(model: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    """The module without embeddings that shorten their rows as they are looked up: all are shortened once."""
    limited = {
        name: (part, part.max_norm)
        for name, part in model.named_modules()
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None
    }
    if not limited:
        return model, ()
    tensors = {id(held.tensor): held.tensor for held in tensors_of(model)}
    for part, longest in limited.values():
        short = torch.renorm(part.weight.detach(), part.norm_type, 0, longest)
        tensors[id(part.weight)] = nn.Parameter(short)
    twin = copy_with(model, tensors)
    for name in limited:
        twin.get_submodule(name).max_norm = None  # type: ignore[assignment]
    return twin, (f"Rows of {', '.join(limited)} are shortened to max_norm once, not in every evaluation.",)


def _export(adapter: Adapter, x: Tensor, name: str) -> tuple[ExportedProgram, int]:
    """Return the program that torch exports, and the size of its batch.

    The size is 0 unless the code has fixed it.
    """
    size = _unlike(adapter, x)
    reasons = []
    for sizes in (({0: Dim.DYNAMIC},), None):
        batch = x.new_zeros((size, *x.shape[1:]))  # a new one: torch notes on a tensor which sizes vary
        try:
            with quiet():
                program = export(adapter, (batch,), strict=False, dynamic_shapes=sizes)
                return program.run_decompositions({}), 0 if sizes else size
        except Exception as error:
            reasons.append(f"{brief(error)}{_place(error)}")
    raise ModelError(
        f"{name} cannot be read: {reasons[-1]}\n  Its forward may use shapes, but no Python decision may "
        "depend on values, on the rest of the batch or on earlier calls."
    )


def _place(error: Exception) -> str:
    """The line of somebody's code where it failed, in words. Empty where none of theirs was running."""
    ours = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(ours)
    ]
    files = [each for each in frames if Path(each.filename).is_file()]
    return f" ({Path(files[-1].filename).name}, line {files[-1].lineno}: {files[-1].line})" if files else ""


def _unlike(adapter: nn.Module, x: Tensor) -> int:
    """A size of batches that no size of a tensor of the network or of an input is a multiple of."""
    held = (*adapter.parameters(), *adapter.buffers(), x[0])
    sizes = {size for tensor in held for size in tensor.shape}
    return next((size for size in _BATCHES if all(each % size for each in sizes if each)), _BATCHES[-1])


@dataclass
class _Reader:
    """Makes the plain graph of a program."""

    program: ExportedProgram
    batch: int
    graph: fx.Graph = field(default_factory=fx.Graph)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def plain(self, notes: Sequence[str], model: nn.Module) -> Plain:
        """The network. Tensors have their first name in the model, and are its own."""
        signature = self.program.graph_signature
        kinds = [spec.kind for spec in signature.output_specs]
        self.held = {f"network.{name}": held for held in tensors_of(model) for name in held.names}
        self.changed = set(signature.buffers_to_mutate.values())
        self.x = self.graph.placeholder("x")
        self.dtype = self.graph.call_function(getattr, (self.x, "dtype"))
        self.size: fx.Node | None = None
        known: dict[fx.Node, Any] = {}
        entries = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        for node, spec in zip(entries, signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                self.x.meta = dict(node.meta)
                known[node] = self.x
            elif node.users:
                known[node] = self._tensor(spec)
        self.graph.output(self._inline(self.program.graph, known)[kinds.index(OutputKind.USER_OUTPUT)])
        self.graph.eliminate_dead_code()
        self._require_no_memory(kinds)
        folded = fold_constants(self.graph, self.tensors)
        folded += simplify(self.graph, self.tensors)
        self.graph.eliminate_dead_code()
        self._settle_precision()
        used = {str(node.target) for node in self.graph.nodes if node.op == "get_attr"}
        tensors = {name: self.tensors[name] for name in self.tensors if name in used}
        real = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
        types = {tensor.dtype for tensor in real.values()}
        if len(types) > 1:
            widest = reduce(torch.promote_types, types)
            tensors |= {name: nn.Parameter(each.detach().to(widest)) for name, each in real.items()}
            folded.append(f"Its tensors are of {len(types)} precisions: it is computed in {widest}.")
        return Plain(self.graph, tensors, (*notes, *folded))

    def _require_no_memory(self, kinds: Sequence[OutputKind]) -> None:
        """Tensors may change as long as no logit reads them, as counters of calls do."""
        names = {self.held[name].name for name in self.changed}
        is_read = any(node.op == "get_attr" and node.target in names for node in self.graph.nodes)
        if is_read or set(kinds) - {OutputKind.USER_OUTPUT, OutputKind.BUFFER_MUTATION}:
            raise DependenceError(
                "this network changes tensors of its own when it is evaluated: it remembers earlier calls. "
                "Let it do so under `if self.training` alone."
            )

    def _settle_precision(self) -> None:
        """The precision is that of a weight, where there is one: inputs may be integers."""
        read = (node for node in self.graph.nodes if node.op == "get_attr")
        weight = next((node for node in read if self.tensors[str(node.target)].is_floating_point()), None)
        if weight is None or not self.dtype.users:
            return
        with self.graph.inserting_after(self.x):
            again = self.graph.create_node("get_attr", weight.target)
        again.meta["val"] = weight.meta["val"]
        with self.graph.inserting_after(again):
            dtype = self.graph.call_function(getattr, (again, "dtype"))
        self.dtype.replace_all_uses_with(dtype)
        self.graph.erase_node(self.dtype)

    def _tensor(self, spec: Any) -> fx.Node:
        """The node that reads a tensor of the program, under its first name in the module."""
        target, program = str(spec.target), self.program
        held = self.held.get(target)
        if held is None:
            name = target.removeprefix("network.")
            value = program.state_dict[target] if target in program.state_dict else program.constants[target]
        else:
            name = held.name
            value = held.tensor if held.kind == "parameter" else held.tensor.detach()
        if value.is_complex():  # torch.nn has no other precision for complex numbers than their own
            pairs = self._attribute(name, torch.view_as_real(value.detach().resolve_conj()).clone())
            made = self._call(aten.view_as_complex.default, (pairs,))
            made.meta["val"] = value
            return made
        return self._attribute(name, value)

    def _attribute(self, name: str, value: Tensor) -> fx.Node:
        self.tensors[name] = value
        node = self.graph.create_node("get_attr", name)
        node.meta["val"] = value
        return node

    def _call(self, target: Callable[..., Any], args: tuple[Any, ...], **kwargs: Any) -> fx.Node:
        return self.graph.call_function(target, args, kwargs)

    def _inline(self, graph: fx.Graph, known: dict[fx.Node, Any]) -> tuple[Any, ...]:
        """Adds the operations of a graph to ours. Returns what it returns."""
        for node in graph.nodes:
            if node.op == "call_function":
                known[node] = self._operation(node, known)
            elif node.op == "get_attr":
                known[node] = getattr(graph.owning_module, str(node.target))
            elif node.op == "output":
                found = fx.node.map_arg(node.args[0], lambda used: known[used])
                return tuple(found) if isinstance(found, list | tuple) else (found,)
        raise AssertionError("a graph has an output")

    def _operation(self, node: fx.Node, known: dict[fx.Node, Any]) -> Any:
        """Our node for one operation, or the one before where it changes nothing."""
        target: Any = node.target
        args, kwargs = _map_nested((node.args, dict(node.kwargs)), lambda value: known.get(value, value))
        if isinstance(target, HigherOrderOperator):
            return self._inner(str(target), args)
        if target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        name = str(target).split(".")[1] if isinstance(target, OpOverload) else ""
        if name.startswith(_CHECKS):
            return None
        value: Any = node.meta.get("val")
        source = args[0] if args and isinstance(args[0], fx.Node) else None
        if name in _SAME and source is not None and _is_alike(value, source.meta.get("val")):
            return source
        _require_no_chance(node)
        if name == "_to_copy" and value.is_complex():
            target, args, kwargs = (
                aten.complex.default,
                (source, self._call(aten.zeros_like.default, (source,))),
                {},
            )
        elif name == "_to_copy":
            target, args, kwargs = aten.to.dtype, (source, kwargs["dtype"]), {}
        elif name in ("view", "_unsafe_view"):
            target = aten.reshape.default
        elif name == "_native_batch_norm_legit_no_training":
            target, value = aten.batch_norm.default, value[0]
            args, kwargs = (*args[:5], False, *args[5:7], True), {}
        args, kwargs = _map_nested((args, kwargs), self._general)
        if self.batch:
            args, kwargs = _map_nested((args, kwargs), self._batch_size)
        made = self._call(target, tuple(args), **kwargs)
        made.meta["val"] = value
        if _is_float(value) and not _reads_float(made) and self.dtype not in made.all_input_nodes:
            made = self._call(aten.to.dtype, (made, self.dtype))
            made.meta["val"] = value
        return (made,) if target is aten.batch_norm.default else made

    def _inner(self, name: str, args: Sequence[Any]) -> tuple[Any, ...]:
        """Inline a graph that runs under a setting without effect in evaluation."""
        at = next((i for i, value in enumerate(args) if isinstance(value, fx.GraphModule)), None)
        if at is None or "wrap_with" not in name:
            raise ModelError(f"{name}: branches and loops that depend on values have no code.")
        inner = args[at].graph
        entries = [node for node in inner.nodes if node.op == "placeholder"]
        return self._inline(inner, dict(zip(entries, args[at + 1 :], strict=True)))

    def _general(self, value: Any) -> Any:
        """A value for every precision: a float type is that of the input."""
        return self.dtype if isinstance(value, torch.dtype) and value.is_floating_point else value

    def _batch_size(self, size: Any) -> Any:
        """The size of the batch where the code has fixed it."""
        if type(size) is not int or size <= 0 or size % self.batch:
            return size
        if self.size is None:
            with self.graph.inserting_after(self.dtype):
                self.size = self._call(aten.sym_size.int, (self.x, 0))
        return self.size if size == self.batch else self._call(operator.mul, (self.size, size // self.batch))


def _map_nested(values: Any, function: Callable[[Any], Any]) -> Any:
    """The same lists, tuples and dictionaries, with every value in them mapped."""
    if isinstance(values, dict):
        return {key: _map_nested(value, function) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(_map_nested(value, function) for value in values)
    return function(values) if _is_hashable(values) else values


def _is_hashable(value: Any) -> bool:
    return not isinstance(value, slice | set)


def _is_alike(one: Any, other: Any) -> bool:
    """Return True if two tensors differ in precision at most."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    if one.dtype == other.dtype:
        return True
    return (one.is_floating_point() and other.is_floating_point()) or (
        one.is_complex() and other.is_complex()
    )


def _require_no_chance(node: fx.Node) -> None:
    target = node.target
    if isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags:
        given = arguments_of(node)
        if not any(given.get(key) == harmless for key, harmless in _NO_CHANCE):
            raise DependenceError(
                f"this network draws random numbers ({target}), so it is no function of one example. Put "
                "dropout into nn.Dropout, or under self.training."
            )


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _reads_float(node: fx.Node) -> bool:
    return any(_is_float(used.meta.get("val")) for used in node.all_input_nodes)


def _is_narrow(program: ExportedProgram) -> bool:
    """Return True if a part of the program computes in less than float32."""
    parts = (part for part in program.graph_module.modules() if isinstance(part, fx.GraphModule))
    values = (node.meta.get("val") for part in parts for node in part.graph.nodes)
    return any(_is_float(value) and torch.finfo(value.dtype).bits < 32 for value in values)
