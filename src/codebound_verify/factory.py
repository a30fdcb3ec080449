"""Architectures outside the file (docs/format.md, section 5.2)."""

from __future__ import annotations

import hashlib
import inspect
import json
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .chain import Layout
    from .tensors import Floats


def build(factory: Callable[..., nn.Module], *, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The module of a factory in evaluation mode, if every tensor it has is one that a message can name.

    The factory is called with those of the keywords ``input_shape`` and ``classes`` that it takes.
    """
    offered = {"input_shape": input_shape, "classes": classes}
    try:
        taken = inspect.signature(factory).parameters
        module = factory(**{key: value for key, value in offered.items() if key in taken})
    except Exception as error:  # the user's code may fail in any way
        raise Refused(f"Factory: calling it failed: {_brief(error)}") from error
    if not isinstance(module, nn.Module):
        raise Refused(f"Factory: it returned {type(module).__name__}; a torch.nn.Module is needed.")
    module.eval()
    state = module.state_dict()
    for name, part in module.named_modules():
        if part.training:
            raise Refused(f"Factory: module {name or '(whole)'} stays in training mode.")
        if isinstance(part, _BatchNorm) and part.running_mean is None:
            raise Refused(f"Factory: {name} normalises with the statistics of the batch.")
    for name, _ in (*module.named_parameters(), *module.named_buffers()):
        if name not in state:
            raise Refused(f"Factory: tensor {name} is not in the state dict, so no message can carry it.")
    for name, tensor in message_state(module).items():
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or not tensor.numel():
            raise Refused(f"Factory: {name} in the state dict is no floating-point tensor with elements.")
    return module


def graph_sha256(module: nn.Module) -> str:
    """The hash of a module without the values of its tensors."""
    parts: list[list[object]] = [
        [name, f"{type(part).__module__}.{type(part).__qualname__}", part.extra_repr()]
        for name, part in module.named_modules()
    ]
    parts += [[name, str(tensor.dtype), list(tensor.shape)] for name, tensor in module.state_dict().items()]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def message_state(module: nn.Module) -> dict[str, Tensor]:
    """The state dict without the batch counters of batch normalisations, which evaluation does not read."""
    counters = {
        f"{name}.num_batches_tracked".lstrip(".")
        for name, part in module.named_modules()
        if isinstance(part, _BatchNorm)
    }
    return {name: tensor for name, tensor in module.state_dict().items() if name not in counters}


def state_layout(module: nn.Module) -> Layout:
    """Names and shapes of the tensors of a message, in the order of the state dict."""
    return tuple((name, tuple(tensor.shape)) for name, tensor in message_state(module).items())


def loaded(module: nn.Module, tensors: Mapping[str, Floats]) -> Callable[[Tensor], Tensor]:
    """The module in float64 with the decoded tensors, which must still be there after loading."""
    module = module.double().cpu()
    values = {name: torch.from_numpy(array) for name, array in tensors.items()}
    module.load_state_dict({**module.state_dict(), **values})
    for name, tensor in message_state(module).items():
        if not np.array_equal(tensor.numpy(), tensors[name]):
            raise Refused(f"Factory: tensor {name} shares memory with another one of different values.")

    def forward(x: Tensor) -> Tensor:
        try:
            logits = module(x)
        except Exception as error:
            raise Refused(f"Factory: evaluating its module failed: {_brief(error)}") from error
        if not isinstance(logits, Tensor):
            raise Refused(f"Factory: its module returns {type(logits).__name__} instead of a tensor.")
        return logits.double()

    return forward


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
