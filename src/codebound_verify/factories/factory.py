"""Architectures outside the file (docs/format.md, section 5.2)."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..formulas import occam
from ..refusal import Refused
from .graph import Graph, trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..chain import Layout
    from ..evaluate import Evaluator
    from ..header import Architecture, Header
    from ..sample import Inputs
    from ..tensors import Floats

COMPARED = 256  # examples that are evaluated again
ALONE = 32  # of them, from all parts of the sample, come alone
PARTS = 7  # batches that the others are then in
CLOSE = 1e-6
FOREIGN = ("builtins", "torch", "typing", "abc")  # nobody wrote these for a certificate

Forward: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Made:
    """What a factory made: a module, and the graph that is checked, hashed and counted with.

    Without a graph there is ``untraced``, the reasons why, and the code itself has to be trusted.
    """

    module: nn.Module
    graph: Graph | None
    untraced: tuple[str, ...] = ()

    def forward(self, tensors: Mapping[str, Floats], dtype: torch.dtype = torch.float64) -> Forward:
        """The network g: the graph with the decoded tensors, or the module if its code is trusted."""
        if self.graph is None:
            return loaded(self.module, tensors, dtype)
        return _guarded(self.graph.function(cast(tensors, dtype)))

    def assumption(self, header: Header, sample: str) -> str:
        """What has to be true of it, in words."""
        assert header.architecture is not None
        name = header.architecture.name
        code = " and ".join(f"{file!r} (SHA-256 {sha})" for file, sha in sources(self.module))
        if self.graph is None:
            return (
                f"TRUSTED, not checked: the code of {code or repr(name)}, and all that it uses, holds "
                f"nothing that was learned from {sample} and computes each prediction from one example. "
                f"Without that the bound means nothing. It was not traced: {' '.join(self.untraced)}"
            )
        bits = self.graph.bits(has_base=header.base is not None)
        paid = occam(
            errors=header.errors, n=header.n, code_bits=header.code_bits + bits, delta=header.delta
        ).bound
        written = f"the Python code of {code} was written" if code else f"{name!r} was chosen"
        return (
            f"The architecture is the graph of SHA-256 {self.graph.sha256}; {written} without looking at "
            f"{sample}. Spelled out it takes {bits} bits; for who does not believe that, the bound is "
            f"{math.ceil(paid * 10**4) / 10**4}."
        )


def make(factory: Callable[..., nn.Module], header: Header, *, trust_code: bool) -> Made:
    """What a factory makes, if it is what the header names.

    Without a graph it is refused, unless its code is trusted: then the sources must be those of the header.
    """
    named = header.architecture
    assert named is not None
    module = build(factory, input_shape=header.input_shape, classes=header.classes)
    if not header.version.names_graph:
        _require_graph(parts_sha256(module), named)
    try:
        carried = tuple(message_state(module))
        made = Made(module, trace(module, input_shape=header.input_shape, carried=carried))
    except Refused as refused:
        if not trust_code:
            raise
        made = Made(module, None, refused.reasons)
    if not header.version.names_graph:
        return made
    if made.graph is not None and named.sha256 is not None:
        _require_graph(made.graph.sha256, named)
    elif not trust_code:
        raise Refused("Factory: the file names no graph of it: if you trust its code, give --trust-code.")
    elif not named.sources or sources(module) != named.sources:
        raise Refused(f"Factory: its code is {sources(module)}; the header names {named.sources}.")
    return made


def _require_graph(sha256: str, named: Architecture) -> None:
    if sha256 != named.sha256:
        raise Refused(
            f"Factory: its graph has SHA-256 {sha256}; the header names {named.name} with {named.sha256}."
        )


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


def parts_sha256(module: nn.Module) -> str:
    """The hash by which version 1 names a module: its parts, not what it does with them."""
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


def sources(module: nn.Module) -> tuple[tuple[str, str], ...]:
    """SHA-256 of the files that define the classes of a module, by Python module, without torch's own."""
    found = {}
    for kind in {kind for part in module.modules() for kind in type(part).__mro__}:
        name = kind.__module__
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and name.split(".")[0] not in FOREIGN:
            found[name] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return tuple(sorted(found.items()))


def loaded(module: nn.Module, tensors: Mapping[str, Floats], dtype: torch.dtype = torch.float64) -> Forward:
    """A copy of the module with the decoded tensors, which must still be there after loading."""
    try:
        module = copy.deepcopy(module).to(dtype=dtype, device="cpu")
        module.load_state_dict({**module.state_dict(), **cast(tensors, dtype)})
    except Exception as error:  # code of others again
        raise Refused(f"Factory: its module does not take the tensors: {_brief(error)}") from error
    for name, tensor in message_state(module).items():
        if not np.array_equal(tensor.numpy(), tensors[name]):
            raise Refused(f"Factory: tensor {name} shares memory with another one of different values.")
    return _guarded(module)


def cast(tensors: Mapping[str, Floats], dtype: torch.dtype) -> dict[str, Tensor]:
    """Decoded tensors as a network computes with them."""
    return {name: torch.from_numpy(array).to(dtype) for name, array in tensors.items()}


def _guarded(function: Callable[[Tensor], object]) -> Forward:
    """Code of others may fail in any way and return anything."""

    def forward(x: Tensor) -> Tensor:
        try:
            logits = function(x)
        except Exception as error:
            raise Refused(f"Factory: evaluating its module failed: {_brief(error)}") from error
        if not isinstance(logits, Tensor):
            raise Refused(f"Factory: its module returns {type(logits).__name__} instead of a tensor.")
        return logits.double()

    return forward


def check_function(module: Evaluator, graph: Evaluator | None, x: Inputs) -> None:
    """The module is a function of one example, and the one that its graph describes.

    A few hundred inputs, from all of ``x``, are evaluated again, in other company, and by the graph.
    """
    some = x[np.linspace(0, len(x) - 1, min(len(x), COMPARED)).astype(int)]
    first = _logits(module, [some], seed=0)
    reasons = []
    if _differ(first, _logits(module, [some], seed=1)):
        reasons.append(
            "Factory: its logits change from one evaluation to the next: it draws random numbers or "
            "remembers earlier calls, so g is no function of the example."
        )
    order = np.argsort(np.arange(len(some)) % PARTS, kind="stable")[::-1].copy()  # neighbours are apart
    parts = [*order[:ALONE, None], *np.array_split(order[ALONE:], PARTS)]
    batches = [some[part] for part in parts if len(part)]
    if not reasons and _differ(first[order], _logits(module, batches, seed=2)):
        reasons.append("Factory: its logits for an example depend on the rest of the batch.")
    if not reasons and graph is not None and _differ(first, _logits(graph, [some], seed=3)):
        reasons.append("Factory: its module does not compute what was traced: the code acts by other things.")
    if reasons:
        raise Refused(*reasons)


def _logits(network: Evaluator, batches: list[Inputs], *, seed: int) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.cat([logits for batch in batches for _, logits in network.logits(batch)])


def _differ(one: Tensor, other: Tensor) -> bool:
    """Whether a logit changes by more than a millionth of the largest one of its example."""
    close = (one - other).abs() <= CLOSE * one.abs().amax(1, keepdim=True)
    alike = close | (one == other) | (one.isnan() & other.isnan())
    return not bool(alike.all())


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
