"""Passes over a sample in random order, and steps of Adam: the loop that all small trainings share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from codebound.run.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor

    from codebound.run.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Schedule of passes over a sample: number, batches and order."""

    n: int  # examples in the sample
    epochs: int  # passes over it
    batch_size: int  # examples per step
    order: torch.Generator  # shuffles the examples anew for every pass
    drops_rest: bool = False  # whether the examples that do not fill a batch are left out of their pass

    @property
    def steps(self) -> int:
        """Steps of all passes together."""
        each = self.n // self.batch_size if self.drops_rest else math.ceil(self.n / self.batch_size)
        return self.epochs * each

    def run(
        self,
        step: Callable[[int, Tensor], Tensor],
        *,
        device: torch.device,
        activity: str,
        progress: Progress,
    ) -> None:
        """Makes all steps: each is called with the steps done and the places of the next examples.

        A step returns its loss; ``activity`` says in the message when it may fail to be finite.

        Raises:
            ModelError: The loss is not finite at the end of a pass.
        """
        done = 0
        for _ in range(self.epochs):
            shuffled = torch.randperm(self.n, generator=self.order).to(device)
            for indices in torch.split(shuffled, self.batch_size)[: self.steps // self.epochs]:
                loss = step(done, indices)
                done += 1
            last = float(loss.detach())
            if not math.isfinite(last):
                raise ModelError(f"the loss became {last} {activity}. Try a smaller learning rate.")
            progress(done, self.steps, f"loss {last:.3f}")


def adam(parameters: Iterable[Tensor]) -> Callable[[float], None]:
    """Adam with its usual constants: a function that makes a step at a rate and takes the gradients away."""
    optimizer = torch.optim.Adam(parameters)

    def step(rate: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()

    return step


def half_cosine(part: float) -> float:
    """A factor that falls from 1 to 0 as ``part`` of a training goes from 0 to 1.

    >>> [round(half_cosine(part), 3) for part in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    return 0.5 * (1.0 + math.cos(math.pi * part))
