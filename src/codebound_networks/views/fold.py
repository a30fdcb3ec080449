"""Batch norms folded into the layers before them."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from codebound.run.errors import ModelError, UnsupportedLayerError
from codebound.run.references import implements
from codebound_networks.views.graphs import Traced
from codebound_networks.views.kinds import kind_of
from codebound_networks.views.layers import refusal_of
from codebound_networks.views.rebuild import tensors_of, with_weights


@dataclass(frozen=True, eq=False)
class Folding:
    """A network whose batch norms were folded as far as possible."""

    # A new network in evaluation mode; a folded batch norm is an ``nn.Identity`` in it
    model: nn.Module = field(repr=False)
    folded: tuple[tuple[str, str], ...]  # pairs of batch norm and the layer it went into
    kept: tuple[tuple[str, str], ...]  # pairs of batch norm and the reason why it stays


@implements("A-E20:fold", kind="algorithm")
def fold_batch_norms(model: nn.Module | Traced, *, strict: bool = False) -> Folding:
    r"""A new network in which batch norms are part of the layers they follow.

    Statement.  In evaluation mode ``BN(W x + b) = W' x + b'`` with ``s = gamma / sqrt(var + eps)``,
                ``W' = s W`` (row by row) and ``b' = s (b - mean) + beta``, for linear layers and for
                convolutions with any padding.
    Reference.  A-E20: noise stability is defined for networks without batch norm.
    Needs.      The batch norm is all that uses the layer's output, in the traced graph. A batch norm before
                a convolution does not fold exactly, because padding comes in between: it is kept.

    Args:
        model: The network, traced or not; never changed.
        strict: Refuse networks in which some batch norm has to be kept.

    Raises:
        ModelError: A batch norm has no running statistics, so that the prediction for an input depends on
            the other inputs of its batch; or the network cannot be traced.
        UnsupportedLayerError: ``strict``, with every batch norm that does not fold and why.

    >>> net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.ReLU())
    >>> fold_batch_norms(net).folded
    (('1', '0'),)
    """
    traced = model if isinstance(model, Traced) else Traced(model)
    model = traced.model
    norms = {name: module for name, module in model.named_modules() if kind_of(module).name == "batch norm"}
    _require_statistics(norms)
    graph = _graph_of(traced) if norms else fx.Graph()
    tensors = tensors_of(model)
    tied = {id(held.tensor) for held in tensors if len(held.names) > 1}
    folded, kept = [], []
    for name in norms:
        layer, reason = _layer_before(name, model, graph=graph, tied=tied)
        if reason:
            kept.append((name, reason))
        else:
            folded.append((name, layer))
    if strict and kept:
        raise UnsupportedLayerError(
            "these batch norms do not fold into a layer:\n  "
            + "\n  ".join(f"{name}: {reason}" for name, reason in kept)
        )
    result = with_weights(model, {held.name: held.tensor for held in tensors if held.kind != "attribute"})
    for name, layer in folded:
        norm = result.get_submodule(name)
        _absorb(result.get_submodule(layer), norm)
        _replace(result, norm, nn.Identity())
    return Folding(model=result, folded=tuple(folded), kept=tuple(kept))


def describe_folding(model: nn.Module) -> tuple[str, ...]:
    """Describe the folding of batch norms by a certificate, if there are any."""
    names = [name for name, part in model.named_modules() if isinstance(part, _BatchNorm)]
    if not names:
        return ()
    which = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return (f"Batch norms are folded ({which}): a method that trains anew does so without them.",)


def has_batch_norms(model: nn.Module) -> bool:
    """Return True if there is any batch norm to fold."""
    return any(kind_of(module).name == "batch norm" for module in model.modules())


def _require_statistics(norms: dict[str, Any]) -> None:
    without = [name for name, module in norms.items() if module.running_mean is None]
    if without:
        raise ModelError(
            f"batch norms without running statistics: {', '.join(without)}. They normalise with the batch "
            "they are given, so the prediction for an input depends on the other inputs. Train them with "
            "track_running_stats=True."
        )


def _graph_of(traced: Traced) -> fx.Graph:
    if traced.graph is None:
        raise ModelError(
            f"what the batch norms of {type(traced.model).__name__} follow is unknown: torch.fx cannot trace "
            f"it ({traced.untraceable})."
        )
    return traced.graph


def _layer_before(name: str, model: nn.Module, *, graph: fx.Graph, tied: set[int]) -> tuple[str, str]:
    """The layer that a batch norm directly follows, and why it does not fold into it ("" if it does)."""
    calls = _calls(graph, name)
    if len(calls) != 1:
        return "", f"it is called {len(calls)} times"
    (source,) = calls[0].all_input_nodes
    layer = str(source.target)
    if source.op != "call_module" or kind_of(model.get_submodule(layer)).name != "layer":
        return "", f"it follows {source.name}, not a layer"
    module: Any = model.get_submodule(layer)
    if refusal := refusal_of(module):
        return layer, f"it follows {layer}: {refusal}"
    if len(source.users) > 1 or len(_calls(graph, layer)) > 1:
        return layer, f"the output of {layer} is also used elsewhere"
    read = any(node.op == "get_attr" and str(node.target).rpartition(".")[0] == layer for node in graph.nodes)
    if read or {id(module.weight), id(module.bias)} & tied:
        return layer, f"the weights of {layer} are also used elsewhere"
    if model.get_submodule(name).num_features != len(module.weight):
        return layer, f"it does not normalise the {len(module.weight)} outputs of {layer}"
    return layer, ""


def _calls(graph: fx.Graph, name: str) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "call_module" and node.target == name]


@torch.no_grad()
def _scale_and_shift(norm: Any) -> tuple[Tensor, Tensor]:
    """Return the scale and the shift of a batch norm."""
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale *= norm.weight.double()
    shift = -norm.running_mean.double() * scale
    return scale, shift if norm.bias is None else shift + norm.bias.double()


@torch.no_grad()
def _absorb(layer: Any, norm: Any) -> None:
    dtype = layer.weight.dtype
    scale, bias = _scale_and_shift(norm)
    if layer.bias is not None:
        bias = bias + layer.bias.double() * scale
    rows = (-1, *([1] * (layer.weight.dim() - 1)))
    layer.weight.copy_((layer.weight.double() * scale.view(rows)).to(dtype))
    layer.bias = nn.Parameter(bias.to(dtype), requires_grad=layer.weight.requires_grad)


def _replace(root: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Puts ``new`` wherever ``old`` is registered, also under a second name."""
    for module in list(root.modules()):
        for name, child in list(module._modules.items()):
            if child is old:
                setattr(module, name, new)
