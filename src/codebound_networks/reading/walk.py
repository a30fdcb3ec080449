"""A network as ordered layer views, the account of all its tensors, and its steps. It is only read."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, fx, nn

from codebound.bounds.risk import count_of
from codebound.run.errors import ModelError, UnsupportedLayerError, UsageError, brief
from codebound.run.tensor_files import dtype_name
from codebound_networks.views.graphs import Traced
from codebound_networks.views.kinds import MODULE_KINDS, OTHER, kind_of_node
from codebound_networks.views.layers import (
    LAYER_VIEWS,
    AbstractLayerView,
    refusal_of,
    registered_type,
    view_of,
)
from codebound_networks.views.rebuild import (
    HeldTensor,
    TensorKind,
    first_weight,
    forbidden_entries,
    is_plain,
    tensors_of,
    unwrap,
)

Status = Literal["seen", "carried", "unread", "unsupported"]


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """One tensor of the network."""

    name: str  # qualified name
    # ``parameter``, ``buffer``, or ``attribute`` for a tensor that ``state_dict`` does not see
    kind: TensorKind
    module_type: str  # type of the module that holds it
    shape: tuple[int, ...]  # its shape
    dtype: str  # its dtype, such as ``float32``
    elements: int  # its number of entries
    # ``seen`` through a layer view, ``carried`` as is, ``unread`` where evaluation makes no use of it or only
    # of what follows from it, or ``unsupported``
    status: Status
    reason: str  # why it has that status


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every tensor of a network exactly once. A tensor shared by modules is listed under its first name."""

    tensors: tuple[CoverageRow, ...]  # those of the network that is evaluated
    # those of the module that it was read from and that are no part of it
    unread: tuple[CoverageRow, ...] = ()

    def rows(self) -> list[dict[str, str | int]]:
        """The account as table rows with one column per field of ``CoverageRow``."""
        return [
            {**asdict(row), "shape": "x".join(map(str, row.shape)) or "scalar"}
            for row in (*self.tensors, *self.unread)
        ]

    def with_status(self, status: Status) -> tuple[CoverageRow, ...]:
        """The tensors with that status."""
        return tuple(row for row in (*self.tensors, *self.unread) if row.status == status)

    @property
    def totals(self) -> dict[Status, int]:
        """Number of entries by status."""
        statuses: tuple[Status, ...] = get_args(Status)
        return {status: sum(row.elements for row in self.with_status(status)) for status in statuses}

    @property
    def sentence(self) -> str:
        """The totals in words."""
        parts = [
            f"{count:,} {status}" for status, count in self.totals.items() if count or status != "unread"
        ]
        return f"{count_of(len(self.tensors) + len(self.unread), 'tensor')}, entries: {', '.join(parts)}."

    def require_complete(self) -> None:
        """Raises UnsupportedLayerError with all unsupported tensors, if there are any."""
        missing = self.with_status("unsupported")
        if missing:
            lines = [
                f"{row.name} ({row.module_type}, {row.elements:,} entries): {row.reason}" for row in missing
            ]
            of = f"of {len(self.tensors)} tensors"
            raise UnsupportedLayerError(
                count_of(len(missing), f"{of} is not supported", f"{of} are not supported")
                + ".\n  "
                + "\n  ".join(lines)
            )


def coverage_of(model: nn.Module, viewed: Collection[nn.Module]) -> Coverage:
    """Accounts for all tensors of ``model``. ``viewed`` are the modules with a view that its pass calls.

    Raises:
        ModelError: Some tensor has no values (meta device), or holds NaN or infinity; all are named.
    """
    held = tensors_of(model)
    meta = [own.name for own in held if own.tensor.is_meta]
    if meta:
        raise ModelError(
            f"{type(model).__name__} is on the meta device, so these have no values: {', '.join(meta)}. "
            "Load weights first, or use with_weights(model, tensors)."
        )
    broken = [
        f"{own.name}: {bad} of {own.tensor.numel()} entries"
        for own in held
        if (bad := forbidden_entries(own, own.tensor.detach()))
    ]
    if broken:
        raise ModelError("the weights contain NaN or infinity.\n  " + "\n  ".join(broken))
    seen = {id(tensor) for module in viewed for tensor in (module.weight, module.bias)}
    plain = is_plain(model)
    return Coverage(tuple(_row(own, *_status(own, viewed, seen, plain=plain)) for own in held))


def _row(held: HeldTensor, status: Status, reason: str) -> CoverageRow:
    if len(held.names) > 1:
        reason += f"; also known as {', '.join(held.names[1:])}"
    return CoverageRow(
        name=held.name,
        kind=held.kind,
        module_type=type(held.owner).__name__,
        shape=tuple(held.tensor.shape),
        dtype=dtype_name(held.tensor),
        elements=held.tensor.numel(),
        status=status,
        reason=reason,
    )


def _status(
    held: HeldTensor, viewed: Collection[nn.Module], seen: set[int], *, plain: bool
) -> tuple[Status, str]:
    owner, refusal = held.owner, refusal_of(held.owner)
    if id(held.tensor) in seen:
        return "seen", "through its layer view"
    if plain:
        return "carried", "read by an operation that is no layer"
    if refusal is not None and registered_type(owner, LAYER_VIEWS) is not None:
        return "unsupported", refusal
    if held.kind == "attribute":
        return "unsupported", "a plain attribute that state_dict does not see; register it as a buffer"
    if not held.is_persistent:
        return "unsupported", "a non-persistent buffer: state_dict and weight files do not contain it"
    if registered_type(owner, MODULE_KINDS) is not None:
        if getattr(owner, "running_mean", held) is None:
            return "unsupported", "a batch norm without running statistics: it looks at the rest of the batch"
        if held.name.endswith("num_batches_tracked"):
            return "carried", "counts training batches; evaluation does not read it"
        return "carried", "read by an operation that is no layer"
    if refusal is not None:
        return "unsupported", refusal
    if owner in viewed:
        return "unsupported", "its layer has a view of weight and bias only"
    return (
        "unsupported",
        "the forward pass never calls this layer: it is unused, or its weight is read directly",
    )


@dataclass(frozen=True, eq=False)
class Network:
    """The view of somebody's network."""

    traced: Traced = field(repr=False)  # the module and the trace of its forward pass
    # views in forward order; a layer that is called twice appears once, at its first call
    layers: tuple[AbstractLayerView, ...]
    # names of layers in the order of their calls, repeats included
    calls: tuple[str, ...] = field(repr=False)
    coverage: Coverage = field(repr=False)  # the account of every tensor
    # whether all that it computes is known, as a certificate needs it; a note says why not
    is_readable: bool = field(default=True, repr=False)
    notes: tuple[str, ...] = ()  # what was done to the module to read it, in sentences

    @property
    def model(self) -> nn.Module:
        """The caller's module; never changed, not even its mode."""
        return self.traced.model

    @property
    def predictor(self) -> nn.Module:
        """The same network in evaluation mode: own modules, the caller's tensors.

        All evaluation and all hooks go here. After ``model.to(...)``, wrap again.
        """
        return self.traced.predictor

    @property
    def graph(self) -> fx.Graph | None:
        """The traced forward pass, or None where there is none."""
        return self.traced.graph

    @property
    def untraceable(self) -> str:
        """Reason for a missing graph. It is empty when there is one."""
        return self.traced.untraceable

    @property
    def shared(self) -> tuple[str, ...]:
        """Layers that one forward pass calls more than once."""
        return tuple(view.name for view in self.layers if self.calls.count(view.name) > 1)

    def with_model(self, model: nn.Module) -> "Network":
        """The view of another module that takes the same steps, such as one with other weights."""
        return replace(
            self,
            traced=self.traced.with_model(model),
            layers=_views(model, self.calls),
            coverage=coverage_of(model, {model.get_submodule(name) for name in self.calls}),
        )

    def require_layers(self, verb: str) -> None:
        """Refuses a network in which there is nothing to do that to."""
        if not self.layers:
            read = ", ".join(row.name for row in self.coverage.tensors[:4]) or "there are none"
            raise ModelError(
                f"there is no linear or convolutional layer to {verb}: other operations read the tensors "
                f"({read}). A certificate needs no layers: codebound certify takes the network as it is."
            )

    def layer(self, name: str) -> AbstractLayerView:
        """The view of that name."""
        for view in self.layers:
            if view.name == name:
                return view
        raise UsageError(f"no layer {name!r}. Layers: {', '.join(view.name for view in self.layers)}.")


def wrap(
    model: nn.Module | Traced,
    *,
    example: Tensor | None = None,
    classes: int | None = None,
    strict: bool = False,
) -> Network:
    """The view of a network: its layers in forward order and the account of all its tensors.

    The order comes from a symbolic trace of the forward pass. With an example, a network that ``torch.fx``
    does not see through is read with ``torch.export``: the view is then one of what that finds.

    Args:
        model: The network, traced or not; never changed.
        example: A batch of inputs.
        classes: Number of logits, which tells them from other outputs of the network.
        strict: Refuse networks with tensors that are neither seen nor carried.

    Raises:
        UnsupportedLayerError: ``strict``, with all tensors that are not supported.
        ModelError: Weights are NaN, infinite or missing, or the order of the layers cannot be found.

    >>> net = wrap(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    >>> [layer.name for layer in net.layers], net.coverage.totals["seen"]
    (['0', '2'], 23)
    """
    traced = model if isinstance(model, Traced) else Traced(model)
    given, unreadable = traced.model, None
    if not isinstance(given, nn.Module):
        raise UsageError(f"wrap takes an nn.Module. Got {type(model).__name__}.")
    notes: tuple[str, ...] = ()
    if example is not None:
        traced, notes = _unwrap(traced)
        try:
            traced, found = _readable(traced, example, classes)
        except ModelError as error:
            unreadable = error
            try:
                _calls_on(traced.predictor, example)
            except ModelError:  # what cannot be run at all is refused
                raise error from None
            notes += (f"A certificate cannot be about this network: {error}",)
        else:
            notes += found
    model = traced.model
    if traced.graph is not None:
        called = [str(node.target) for node in traced.graph.nodes if node.op == "call_module"]
        calls = tuple(name for name in called if refusal_of(model.get_submodule(name)) is None)
    elif refusal_of(model) is None:
        calls = ("",)
    elif example is not None:
        calls = _calls_on(traced.predictor, example)
    else:
        raise ModelError(
            f"the order in which {type(model).__name__} calls its layers is unknown: torch.fx cannot "
            f"trace it ({traced.untraceable}). Pass example=, a batch of inputs to run once."
        )
    coverage = coverage_of(model, {model.get_submodule(name) for name in calls})
    if is_plain(model) and given is not model:
        coverage = replace(coverage, unread=tuple(_unread(unwrap(given)[0], model)))
    if strict:
        try:
            coverage.require_complete()
        except UnsupportedLayerError as error:
            raise error if unreadable is None else UnsupportedLayerError(f"{unreadable}\n  {error}") from None
        if unreadable is not None:
            raise unreadable
    return Network(
        traced=traced,
        layers=_views(model, calls),
        calls=calls,
        coverage=coverage,
        is_readable=unreadable is None,
        notes=notes,
    )


def _views(model: nn.Module, calls: tuple[str, ...]) -> tuple[AbstractLayerView, ...]:
    return tuple(view_of(name, model.get_submodule(name)) for name in dict.fromkeys(calls))


def readable(
    model: nn.Module | Traced, example: Tensor, *, classes: int | None = None
) -> tuple[Traced, tuple[str, ...]]:
    """A module of which every step is known, and what was done to get it, in sentences.

    It is the module itself where ``torch.fx`` sees through it: one tensor in, one out, every tensor in a
    layer that is known. Otherwise it is what ``torch.export`` finds in it (``export.py``).

    Args:
        model: The network, traced or not; never changed.
        example: A batch of inputs.
        classes: Number of logits, which tells them from other outputs of the network.

    Raises:
        ModelError: The network cannot be evaluated, or returns something in which no logits can be told.
    """
    traced, notes = _unwrap(model if isinstance(model, Traced) else Traced(model))
    read, found = _readable(traced, example, classes)
    return read, (*notes, *found)


def _unwrap(traced: Traced) -> tuple[Traced, tuple[str, ...]]:
    inside, notes = unwrap(traced.model)
    return traced if inside is traced.model else Traced(inside), notes


def _readable(traced: Traced, example: Tensor, classes: int | None) -> tuple[Traced, tuple[str, ...]]:
    obstacle = "" if is_plain(traced.model) else _obstacle(traced, example)
    if not obstacle:
        return traced, ()
    from codebound_networks.reading.export import plain_network
    from codebound_networks.reading.layer_modules import with_layers

    plain = plain_network(traced.model, example, classes=classes)
    return Traced(with_layers(plain)), (f"Read with torch.export: {obstacle}.", *plain.notes)


def _obstacle(traced: Traced, example: Tensor) -> str:
    """Return the reason why a trace does not tell all. It is empty where it does."""
    model, predictor, graph = traced.model, traced.predictor, traced.graph
    if graph is None:
        return "" if refusal_of(model) is None else f"torch.fx cannot trace it ({traced.untraceable})"
    (output,) = (node.args[0] for node in graph.nodes if node.op == "output")
    inputs = [node.name for node in graph.nodes if node.op == "placeholder"]
    if len(inputs) != 1 or not isinstance(output, fx.Node):
        return f"it takes {', '.join(inputs)} and returns {type(output).__name__}"
    steps = [node for node in graph.nodes if node.op not in ("get_attr", "output")]
    unknown = next((node for node in steps if kind_of_node(node, predictor) == OTHER), None)
    if unknown is not None:
        return f"torch.fx leaves open what step {unknown.name} does"
    called = {model.get_submodule(str(node.target)) for node in steps if node.op == "call_module"}
    viewed = {module for module in called if refusal_of(module) is None}
    strange = coverage_of(model, viewed).with_status("unsupported")
    if strange:
        return f"{strange[0].name}: {strange[0].reason}"
    try:
        first = first_weight(predictor)
        with torch.no_grad():
            predictor(example[:1].to(device=first.device, dtype=first.dtype))
    except Exception as error:  # code of others may fail in any way
        return f"it fails on floating-point inputs ({brief(error)})"
    return ""


def _unread(given: nn.Module, read: nn.Module) -> Iterator[CoverageRow]:
    """The tensors of a module that are no part of what was read in it."""
    known = {id(held.tensor) for held in tensors_of(read)}
    names = {name for held in tensors_of(read) for name in held.names}
    for held in tensors_of(given):
        if id(held.tensor) not in known and held.name not in names:
            yield _row(held, "unread", "evaluation does not read it, or reads only what follows from it")


def trace_steps(network: Network | Traced) -> tuple[tuple[fx.Node, ...], fx.Node]:
    """The steps of a network's forward pass, and the one that gives its output. Refuses what has none."""
    name = type(network.model).__name__
    if network.graph is None:
        raise ModelError(f"the steps of {name} cannot be found: {network.untraceable}.")
    inputs = [node for node in network.graph.nodes if node.op == "placeholder"]
    (output,) = (node.args[0] for node in network.graph.nodes if node.op == "output")
    if len(inputs) != 1 or not isinstance(output, fx.Node):
        raise ModelError(
            f"{name} must take one tensor and return one. It takes {len(inputs)} arguments "
            f"({', '.join(node.name for node in inputs)}) and returns {output}. "
            "Wrap it in a module that does."
        )
    nodes = tuple(node for node in network.graph.nodes if node.op not in ("get_attr", "output"))
    return nodes, output


def observe(
    predictor: nn.Module, x: Tensor, *, names: Collection[str], record: Callable[[str, Tensor, Tensor], None]
) -> None:
    """Runs the network and reports each call of the named layers. The hooks go whatever happens."""
    handles = []
    try:
        for name in names:

            def hook(_: nn.Module, args: Any, kwargs: Any, output: Tensor, name: str = name) -> None:
                record(name, args[0] if args else kwargs["input"], output)

            module = predictor.get_submodule(name)
            handles.append(module.register_forward_hook(hook, with_kwargs=True))
        with torch.no_grad():
            predictor(x.clone())  # a network may work in place on its input
    except Exception as error:
        raise ModelError(
            f"{type(predictor).__name__} fails on inputs of shape {tuple(x.shape)} {x.dtype} on {x.device}: "
            f"{type(error).__name__}: {error}"
        ) from error
    finally:
        for handle in handles:
            handle.remove()


def _calls_on(predictor: nn.Module, example: Tensor) -> tuple[str, ...]:
    """Names of the layers in the order in which ``example`` passes them."""
    called: list[str] = []
    names = [name for name, module in predictor.named_modules() if refusal_of(module) is None]
    observe(predictor, example, names=names, record=lambda name, *_: called.append(name))
    return tuple(called)
