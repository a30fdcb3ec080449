"""Every tensor a network holds, exactly once, wherever it is kept."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from codebound.errors import ModelError
from codebound.nets.kinds import recognised

TensorKind = Literal["parameter", "buffer", "attribute"]


@dataclass(frozen=True, slots=True, eq=False)
class HeldTensor:
    """One tensor and where it lives.

    Attributes:
        names: All its qualified names: more than one when modules share it.
        kind: ``attribute`` is a plain Python attribute, which ``state_dict`` does not see.
        owner_name: Qualified name of the module that holds it first.
        owner: That module.
        tensor: The tensor itself, not a copy.
        is_persistent: Whether ``state_dict`` contains it.
    """

    names: tuple[str, ...]
    kind: TensorKind
    owner_name: str
    owner: nn.Module
    tensor: Tensor
    is_persistent: bool

    @property
    def name(self) -> str:
        """Its first name."""
        return self.names[0]


def tensors_of(model: nn.Module) -> tuple[HeldTensor, ...]:
    """All parameters, buffers and plain tensor attributes, each tensor object once, in module order."""
    modules = list(model.named_modules(remove_duplicate=False))
    found: dict[int, HeldTensor] = {}
    for path, module in modules:
        for held in _registered(path, module):
            known = found.setdefault(id(held.tensor), held)
            if known is not held:
                found[id(held.tensor)] = replace(known, names=known.names + held.names)
    for path, module in modules:
        for held in _attributes(path, module):
            found.setdefault(id(held.tensor), held)
    lazy = [held.name for held in found.values() if is_lazy(held.tensor)]
    if lazy:
        raise ModelError(
            f"{type(model).__name__} has lazy layers without weights: {', '.join(lazy)}. "
            "Run the network once on an input, then pass it."
        )
    return tuple(found.values())


def forbidden_entries(held: HeldTensor, value: Tensor) -> int:
    """NaN and infinite entries that make ``value`` unusable in the place of ``held``."""
    if held.kind != "parameter" and not recognised(held.owner):
        return int(torch.isnan(value).sum())  # attention masks legitimately hold minus infinity
    return int((~torch.isfinite(value)).sum())


def _registered(path: str, module: nn.Module) -> Iterator[HeldTensor]:
    prefix = f"{path}." if path else ""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield HeldTensor((prefix + name,), "parameter", path, module, parameter, is_persistent=True)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            persistent = name not in module._non_persistent_buffers_set
            yield HeldTensor((prefix + name,), "buffer", path, module, buffer, is_persistent=persistent)


def _attributes(path: str, module: nn.Module) -> Iterator[HeldTensor]:
    prefix = f"{path}." if path else ""
    for name, value in vars(module).items():
        if name not in ("_parameters", "_buffers", "_modules"):
            for where, tensor in _inside(prefix + name, value, depth=4):
                yield HeldTensor((where,), "attribute", path, module, tensor, is_persistent=False)


def _inside(name: str, value: object, *, depth: int) -> Iterator[tuple[str, Tensor]]:
    """Tensors in a value, also inside modules and containers that PyTorch does not look into."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, nn.Module):
        for inner, tensor in (*value.named_parameters(), *value.named_buffers()):
            yield f"{name}.{inner}", tensor
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            yield from _inside(f"{name}[{key!r}]", item, depth=depth - 1)
    elif depth and isinstance(value, (list, tuple, set)):
        for index, item in enumerate(value):
            yield from _inside(f"{name}[{index}]", item, depth=depth - 1)
