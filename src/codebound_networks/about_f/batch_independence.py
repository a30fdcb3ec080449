"""Check that a network is a function of one example. A certificate says nothing about any other.

Random numbers, a memory of earlier calls and statistics of the batch all make the errors that were counted
those of one run, which no new example will see again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from codebound.run.errors import DependenceError, ModelError, brief
from codebound_networks.reading.walk import readable
from codebound_networks.views.rebuild import first_weight, with_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from codebound.sample.dataset import Sample

_EXAMPLES = 256
_ALONE = 32  # of them, from all parts, are evaluated one by one
_TOLERANCE = 1e-6


@torch.no_grad()
def require_one_example(module: nn.Module, sample: Sample) -> None:
    """Refuses a network whose logits for an example depend on anything but the example.

    Args:
        module: The network; read only. Its operations are looked at where they can be read.
        sample: A few hundred of its examples are evaluated.

    Raises:
        ModelError: What they depend on, and what to do about it.
    """
    network = with_weights(module, module.state_dict()).cpu().double()
    chosen = np.unique(np.linspace(0, sample.n - 1, _EXAMPLES).round().astype(np.int64))
    data = sample.select(chosen, role=sample.role).on("cpu")
    (x, _), *_ = data.chunks(len(chosen), torch.float64)
    first = _logits(network, [x], seed=1)
    _require_same(
        first,
        _logits(network, [x], seed=2),
        "its logits change when the same examples are evaluated again: it draws random numbers, or remembers "
        "earlier calls. Dropout belongs in nn.Dropout or under `if self.training`.",
    )
    order = torch.arange(len(x)).flip(0)
    alone = order[:: max(1, len(x) // _ALONE)][:_ALONE]
    others = order[~torch.isin(order, alone)]
    batches = [*torch.split(x[alone], 1), *([x[others]] if len(others) else [])]
    _require_same(
        first[torch.cat((alone, others))],
        _logits(network, batches, seed=3),
        "its logits for an example depend on the rest of the batch. Replace what looks at the batch, such as "
        "batch statistics in evaluation mode, by running statistics or by a norm of each example.",
    )
    _require_no_dependence(module, sample)


def _require_no_dependence(module: nn.Module, sample: Sample) -> None:
    """Refuse a module with an operation that looks at the batch.

    A few examples do not show it, if it looks for rare values.
    """
    first = first_weight(module)
    example = torch.zeros(1, *sample.input_shape, dtype=first.dtype, device=first.device)
    try:
        readable(module, example, classes=sample.classes)
    except DependenceError:
        raise
    except ModelError:  # of code that cannot be read only examples tell
        return


def _logits(network: nn.Module, batches: Sequence[Tensor], *, seed: int) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return torch.cat([network(batch.clone()) for batch in batches])
        except Exception as error:  # code of others may fail in any way
            raise ModelError(
                f"the network fails on some batches of the sample: {brief(error)}. It must take examples as "
                "floating-point numbers, alone and in batches of every size."
            ) from error


def _require_same(one: Tensor, other: Tensor, problem: str) -> None:
    scale = one.abs().amax(dim=1, keepdim=True)
    apart = ~((one - other).abs() <= _TOLERANCE * scale) & ~(one.isnan() & other.isnan()) & (one != other)
    if bool(apart.any()):
        count = int(apart.any(dim=1).sum())
        raise DependenceError(
            f"this network is no function of one example: {problem}\n  The logits of {count} of {len(one)} "
            "examples differ by more than a millionth; no certificate can be about such a network."
        )
