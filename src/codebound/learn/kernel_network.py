"""The network that a rule learned: a module that runs without the sample."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from codebound.learn.features import FeatureMap
from codebound.learn.kernels import Kernel
from codebound.learn.learner import room_of
from codebound.learn.rule import Rule
from codebound.learn.rule_code import FEATURES
from codebound.learn.vectors import vectors_of
from codebound.run.device import exact_products
from codebound.run.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.learner import Learned
    from codebound.sample.dataset import Dataset

_OWN = ("inputs", "examples", "coefficients", "classes", "said")
_ROWS = 500


class KernelNetwork(nn.Module):
    """Network that a rule learned.

    It takes inputs **as they are stored**, and returns one number for each of its classes.

    Args:
        rule: How it was learned.
        features: The feature map.
        known: Rows that were known before anything was picked.
        inputs: Rows that it learned from, as they are stored.
        examples: Where they stand in the sample.
        coefficients: Of every copy of them, copy by copy, shape (supports, classes).
        classes: Label of each class.
    """

    inputs: Tensor
    examples: Tensor
    coefficients: Tensor
    classes: Tensor

    def __init__(
        self,
        rule: Rule,
        features: FeatureMap,
        known: int,
        *,
        inputs: Tensor,
        examples: Tensor,
        coefficients: Tensor,
        classes: Tensor,
    ) -> None:
        super().__init__()
        self.rule, self.known, self._features = rule, known, features
        self._supports: Tensor | None = None
        words = asdict(rule) | {"kind": rule.features.kind, "known": known, "divisor": features.divisor}
        said = torch.tensor(list(json.dumps(words, sort_keys=True).encode()), dtype=torch.uint8)
        given = (inputs, examples, coefficients, classes, said)
        for name, value in (*zip(_OWN, given, strict=True), *features.tensors.items()):
            self.register_buffer(name, value)

    @classmethod
    def of(cls, learned: Learned, sample: Dataset) -> KernelNetwork:
        """The network of a rule that was carried out on a sample."""
        rule, order = learned.rule, np.concatenate((learned.known, learned.picks))
        sizes = [len(learned.known), *(rule.batch_of(each) for each in range(rule.rounds))]
        # batch by batch, and in a batch copy by copy
        ends = [rule.supports_each * end for end in np.cumsum(sizes[:-1]).tolist()]
        batches = learned.coefficients.tensor_split(ends)
        copies = zip(*(each.chunk(rule.supports_each) for each in batches), strict=True)
        tensors = {name: value.cpu() for name, value in learned.features.tensors.items()}
        return cls(
            rule,
            replace(learned.features, tensors=tensors),
            len(learned.known),
            inputs=torch.from_numpy(sample.x[order]),
            examples=torch.from_numpy(order),
            coefficients=torch.cat([part for copy in copies for part in copy]),
            classes=torch.from_numpy(learned.classes),
        )

    @classmethod
    def load(cls, rule: Rule | None, tensors: Mapping[str, Tensor]) -> KernelNetwork:
        """The network from its file of tensors.

        Args:
            rule: What it has to be learned by; None: whatever the file says.
            tensors: As they were saved.

        Raises:
            FormatError: They are of no such network.
        """
        try:
            words = json.loads(bytes(tensors["said"].tolist()))
            settings = FEATURES[words.pop("kind")](**words.pop("features"))
            known, divisor = int(words.pop("known")), float(words.pop("divisor"))
            longer = tuple((int(at), int(more)) for at, more in words.pop("longer"))
            said = Rule(settings, longer=longer, **words)
            inner = {name: value for name, value in tensors.items() if name not in _OWN}
            own = {name: tensors[name] for name in _OWN[:-1]}
            size = settings.dimension(tuple(own["inputs"].shape[1:]), inner)
            features = FeatureMap(settings, inner, divisor, size, said.is_mirrored)
            network = cls(said, features, known, **own)
            if rule in (None, said) and len(network.coefficients) == said.supports_each * len(network.inputs):
                return network
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError):
            pass  # a crafted file can make it raise nearly anything
        raise FormatError(
            "these are not the weights that were learned by the rule of this certificate. Give the file "
            "g.safetensors that was saved beside it."
        )

    def float(self) -> KernelNetwork:
        """Itself: the types of its numbers are part of what it is."""
        return self

    def double(self) -> KernelNetwork:
        """Itself, likewise."""
        return self

    def extra_repr(self) -> str:  # noqa: D102
        return f"{len(self.inputs)} rows, {type(self.rule.features).__name__}"

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        place = self.coefficients.device
        features = replace(
            self._features, tensors={name: getattr(self, name) for name in self._features.tensors}
        )
        if self._supports is None or self._supports.device != place:
            copies = (
                vectors_of(features, self.inputs, change=each, device=place) for each in self.rule.changes()
            )
            self._supports = torch.cat(list(copies))
        with exact_products():
            kernel = Kernel.of(self.rule, features)
            return kernel.sums(self._supports, self.coefficients, features(x.to(place)))

    def scores(self, x: NDArray[np.generic]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of stored inputs, and by how much a difference has to be larger than nothing."""
        parts = range(0, len(x), _ROWS)
        found = [self(torch.from_numpy(np.ascontiguousarray(x[at : at + _ROWS]))).cpu() for at in parts]
        outputs = torch.cat(found)
        return outputs.numpy(), room_of(outputs, picks=self.rule.rounds > 0).numpy()
