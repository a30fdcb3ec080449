"""From a module to a chain: which operations a network computes, in order, and with which tensors."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import fx, nn

from codebound.run.errors import ModelError, UnsupportedLayerError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import OPERATIONS, AveragePool, GlobalAveragePool
from codebound_networks.chains.shifts import MeanOverShifts
from codebound_networks.views.fold import fold_batch_norms
from codebound_networks.views.graphs import Traced
from codebound_networks.views.kinds import kind_of
from codebound_networks.views.rebuild import first_weight, is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from codebound_networks.chains.operations import AbstractOperation


def chain_of(
    model: nn.Module | Traced,
    input_shape: tuple[int, ...],
    *,
    plain: Callable[[], nn.Module] | None = None,
) -> tuple[Chain, dict[str, Tensor]]:
    """The chain that computes the same function, and its tensors. Batch norms are folded first.

    What counts is what a network computes: one that is no chain as it is written is read with torch.export.

    Args:
        model: The network, traced or not; never changed.
        input_shape: Shape of one input.
        plain: Reads it with torch.export, for whoever needs the result too.

    Raises:
        UnsupportedLayerError: The network is no chain; the message names the first step that does not fit.

    >>> from codebound_networks.views.zoo import build
    >>> chain, tensors = chain_of(build("mlp:widths=5", input_shape=(1, 8, 8), classes=3), (1, 8, 8))
    >>> chain.operations
    (Linear(out=5, bias=True), Linear(out=3, bias=True))
    >>> list(tensors)
    ['0.weight', '0.bias', '1.weight', '1.bias']
    """
    traced = model if isinstance(model, Traced) else Traced(model)
    refusal: ModelError | None = None
    if is_plain(traced.model) or isinstance(traced.model, nn.Sequential):
        try:
            return _chain_of(traced, input_shape)
        except ModelError as as_written:
            if is_plain(traced.model):
                raise
            refusal = as_written
    from codebound_networks.reading.layer_modules import plain_layers

    try:
        found = plain_layers(traced.model, blank(traced.model, input_shape)) if plain is None else plain()
        return _chain_of(Traced(found), input_shape)
    except ModelError as as_read:
        raise (refusal or as_read) from None


def blank(model: nn.Module, input_shape: tuple[int, ...]) -> Tensor:
    """One input of zeros, of the type and in the place of the network's numbers."""
    first = first_weight(model)
    return torch.zeros(1, *input_shape, dtype=first.dtype, device=first.device)


def _chain_of(traced: Traced, input_shape: tuple[int, ...]) -> tuple[Chain, dict[str, Tensor]]:
    folded = fold_batch_norms(traced).model
    operations: list[AbstractOperation] = []
    tensors: dict[str, Tensor] = {}
    open_layer, is_rectified = "", False  # a layer whose ReLU has not come yet; whether values are >= 0
    for name, module in _steps(folded):
        if isinstance(module, nn.Dropout | nn.Identity | MeanOverShifts) or _is_plain_flatten(module):
            continue
        if open_layer and (joined := _join(name, operations[-1], module)):
            operations[-1] = joined
            continue
        if isinstance(module, nn.ReLU):
            if not open_layer and not is_rectified:
                raise UnsupportedLayerError(
                    f"{name}: a ReLU in front of the first layer is no part of a chain."
                )
            open_layer, is_rectified = "", True
            continue
        if open_layer:
            raise UnsupportedLayerError(
                f"{open_layer}: a layer of a chain is followed by a ReLU, not by {name}."
            )
        operation = _operation(name, module)
        for part, value in operation.tensors_of(module).items():
            tensors[f"{len(operations)}.{part}"] = value.detach().clone()
        operations.append(operation)
        if operation.relu_follows:
            open_layer, is_rectified = name, False
        is_rectified |= operation.relu_inside
    if not open_layer:
        raise UnsupportedLayerError("a chain ends with a linear layer and no ReLU behind it.")
    chain = Chain(tuple(input_shape), tuple(operations))
    if is_plain(folded):  # whoever wrote it; a network that says how it pools is read as it says
        chain = _with_global_pools(chain)
    for name, shape in chain.tensor_shapes().items():
        if name not in tensors:
            raise UnsupportedLayerError(f"tensor {name} of the chain is computed from others.")
        if tuple(tensors[name].shape) != shape:
            raise ModelError(
                f"tensor {name} of the chain has shape {tuple(tensors[name].shape)}; on inputs of shape "
                f"{tuple(input_shape)} it needs {shape}. A linear layer of a chain reads the flattened input."
            )
    ordered = {name: tensors[name] for name in chain.tensor_shapes()}
    _check_same_function(folded, chain, ordered)
    return chain, ordered


def _with_global_pools(chain: Chain) -> Chain:
    """The same, where an average over all pixels is called by its name."""
    operations = tuple(
        GlobalAveragePool()
        if operation == AveragePool(shape[-1]) and shape[-2:] == (shape[-1],) * 2
        else operation
        for operation, shape in zip(chain.operations, chain.input_shapes(), strict=True)
    )
    return Chain(chain.input_shape, operations)


@torch.no_grad()
def _check_same_function(model: nn.Module, chain: Chain, tensors: Mapping[str, Tensor]) -> None:
    """Subclasses, hooks and unread options can make a layer compute something else: two inputs tell."""
    inputs = torch.randn(2, *chain.input_shape, generator=torch.Generator().manual_seed(0))
    ours = chain.build({name: tensor.cpu().double() for name, tensor in tensors.items()})(inputs.double())
    theirs = copy.deepcopy(model).cpu().double()(inputs.double())
    if theirs.shape != ours.shape or not torch.allclose(ours, theirs, rtol=1e-6, atol=1e-9, equal_nan=True):
        raise UnsupportedLayerError(
            f"{type(model).__name__} computes something else than the chain of its layers "
            f"({', '.join(str(row[0]) for row in chain.describe())}), so a message cannot describe it."
        )


def _is_plain_flatten(module: nn.Module) -> bool:
    return isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) == (1, -1)


def _steps(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The modules of a plain network or a sequence in forward order. Blocks of the zoo stay whole."""
    if isinstance(model, fx.GraphModule):
        from codebound_networks.chains.blocks import plain_steps

        return list(plain_steps(model))
    return [
        (f"{name}.{inner}".rstrip("."), step)
        for name, child in model._modules.items()  # named_children would skip what occurs twice
        if child is not None
        for inner, step in (_steps(child) if isinstance(child, nn.Sequential) else [("", child)])
    ]


def _operation(name: str, module: nn.Module) -> AbstractOperation:
    for operation in OPERATIONS.values():
        if found := operation.of_module(module):
            return found
    what = (
        "a batch norm that follows no layer does not fold into one"
        if kind_of(module).name == "batch norm"
        else module
    )
    raise UnsupportedLayerError(
        f"{name} ({what}): a chain has linear layers, square convolutions without groups or dilation, pools "
        "without overlap, and residual blocks."
    )


def _join(name: str, layer: AbstractOperation, module: nn.Module) -> AbstractOperation | None:
    """The operation that a layer is together with the module behind it, if there is one."""
    try:
        found = (operation.join(layer, module) for operation in OPERATIONS.values())
        return next((joined for joined in found if joined), None)
    except UnsupportedLayerError as reason:
        raise UnsupportedLayerError(f"{name}: {reason}") from reason
