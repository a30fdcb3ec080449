"""The learner of a rule on a sample, and what it learned (docs/format.md, 7.8)."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from codebound.learn.features import FeatureMap, vectors_of
from codebound.learn.kernels import KeptRows, Kernel, KernelRidge, StreamedRows
from codebound.learn.rule import FEATURES, Rule
from codebound.run.device import exact_products
from codebound.run.errors import FormatError
from codebound.run.progress import Progress, silent
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.learn.features import Prepared
    from codebound.sample.dataset import Sample

_TOLERANCE = 1e-4  # as in counting; a verifier uses half of these two
_LEAST_MARGIN = {True: 1e-6, False: 1e-5}  # by whether the rule picks


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """Rows picked until a round, and other rows that are wrong, without known ones."""

    picks: int
    errors: int

    @property
    def counted(self) -> int:
        """Count that enters the bound."""
        return self.picks + self.errors


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """A rule with what it learned, and picked.

    Attributes:
        form: Of the message that names it.
        first: The known share, in rows or clusters.
        rule: The rule, with the rounds that had to be longer.
        classes: Label of each column of its scores, rising.
        known: Known rows that were learned from, as stored, in their order.
        picks: Rows that were picked, as stored, in the order of picking.
        coefficients: Of every support, shape (supports, classes).
        outputs: Scores of every row; of a split those of known rows are zero.
        rounds: What was counted before the first round and after each.
        gap: The smallest gap between a row that was picked and one that was not.
        rounding: The largest bound on rounding errors.
        is_interrupted: Whether there would have been more rounds.
    """

    form: str
    first: int
    rule: Rule
    classes: NDArray[np.int64]
    features: FeatureMap
    known: NDArray[np.int64]
    picks: NDArray[np.int64]
    coefficients: Tensor
    outputs: Tensor
    rounds: tuple[RoundCounts, ...]
    gap: float = math.inf
    rounding: float = 0.0
    is_interrupted: bool = False

    @property
    def last(self) -> RoundCounts:
        """Counts at the end."""
        return self.rounds[-1]

    def scores(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of every row, and by how much a difference has to be larger than nothing."""
        return self.outputs.numpy(), room_of(self.outputs, picks=self.rule.rounds > 0).numpy()


def room_of(outputs: Tensor, *, picks: bool) -> Tensor:
    """By how much differences have to be larger, so that every machine says the same."""
    return (_TOLERANCE * outputs.abs().amax(dim=1)).clamp(min=_LEAST_MARGIN[picks])


class Learner:
    """The learner of a rule, which rows of a sample are added to; products have to be exact.

    Attributes:
        ridge: The regression on the supports until now.
        rows: Scores of the rows of the sample.

    Args:
        classes: Label of each column, rising.
        capacity: Most rows that are learned from.
        wanted: Rows whose scores are computed once; None: those of all rows, again and again.
        dtype: In float32 it holds twice as many supports, less exactly.
    """

    def __init__(
        self,
        rule: Rule,
        sample: Sample,
        prepared: Prepared,
        *,
        classes: NDArray[np.int64],
        capacity: int,
        wanted: NDArray[np.int64] | None = None,
        dtype: torch.dtype = torch.float64,
        progress: Progress = silent,
    ) -> None:
        self._rule, self._sample, self._prepared, self._classes = rule, sample, prepared, classes
        vectors, kernel = prepared.vectors, Kernel(rule.gamma, prepared.features.unit, rule.is_mirrored)
        self.device = vectors.device
        self._labels = torch.from_numpy(sample.y).to(self.device)
        self.ridge = KernelRidge(
            kernel,
            rule.ridge,
            capacity=capacity * rule.supports_each,
            dtype=dtype,
            device=self.device,
            progress=progress,
        )
        self._order = torch.zeros(0, dtype=torch.int64, device=self.device)
        self.rows: KeptRows | StreamedRows
        if wanted is None:
            self.rows = KeptRows(vectors, kernel)
        else:
            self.rows = StreamedRows(vectors, kernel, torch.from_numpy(wanted).to(self.device))

    def add(self, rows: Tensor) -> None:
        """Adds rows of the sample, as stored: all of them for the first copy, then for the second, ..."""
        vectors, features = self._prepared.vectors, self._prepared.features
        own = vectors[rows]
        changes = self._rule.changes()[1:]
        stored = torch.from_numpy(self._sample.x[rows.cpu().numpy()]) if changes else own
        copies = [vectors_of(features, stored, change=each, device=self.device) for each in changes]
        added, classes = torch.cat([own, *copies]), torch.from_numpy(self._classes).to(self.device)
        targets = 2.0 * (self._labels[rows][:, None] == classes).double() - 1.0
        kept, among = self.rows.add(added), None
        self._order = torch.cat([self._order, rows])
        if kept is not None and not copies:
            among = kept.gather(1, self._order.expand(len(kept), -1)).T
        self.ridge.add(added, targets.repeat(1 + len(copies), 1), among)

    def margins(self, outputs: Tensor) -> Tensor:
        """By how much the score of the label exceeds the others, for each row."""
        return WRONG.differences(outputs, self._labels, self._classes)


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
    def of(cls, learned: Learned, sample: Sample) -> KernelNetwork:
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
            kernel = Kernel(self.rule.gamma, features.unit, self.rule.is_mirrored)
            return kernel.sums(self._supports, self.coefficients, features(x.to(place)))

    def scores(self, x: NDArray[np.generic]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of stored inputs, and by how much a difference has to be larger than nothing."""
        parts = range(0, len(x), _ROWS)
        found = [self(torch.from_numpy(np.ascontiguousarray(x[at : at + _ROWS]))).cpu() for at in parts]
        outputs = torch.cat(found)
        return outputs.numpy(), room_of(outputs, picks=self.rule.rounds > 0).numpy()
