"""A network as ordered layer views, and its activations, without touching the caller's module."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn

from codebound.errors import ModelError, UsageError
from codebound.nets.coverage import Coverage, coverage_of
from codebound.nets.kinds import recognised
from codebound.nets.layers import AbstractLayerView, refusal_of, view_of
from codebound.nets.rebuild import eval_twin


@dataclass(frozen=True, eq=False)
class Network:
    """The view of somebody's network.

    Attributes:
        model: The caller's module; never changed, not even its mode.
        predictor: The same network in evaluation mode: own modules, the caller's tensors. All evaluation
            and all hooks go here. After ``model.to(...)``, wrap again.
        layers: Views in forward order; a layer that is called twice appears once, at its first call.
        calls: Names of layers in the order of their calls, repeats included.
        coverage: The account of every tensor.
        graph: The traced forward pass, or None where ``torch.fx`` cannot trace it.
        untraceable: Why there is no graph; empty when there is one.
    """

    model: nn.Module = field(repr=False)
    predictor: nn.Module = field(repr=False)
    layers: tuple[AbstractLayerView, ...]
    calls: tuple[str, ...] = field(repr=False)
    coverage: Coverage = field(repr=False)
    graph: fx.Graph | None = field(repr=False)
    untraceable: str = field(repr=False)

    @property
    def shared(self) -> tuple[str, ...]:
        """Layers that one forward pass calls more than once."""
        return tuple(view.name for view in self.layers if self.calls.count(view.name) > 1)

    def layer(self, name: str) -> AbstractLayerView:
        """The view of that name."""
        for view in self.layers:
            if view.name == name:
                return view
        raise UsageError(f"no layer {name!r}. Layers: {', '.join(view.name for view in self.layers)}.")


def wrap(model: nn.Module, *, example: Tensor | None = None, strict: bool = False) -> Network:
    """The view of a network: its layers in forward order and the account of all its tensors.

    The order comes from a symbolic trace of the forward pass, or where that fails from running
    ``example``; never from the order in which layers were declared.

    Args:
        model: The network; never changed.
        example: A batch of inputs, needed only if the network cannot be traced.
        strict: Refuse networks with tensors that are neither seen nor carried.

    Raises:
        UnsupportedLayerError: ``strict``, with all tensors that are not supported.
        ModelError: Weights are NaN, infinite or missing, or the order of the layers cannot be found.

    Example:
        >>> net = wrap(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
        >>> [layer.name for layer in net.layers], net.coverage.totals["seen"]
        (['0', '2'], 23)
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"wrap takes an nn.Module. Got {type(model).__name__}.")
    predictor = eval_twin(model)
    graph, untraceable = trace(predictor)
    if graph is not None:
        called = [str(node.target) for node in graph.nodes if node.op == "call_module"]
        calls = tuple(name for name in called if refusal_of(model.get_submodule(name)) is None)
    elif refusal_of(model) is None:
        calls = ("",)
    elif example is not None:
        calls = _calls_on(predictor, example)
    else:
        raise ModelError(
            f"the order in which {type(model).__name__} calls its layers is unknown: torch.fx cannot "
            f"trace it ({untraceable}). Pass example=, a batch of inputs to run once."
        )
    coverage = coverage_of(model, {model.get_submodule(name) for name in calls})
    if strict:
        coverage.require_complete()
    return Network(
        model=model,
        predictor=predictor,
        layers=tuple(view_of(name, model.get_submodule(name)) for name in dict.fromkeys(calls)),
        calls=calls,
        coverage=coverage,
        graph=graph,
        untraceable=untraceable,
    )


class _Tracer(fx.Tracer):
    """Keeps layers and listed kinds whole and looks into everything that contains other modules."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return recognised(m) or (
            super().is_leaf_module(m, module_qualified_name) and not any(True for _ in m.children())
        )


def trace(predictor: nn.Module) -> tuple[fx.Graph | None, str]:
    """The graph of a network's forward pass, or None and the reason why there is none."""
    if recognised(predictor):
        return None, "a single layer has no steps to trace; put it into an nn.Sequential"
    if predictor._forward_hooks or predictor._forward_pre_hooks:
        return None, "the model itself has forward hooks, which a trace does not contain"
    try:
        graph = _Tracer().trace(predictor)
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    return graph, ""


@dataclass(frozen=True, eq=False)
class LayerActivation:
    """What went in and out of one call of a layer.

    Attributes:
        name: The layer.
        input: What the layer was applied to, ``phi(x^{i-1})``.
        output: Its output before any activation, ``x^i``.
    """

    name: str
    input: Tensor = field(repr=False)
    output: Tensor = field(repr=False)


def activations(
    network: Network, x: Tensor, *, keep: Collection[str] | None = None
) -> tuple[LayerActivation, ...]:
    """Inputs and outputs of the layers on a batch, in the order of their calls; no gradients.

    Args:
        network: A wrapped network.
        x: A batch of inputs.
        keep: Names of the layers to record, so that memory is bounded; all when None.

    Example:
        >>> net = wrap(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
        >>> [tuple(a.output.shape) for a in activations(net, torch.zeros(5, 4))]
        [(5, 3), (5, 2)]
    """
    names = [view.name for view in network.layers if keep is None or view.name in keep]
    for name in keep or ():
        network.layer(name)
    kept: list[LayerActivation] = []

    def record(name: str, x: Tensor, output: Tensor) -> None:
        # copies, because a later in-place step would overwrite what was recorded
        kept.append(LayerActivation(name, x.clone(), output.clone()))

    _observe(network.predictor, x, names=names, record=record)
    return tuple(kept)


def _observe(
    predictor: nn.Module, x: Tensor, *, names: Collection[str], record: Callable[[str, Tensor, Tensor], None]
) -> None:
    """Runs the network and reports each call of the named layers; the hooks go whatever happens."""
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
    _observe(predictor, example, names=names, record=lambda name, *_: called.append(name))
    return tuple(called)
