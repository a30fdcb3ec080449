"""The steps of a plain network as modules of a chain. Residual blocks are known by what they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from codebound.run.errors import UnsupportedLayerError
from codebound_networks.chains.modules import FoldedBlock
from codebound_networks.views.kinds import arguments_of

if TYPE_CHECKING:
    from collections.abc import Iterator

aten = torch.ops.aten

_RESHAPES = {
    aten.reshape.default,
    aten.flatten.using_ints,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.squeeze.default,
}
_SHORTCUTS = {aten.pad.default, aten.constant_pad_nd.default, aten.slice.Tensor, aten.alias.default}


def plain_steps(module: fx.GraphModule) -> Iterator[tuple[str, nn.Module]]:
    """Names and modules of the steps from the input to the output, one after the other.

    Raises:
        UnsupportedLayerError: A step is none of a chain, or uses an earlier result in another way than a
            residual block does; the message names it.
    """
    node = next(node for node in module.graph.nodes if node.op == "placeholder")
    while not any(user.op == "output" for user in node.users):
        users = _readers(node)
        if len(users) == 1:
            node = users[0]
            step = _step(node, module)
            if not isinstance(step, nn.Identity):
                yield _name(node), step
        else:
            name, block, node = _block(node, module)
            yield name, block


def _readers(node: fx.Node) -> list[fx.Node]:
    """The operations that compute with a result. Its sizes and its type are no part of it."""
    return [user for user in node.users if user.target not in (getattr, aten.sym_size.int)]


def _name(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_module" else node.name


def _step(node: fx.Node, module: fx.GraphModule) -> nn.Module:
    """The module that does the same as one operation."""
    if node.op == "call_module":
        return module.get_submodule(str(node.target))
    if node.target in _RESHAPES and len(node.meta["val"].shape) == 2:
        return nn.Flatten()
    arguments = arguments_of(node)
    match node.target:
        case aten.relu.default:
            return nn.ReLU()
        case aten.max_pool2d.default | aten.avg_pool2d.default:
            kind: Any = nn.MaxPool2d if node.target is aten.max_pool2d.default else nn.AvgPool2d
            keys = (
                "kernel_size",
                "stride",
                "padding",
                "ceil_mode",
                "dilation",
                "count_include_pad",
                "divisor_override",
            )
            settings = {key: _plain(arguments[key]) for key in keys if arguments.get(key) not in ([], None)}
            return kind(**settings)  # type: ignore[no-any-return]
        case aten.adaptive_avg_pool2d.default:
            return nn.AdaptiveAvgPool2d(_plain(arguments["output_size"]))
        case aten.mean.dim:
            axes = {axis % 4 for axis in arguments["dim"]}
            if len(_first(node).meta["val"].shape) == 4 and axes == {2, 3}:
                return nn.AdaptiveAvgPool2d(1)
    raise UnsupportedLayerError(
        f"{_name(node)} ({node.target}): a chain has linear layers, square convolutions without groups or "
        "dilation, ReLUs, pools without overlap, and residual blocks."
    )


def _plain(value: Any) -> Any:
    """A size for all axes where they are equal."""
    if not isinstance(value, list | tuple):
        return value
    return value[0] if len(set(value)) == 1 else tuple(value)


def _first(node: fx.Node) -> fx.Node:
    first = node.args[0]
    assert isinstance(first, fx.Node)
    return first


def _block(start: fx.Node, module: fx.GraphModule) -> tuple[str, nn.Module, fx.Node]:
    """The residual block that begins behind a result that is read twice, with its name and its last step.

    Sizes and the shortcut are not looked at any closer: whoever reads a chain compares what it computes.
    """
    readers = ", ".join(map(_name, _readers(start)))
    refusal = UnsupportedLayerError(
        f"{_name(start)}: its result is read more than once ({readers}), and not as in a residual "
        "block, ReLU(b(ReLU(a(x))) + shortcut(x)) with two convolutions."
    )
    for reader in _readers(start):
        path = [reader]
        while path[-1].target is not aten.add.Tensor and len(_readers(path[-1])) == 1:
            path.append(_readers(path[-1])[0])
        steps = [
            module.get_submodule(str(node.target)) if node.op == "call_module" else node.target
            for node in path
        ]
        kept = [step for step in steps if not isinstance(step, nn.Identity)]
        match kept:
            case [nn.Conv2d() as a, aten.relu.default, nn.Conv2d() as b, aten.add.Tensor]:
                pass
            case _:
                continue
        end = path[-1]
        after = _readers(end)
        others = [value for value in end.args[:2] if value is not path[-2]]
        if len(after) != 1 or after[0].target is not aten.relu.default or len(others) != 1:
            raise refusal
        shortcut = others[0]
        while isinstance(shortcut, fx.Node) and (
            shortcut.target in _SHORTCUTS or _is_identity(shortcut, module)
        ):
            shortcut = _first(shortcut)
        if shortcut is not start:
            raise refusal
        return _name(end), _fold_block(a, b), after[0]
    raise refusal


def _is_identity(node: fx.Node, module: fx.GraphModule) -> bool:
    return node.op == "call_module" and isinstance(module.get_submodule(str(node.target)), nn.Identity)


def _fold_block(a: nn.Conv2d, b: nn.Conv2d) -> nn.Module:
    has_bias = a.bias is not None or b.bias is not None
    with torch.device("meta"):
        block = FoldedBlock(a.in_channels, a.out_channels, bias=has_bias)
    for ours, theirs in ((block.a, a), (block.b, b)):
        if ours.weight.shape != theirs.weight.shape:
            raise UnsupportedLayerError(f"a residual block has two convolutions of 3 x 3, not {theirs}.")
        ours.weight = theirs.weight
        if has_bias:
            zeros = torch.zeros(len(theirs.weight), dtype=theirs.weight.dtype, device=theirs.weight.device)
            ours.bias = nn.Parameter(zeros) if theirs.bias is None else theirs.bias
    return block
