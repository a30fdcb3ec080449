"""New networks from a network and tensors, without touching the original."""

import copy
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from codebound.errors import ModelError
from codebound.nets.tensors import HeldTensor, forbidden_entries, tensors_of


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

    Example:
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
    if isinstance(model, torch.jit.ScriptModule):
        raise ModelError(
            f"{type(model).__name__} is a TorchScript program, whose layers cannot be read. "
            "Pass the nn.Module it was made from."
        )
    try:
        return copy.deepcopy(model, dict(substitutes)).eval()
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} cannot be copied, so it cannot be evaluated without touching it: "
            f"{_uncopyable(model, substitutes)} ({type(error).__name__}: {error}). "
            "Keep such objects outside the module, or give it a __deepcopy__."
        ) from error


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
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
