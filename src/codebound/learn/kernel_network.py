"""The network g that was learned from picked examples: a module that runs without the sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from codebound.learn.features import RoomError
from codebound.learn.picking import losses_of
from codebound.learn.ridge import kernel
from codebound.run.device import exact_products
from codebound.run.errors import FormatError, ModelError
from codebound.sample.losses import WRONG, Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from codebound.learn.features import FeatureMap
    from codebound.learn.picking import Picked
    from codebound.learn.rule import Rule
    from codebound.sample.dataset import Dataset

_ROWS = 500
_TRIED = 64  # picks on which coefficients are tried
_SOLVED = 1e-6  # a rule is carried out to less than a tenth of it


class PickedNetwork(nn.Module):
    """Network that a rule learned.

    It takes inputs **as they are stored**, and returns one number for each class.

    Args:
        rule: How it was learned.
        divisor: Of stored values.
        picks: The picked inputs, as they are stored, the first ones included.
        examples: Where they stand in the sample.
        coefficients: What was learned for each copy of them, shape (copies, picks, classes); for a pick and
            its mirror image as one support, shape (1, picks, classes).
        known: What the features took from the first examples, by name.
    """

    picks: Tensor
    examples: Tensor
    coefficients: Tensor

    def __init__(
        self,
        rule: Rule,
        divisor: float,
        *,
        picks: Tensor,
        examples: Tensor,
        coefficients: Tensor,
        known: Mapping[str, Tensor],
    ) -> None:
        super().__init__()
        self.rule, self.divisor, self._names = rule, divisor, tuple(known)
        self.register_buffer("picks", picks)
        self.register_buffer("examples", examples)
        self.register_buffer("coefficients", coefficients.double())
        for name, value in known.items():
            self.register_buffer(name, value)
        self._supports: list[Tensor] | None = None

    @staticmethod
    def of(picked: Picked, inputs: Tensor, divisor: float) -> PickedNetwork:
        """The network of a rule that was carried out; ``inputs`` are those of the sample."""
        order = torch.from_numpy(picked.order)
        parts = picked.rule.supports_each
        solved = picked.learned.coefficients
        sizes = [picked.rule.first, *(picked.rule.batch_of(each) for each in range(picked.rule.rounds))]
        # batch by batch, and in a batch copy by copy
        ends = np.cumsum([0, *sizes]) * parts
        blocks = [
            solved[low:high].view(parts, size, -1)
            for low, high, size in zip(ends, ends[1:], sizes, strict=False)
        ]
        known = {name: value.cpu() for name, value in picked.features.tensors.items()}
        coefficients = torch.cat(blocks, dim=1)
        return PickedNetwork(
            picked.rule, divisor, picks=inputs[order], examples=order, coefficients=coefficients, known=known
        )

    @staticmethod
    def load(rule: Rule, divisor: float, tensors: Mapping[str, Tensor]) -> PickedNetwork:
        """The network from its rule and its file of tensors, if the rule can have learned them."""
        own = {name: tensors[name] for name in ("picks", "examples", "coefficients") if name in tensors}
        known = {name: value for name, value in tensors.items() if name not in own}
        if _fits(rule, divisor, own, known):
            network = PickedNetwork(rule, divisor, **own, known=known)
            if network._is_learned():
                return network
        raise FormatError(
            "these are not the weights that were learned by the rule of this certificate. Give the file "
            "g.safetensors that was saved beside it."
        )

    def float(self) -> PickedNetwork:
        """Itself: the types of its numbers are part of what it is."""
        return self

    def double(self) -> PickedNetwork:
        """Itself, likewise."""
        return self

    def extra_repr(self) -> str:  # noqa: D102
        return f"{len(self.picks)} picks, {type(self.rule.features).__name__}"

    @property
    def features(self) -> FeatureMap:
        """The feature map, on the device of the network."""
        tensors = {name: getattr(self, name) for name in self._names}
        return self.rule.features.plain.map_with(tensors, self.picks, self.divisor)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        features = self.features
        with exact_products():
            if self._supports is None or self._supports[0].device != x.device:
                self._supports = [self._copies(features, change) for change in self.rule.changes()]
            vectors = features(x)
            outputs = self.coefficients.new_zeros(x.shape[0], self.coefficients.shape[2])
            for at, copies in enumerate(self._supports):
                part = self.coefficients[0 if self.rule.is_mirrored else at].double()
                for start in range(0, len(copies), _ROWS):
                    found = copies[start : start + _ROWS].float()
                    kernels = kernel(vectors, found, gamma=self.rule.gamma, unit=features.unit)
                    outputs += kernels @ part[start : start + _ROWS]
        return outputs

    def _is_learned(self) -> bool:
        """Return True if the coefficients solve the rule's equations on some picks.

        The targets are +1 for one class, else -1.
        """
        found = self(self.picks[:_TRIED]) + self.rule.ridge * self.coefficients[0, :_TRIED]
        targets = torch.where(found > 0, 1.0, -1.0)
        is_near = (found - targets).abs().max() < _SOLVED
        return bool(is_near and ((targets > 0).sum(1) == 1).all())

    def _copies(self, features: FeatureMap, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Features of one copy of every pick, in 16 bits."""
        starts = range(0, len(self.picks), _ROWS)
        return torch.cat(
            [features(self.picks[start : start + _ROWS], change).to(torch.int16) for start in starts]
        )


@torch.no_grad()
def _fits(rule: Rule, divisor: float, own: Mapping[str, Tensor], known: Mapping[str, Tensor]) -> bool:
    """Return True if shapes and features are those of the rule."""
    supports, picks = rule.supports_each, rule.first + rule.picks
    if len(own) < 3 or len(own["picks"]) != picks or own["coefficients"].shape[:2] != (supports, picks):
        return False
    try:
        with exact_products():
            found = rule.features.fit_map(
                own["picks"][: rule.first], divisor, is_mirrored=rule.is_mirrored, labels=known.get("labels")
            ).tensors
    except (ModelError, RoomError):
        return False
    return found.keys() == known.keys() and all(torch.equal(found[name], known[name]) for name in known)


def count_losses(
    network: nn.Module, data: Dataset, loss: Loss = WRONG, *, device: str | torch.device = "cpu"
) -> int:
    """Count the losses, ambiguous outputs included. The loss has to be about all examples."""
    count = 0
    for start in range(0, data.n, _ROWS):
        inputs = torch.from_numpy(np.ascontiguousarray(data.x[start : start + _ROWS]))
        outputs = network(inputs.to(device)).cpu()
        labels = torch.from_numpy(data.y[start : start + _ROWS])
        count += losses_of(outputs, labels, loss)
    return count
