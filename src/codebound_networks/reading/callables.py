"""Somebody's module as a function of one tensor that returns its logits, and code of others run with care."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules import transformer

from codebound.run.errors import ModelError, brief
from codebound_networks.views.rebuild import eval_twin, first_weight, is_plain

if TYPE_CHECKING:
    from collections.abc import Iterator


class Adapter(nn.Module):
    """A module that takes floating-point inputs and returns its logits alone."""

    def __init__(self, network: nn.Module, classes: int | None) -> None:
        super().__init__()
        self.network = network
        self.classes = classes
        self.is_whole = False
        self.notes: list[str] = []

    def settle(self, x: Tensor, name: str) -> Tensor:
        """Finds out which inputs the network takes, and where its logits are. Returns such inputs."""
        failures: list[str] = []
        for kind in ("as they are", "integers", "float64"):
            self.is_whole = kind == "integers"
            try:
                if kind == "float64":
                    self.network, x = copy.deepcopy(self.network).double(), x.double()
                with torch.no_grad():
                    found = self.network(self._input(x))
            except Exception as error:  # code of others may fail in any way
                failures.append(brief(error))
                continue
            if self.is_whole:
                self.notes.append(f"{name} takes integers: inputs are rounded to the nearest.")
            self._find_logits(found, name)
            return x
        if self._takes_two(x):
            raise ModelError(
                f"{name} takes no example alone ({failures[0]}): what it says of one depends on the rest of "
                "the batch. Batch statistics become running statistics, or those of a norm of each example."
            )
        wants_integers = "Long" in failures[0]  # in torch's words
        raise ModelError(
            f"{name} fails on inputs of shape {tuple(x.shape)}: {failures[wants_integers]}. It must take one "
            "tensor, of floating-point numbers or of integers; wrap it in a module that does."
        )

    def _takes_two(self, x: Tensor) -> bool:
        for self.is_whole in (False, True):
            with contextlib.suppress(Exception), torch.no_grad():
                self.network(self._input(torch.cat((x, x))))
                return True
        return False

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        return self._logits(self.network(self._input(x)))

    def _input(self, x: Tensor) -> Tensor:
        return x.round().to(torch.int64) if self.is_whole else x.clone()  # some work on it in place

    def _find_logits(self, output: object, name: str) -> None:
        parts = dict(_parts(output))
        if isinstance(output, Tensor):
            self.key: str | None = None
        elif "logits" in parts:
            self.key = "logits"
        else:
            fitting = [
                key for key, part in parts.items() if part.dim() == 2 and part.shape[1] == self.classes
            ]
            if len(fitting) != 1:
                shapes = (
                    ", ".join(f"{key} of shape {tuple(part.shape)}" for key, part in parts.items())
                    or "no tensor"
                )
                raise ModelError(
                    f"{name} returns a {type(output).__name__} with {shapes}: which of them are the logits "
                    "is unknown. Return them alone, or under the name logits."
                )
            (self.key,) = fitting
        if self.key is not None:
            self.notes.append(
                f"{name} returns a {type(output).__name__}: its {self.key} is taken for the logits."
            )

    def _logits(self, output: Any) -> Tensor:
        return output if self.key is None else dict(_parts(output))[self.key]


def output_shape(inside: nn.Module, example: Tensor) -> tuple[int, ...]:
    """The shape of what a network that can be read makes of one example."""
    if is_plain(inside):
        (output,) = (node.args[0] for node in inside.graph.nodes if node.op == "output")
        return (1, *output.meta["val"].shape[1:])
    with torch.no_grad():
        return tuple(eval_twin(inside)(example).shape)


def runs_on(model: nn.Module, input_shape: tuple[int, ...], classes: int) -> bool:
    """Return True if a network takes such inputs and returns a logit for each class."""
    first = first_weight(model)
    try:
        adapter = Adapter(copy.deepcopy(model).eval(), classes)
        x = adapter.settle(torch.zeros(1, *input_shape, dtype=first.dtype, device=first.device), "it")
        with torch.no_grad():
            return bool(adapter(x).shape == (1, classes))
    except Exception:  # code of others may fail in any way
        return False


def _parts(output: object) -> Iterator[tuple[str, Tensor]]:
    """The tensors that an output consists of, by name or by position."""
    items: Any = ()
    if isinstance(output, Mapping):
        items = output.items()
    elif hasattr(output, "_asdict"):
        items = output._asdict().items()
    elif isinstance(output, list | tuple):
        items = ((f"output {i}", part) for i, part in enumerate(output))
    elif hasattr(output, "__dict__"):
        items = vars(output).items()
    return ((str(key), part) for key, part in items if isinstance(part, Tensor))


def _is_said_causal(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    return is_causal is True


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the notes of torch to programmers of a module. Every layer by itself, none of them fused."""
    before, fast = logging.root.manager.disable, torch.backends.mha.get_fastpath_enabled()
    detect = transformer._detect_is_causal_mask
    try:
        logging.disable(logging.ERROR)
        torch.backends.mha.set_fastpath_enabled(False)
        # a hint for fused attention, which torch gets by comparing the numbers of a mask
        transformer._detect_is_causal_mask = _is_said_causal
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
        torch.backends.mha.set_fastpath_enabled(fast)
        transformer._detect_is_causal_mask = detect
