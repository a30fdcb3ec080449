"""The forward pass of a network as a graph of steps, traced once for all who read it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from torch import fx

from codebound.run.errors import brief
from codebound_networks.views.kinds import is_recognised
from codebound_networks.views.rebuild import eval_twin, is_plain

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, eq=False)
class Traced:
    """A network and the trace of its forward pass, which is made when it is first asked for."""

    # the network; never changed, not even its mode. Whoever hands this on answers for it that nobody has
    # changed its layers or hooks since
    model: nn.Module
    # its trace, where that of another network serves: the graph, and why there is none
    known: tuple[fx.Graph | None, str] | None = None

    @cached_property
    def predictor(self) -> nn.Module:
        """The same network in evaluation mode: own modules, the caller's tensors."""
        return eval_twin(self.model)

    @property
    def graph(self) -> fx.Graph | None:
        """The traced forward pass, or None where there is none."""
        return self._trace[0]

    @property
    def untraceable(self) -> str:
        """Reason for a missing graph. It is empty when there is one."""
        return self._trace[1]

    @cached_property
    def _trace(self) -> tuple[fx.Graph | None, str]:
        return trace(self.predictor) if self.known is None else self.known

    def with_model(self, model: nn.Module) -> Traced:
        """Another network that takes the same steps, such as one with other weights: this trace serves."""
        nodes = () if self.graph is None else self.graph.nodes
        read = [str(node.target) for node in nodes if node.op == "get_attr"]
        # a plain network is a graph of its own; constants that a trace has met are in what was traced alone
        is_own = is_plain(model) or not all(_has(model, name) for name in read)
        is_own = is_own or any(_has_hooks(part) for part in model.modules())
        return Traced(model, None if is_own else self._trace)


def _has(model: nn.Module, name: str) -> bool:
    try:
        attrgetter(name)(model)
    except AttributeError:
        return False
    return True


class _Tracer(fx.Tracer):
    """Keeps layers and listed kinds whole and looks into everything that contains other modules."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return is_recognised(m) or (
            super().is_leaf_module(m, module_qualified_name) and not any(True for _ in m.children())
        )


def trace(predictor: nn.Module) -> tuple[fx.Graph | None, str]:
    """The graph of a network's forward pass, or None and the reason why there is none."""
    if is_recognised(predictor):
        return None, "a single layer has no steps to trace; put it into an nn.Sequential"
    if is_plain(predictor):
        return predictor.graph, ""
    hooked = next((name for name, part in predictor.named_modules() if _has_hooks(part)), None)
    if hooked is not None:
        return None, f"{hooked or 'the model itself'} has forward hooks, which a trace does not contain"
    try:
        graph = _Tracer().trace(predictor)
    except Exception as error:
        return None, brief(error).partition(". ")[0]
    return graph, ""


def _has_hooks(module: nn.Module) -> bool:
    """Return True if a hook may change inputs or outputs. Weight norms and masks of torch do not count."""
    before = module._forward_pre_hooks.values()
    return bool(module._forward_hooks) or any(
        not type(each).__module__.startswith("torch.nn.utils.") for each in before
    )
