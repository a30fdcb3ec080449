"""A plain network is compared with the module that it was read from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from codebound.run.errors import DependenceError, ModelError, brief
from codebound_networks.reading.callables import Adapter, quiet
from codebound_networks.reading.per_example import mixing_step

if TYPE_CHECKING:
    from codebound_networks.reading.export import Plain


def _in_one_precision(plain: Plain) -> nn.Module:
    real = {name: each.detach().double() for name, each in plain.tensors.items() if each.is_floating_point()}
    return replace(plain, tensors={**plain.tensors, **real}).module()


@torch.no_grad()
def require_same(plain: Plain, adapter: Adapter, x: Tensor, name: str, *, tolerance: float) -> None:
    """The plain network and the module agree: on batches of another size, again, and on examples alone."""
    random = torch.Generator().manual_seed(0)
    batch = torch.rand((3, *x.shape[1:]), generator=random).to(x)
    if adapter.is_whole:
        batch = (2 * batch).round()
    try:
        with quiet():
            mixing = mixing_step(plain.graph, plain.tensors, x)
            ours = _in_one_precision(plain)(batch.double())
            theirs = [adapter(batch.clone())]
            before = _numbers(adapter)
            theirs.append(adapter(batch.clone()))
            changed = [key for key, value in _numbers(adapter).items() if before.get(key) != value]
            theirs.append(torch.cat([adapter(one.clone()) for one in torch.split(batch, 1)]))
    except Exception as error:
        raise ModelError(
            f"{name} cannot be read for batches of every size: {brief(error)}. Its forward may not loop over "
            "the examples, nor reckon with their number."
        ) from error
    if mixing:
        raise DependenceError(
            f"{name} is no function of one example: its operation {mixing} looks at the rest of the batch, "
            "or at its size. Batch statistics become running statistics, or those of a norm of each example; "
            "sums, sorting and squeeze name the axes of an example."
        )
    if changed:
        raise DependenceError(
            f"{name} counts its calls: {', '.join(changed)} of it is another number after every one, and "
            "what it says may depend on that. Let it change under `if self.training` alone."
        )
    for found in theirs:
        near = tolerance * ours.abs().amax().nan_to_num() + 1e-12
        if found.shape != ours.shape or bool(((found.double() - ours).abs() > near).any()):
            raise ModelError(
                f"{name} is no function of one example: what it computes is not what torch reads in it. It "
                "draws random numbers, looks at the rest of the batch or remembers earlier calls. Dropout "
                "belongs in nn.Dropout or under `if self.training`; batch statistics are replaced by running "
                "statistics, or by a norm of each example."
            )


def _numbers(adapter: Adapter) -> dict[str, str]:
    """The numbers in plain attributes of a module and its parts. Of lists, how long they are."""
    return {
        f"{path}.{key}".removeprefix("."): repr(len(value) if isinstance(value, list) else value)
        for path, part in adapter.network.named_modules()
        for key, value in vars(part).items()
        if isinstance(value, int | float | list)
    }
