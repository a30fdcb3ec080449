"""Every tensor a network holds, and new networks from a network and tensors. The original stays as it is."""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeGuard

import torch
from torch import Tensor, fx, nn
from torch.nn.parameter import is_lazy

from codebound.run.errors import ModelError
from codebound.run.tensor_files import dtype_name
from codebound_networks.views.kinds import is_recognised

TensorKind = Literal["parameter", "buffer", "attribute"]
PLAIN = "codebound: a plain network"
"""Mark of a plain network, in the way torch lets modules have one."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldTensor:
    """One tensor and where it lives."""

    names: tuple[str, ...]  # all its qualified names: more than one when modules share it
    kind: TensorKind  # ``attribute`` is a plain Python attribute, which ``state_dict`` does not see
    owner: nn.Module  # the module that holds it first
    tensor: Tensor  # the tensor itself, not a copy
    is_persistent: bool  # whether ``state_dict`` contains it

    @property
    def name(self) -> str:
        """Its first name."""
        return self.names[0]


def tensors_of(model: nn.Module) -> tuple[HeldTensor, ...]:
    """All parameters, buffers and plain tensor attributes, each tensor object once, in module order."""
    modules = list(model.named_modules(remove_duplicate=False))
    found: dict[int, HeldTensor] = {}
    for path, module in modules:
        for held in _list_registered(path, module):
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
    if value.is_floating_point() and value.numel() and all(map(math.isfinite, value.detach().aminmax())):
        return 0  # by its ends: large ones are looked at often, and a mask takes many times as long
    if held.kind != "parameter" and not is_recognised(held.owner):
        return int(torch.isnan(value).sum())  # attention masks legitimately hold minus infinity
    return int((~torch.isfinite(value)).sum())


def _list_registered(path: str, module: nn.Module) -> Iterator[HeldTensor]:
    prefix = f"{path}." if path else ""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield HeldTensor((prefix + name,), "parameter", module, parameter, is_persistent=True)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            persistent = name not in module._non_persistent_buffers_set
            yield HeldTensor((prefix + name,), "buffer", module, buffer, is_persistent=persistent)


def _attributes(path: str, module: nn.Module) -> Iterator[HeldTensor]:
    prefix = f"{path}." if path else ""
    for name, value in vars(module).items():
        if name not in ("_parameters", "_buffers", "_modules"):
            for where, tensor in _inside(prefix + name, value, depth=4):
                yield HeldTensor((where,), "attribute", module, tensor, is_persistent=False)


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


def with_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A new network like ``model`` that holds exactly these parameters and buffers.

    The result is in evaluation mode, on the device of ``model`` (or of ``tensors`` where ``model`` is on
    the meta device) and shares no tensor with either. Values are copied bit for bit. Pruning masks and
    reparametrisations are kept: their tensors go by their own names (``fc.weight_orig``, ``fc.weight_mask``).

    Args:
        model: The architecture; read only.
        tensors: Values by the names of ``model.state_dict()``. A tensor shared by several modules needs one
            of its names. Non-persistent buffers may be left out and then keep the model's values.

    Raises:
        ModelError: Names all tensors that are missing, unknown, of another shape or dtype, or not finite.

    >>> net = nn.Linear(2, 1)
    >>> zeros = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
    >>> with_weights(net, zeros)(torch.ones(1, 2)).item()
    0.0
    """
    held = tensors_of(model)
    problems = list(_problems(held, tensors))
    if problems:
        raise ModelError(
            f"these tensors do not fit {type(model).__name__}:\n  "
            + "\n  ".join(problems)
            + "\n  Names, shapes and dtypes must be those of model.state_dict()."
        )
    substitutes: dict[int, Tensor] = {}
    for own in held:
        given = next((tensors[name] for name in own.names if name in tensors), own.tensor)
        device = given.device if own.tensor.is_meta else own.tensor.device
        value = torch.empty(given.shape, dtype=given.dtype, device=device).copy_(given.detach())
        if isinstance(own.tensor, nn.Parameter):
            value = nn.Parameter(value, requires_grad=own.tensor.requires_grad)
        substitutes[id(own.tensor)] = value
    return copy_with(model, substitutes)


def eval_twin(model: nn.Module) -> nn.Module:
    """The same network in evaluation mode: its modules are copies, its tensors are the model's own.

    Hooks and mode changes on the twin never reach ``model``; weights changed in ``model`` reach the twin.
    """
    return copy_with(model, {id(held.tensor): held.tensor for held in tensors_of(model)})


def copy_with(model: nn.Module, substitutes: Mapping[int, Tensor]) -> nn.Module:
    """A copy of ``model`` in evaluation mode, with its tensors replaced by ``id``.

    Replacing instead of copying works where deepcopy alone does not: a pruned or weight-normalised layer
    keeps its weight as a computed tensor, which deepcopy refuses.
    """
    scripted = (name for name, part in model.named_modules() if isinstance(part, torch.jit.ScriptModule))
    if (name := next(scripted, None)) is not None:
        raise ModelError(
            f"{name or type(model).__name__} is a TorchScript program, whose layers cannot be read. "
            "Pass the nn.Module it was made from."
        )
    require_tensors(model)
    try:
        return copy.deepcopy(model, dict(substitutes)).eval()
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} cannot be copied, so it cannot be evaluated without touching it: "
            f"{_uncopyable(model, substitutes)} ({type(error).__name__}: {error}). "
            "Keep such objects outside the module, or give it a __deepcopy__."
        ) from error


def require_tensors(model: nn.Module) -> None:
    """Refuses a module whose numbers are packed into something else."""
    packed = next((name for name, value in model.state_dict().items() if not _is_stored(name, value)), None)
    if packed is not None:
        raise ModelError(
            f"{packed} of {type(model).__name__} is no tensor: quantised layers pack their numbers, and what "
            "they compute cannot be read. Pass the network as it was before; messages quantise on their own."
        )


def _is_stored(name: str, value: object) -> bool:
    """Return True if an entry of a state is a plain tensor or extra state."""
    return name.endswith("_extra_state") or (isinstance(value, Tensor) and not value.is_quantized)


def _uncopyable(model: nn.Module, substitutes: Mapping[int, Tensor]) -> str:
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name != "_modules":
                try:
                    copy.deepcopy(value, dict(substitutes))
                except Exception:
                    return f"attribute {name!r} of {path or 'the model itself'} ({type(module).__name__})"
    return "its own copy method fails"


def _problems(held: tuple[HeldTensor, ...], tensors: Mapping[str, Tensor]) -> Iterator[str]:
    known = [own for own in held if own.kind != "attribute"]
    for name in sorted(set(tensors) - {name for own in known for name in own.names}):
        yield f"{name}: the network has no such parameter or buffer"
    for own in known:
        given = [(name, tensors[name]) for name in own.names if name in tensors]
        if not given and (own.is_persistent or own.tensor.is_meta):
            yield f"{own.name}: missing"
        for name, value in given:
            if not isinstance(value, Tensor):
                yield f"{name}: expected a tensor, got {type(value).__name__}"
            elif value.shape != own.tensor.shape or value.dtype != own.tensor.dtype:
                yield f"{name}: expected {_describe(own.tensor)}, got {_describe(value)}"
            elif value.is_meta:
                yield f"{name}: has no values (it is on the meta device)"
            elif name != given[0][0] and not torch.equal(value, given[0][1]):
                yield f"{name}: the network shares it with {given[0][0]}, but their values differ"
            elif bad := forbidden_entries(own, value):
                yield f"{name}: {bad} of {value.numel()} entries are NaN or infinite"


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {dtype_name(tensor)}"


def first_weight(model: nn.Module) -> Tensor:
    """A weight with the precision and the device of inputs: the first one that is no integer or complex."""
    return next((each for each in model.parameters() if each.is_floating_point()), torch.zeros(()))


def is_plain(module: nn.Module) -> TypeGuard[fx.GraphModule]:
    """Return True for a plain network: operations are torch's, tensors are read by name."""
    return isinstance(module, fx.GraphModule) and PLAIN in module.meta


def unwrap(model: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    """The module inside of what torch wraps around it, and what was taken off, in sentences."""
    inside = model
    notes: list[str] = []
    while True:
        if hasattr(inside, "_orig_mod") and isinstance(inside._orig_mod, nn.Module):
            inside, what = inside._orig_mod, "torch.compile"
        elif isinstance(inside, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inside, what = inside.module, type(inside).__name__
        else:
            return inside, tuple(notes)
        notes.append(f"The network inside of {what} is taken.")
