"""A metric that says what test examples prove, and callbacks that measure it where a training loop ends.

One look, after the last step: at the end the network is fixed, and the examples were used for no choice. The
libraries of training loops are imported when they are asked for; none is needed otherwise.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from codebound.bounds.facts import LookFacts
from codebound.bounds.held_out import looked_risk
from codebound.bounds.occam import occam_table
from codebound.run.errors import UsageError
from codebound.sample.losses import WRONG, Fault, parse_fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor, nn

    Batches = Iterable[tuple[Tensor, Tensor] | Mapping[str, Tensor]]

_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
"""Two names of one library, whose trainers take callbacks of their own name alone."""


@dataclass(frozen=True, slots=True)
class MeasuredRisk:
    """Measured error rate and the limits that it proves.

    Attributes:
        errors: Faults counted.
        n: Examples that the fault can happen on.
        error_rate: Their share; NaN without examples.
        upper: Limit on the probability of the fault, with probability ``1 - delta`` for all looks at once.
        by_class: Limits on the errors on each class, which hold at once with probability ``1 - delta``,
            beside the limit above; None for a class without examples. Empty unless asked for.
    """

    errors: int
    n: int
    error_rate: float
    upper: float
    by_class: tuple[float | None, ...] = ()


class RiskBoundMetric:
    """Counts faults batch by batch, with the ``update``, ``compute`` and ``reset`` that metrics have.

    Every network that is computed for is a look at the same examples, and all looks share delta: say before
    how many there will be. The networks must be fixed before the first of them is computed for; where one
    leads to the next, `codebound holdout` pays for the answers as well.

    Args:
        classes: Number of classes.
        fault: What counts; see :func:`codebound.sample.losses.parse_fault`.
        delta: Failure probability.
        looks: How many networks will be computed for.
        has_classes: Whether to bound the errors on each class too, in a table that holds at once.

    Example:
        >>> metric = RiskBoundMetric(classes=2)
        >>> metric.update(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1]))
        >>> found = metric.compute()
        >>> found.errors, found.n, round(found.upper, 4)
        (0, 2, 0.7764)
    """

    def __init__(
        self,
        *,
        classes: int,
        fault: str | Fault = "wrong",
        delta: float = 0.05,
        looks: int = 1,
        has_classes: bool = False,
    ) -> None:
        LookFacts(errors=0, n=1, delta=delta, looks=looks)  # refuses what is out of range
        self.classes, self.delta, self.looks = classes, delta, looks
        self.fault = parse_fault(fault, classes=classes) if isinstance(fault, str) else fault
        self.fault.check(classes)
        self.has_classes = has_classes
        self._looked = 0
        self.reset()

    def reset(self) -> None:
        """Forgets the counts; the looks that were made stay made."""
        self._errors = self._n = 0
        self._by_class = torch.zeros(2, self.classes, dtype=torch.int64)
        self._is_told = False

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Counts a batch.

        Args:
            preds: Scores, ``(batch, classes)``, or predicted classes, ``(batch,)``.
            target: Labels, ``(batch,)``.
        """
        labels = target.detach().cpu().long()
        scores = preds.detach().cpu()
        if scores.dim() == 1:
            if scores.is_floating_point():
                raise UsageError("predictions of one number each must be classes, as integers. Give scores.")
            scores = torch.nn.functional.one_hot(scores.long(), self.classes).double()
        if scores.shape != (len(labels), self.classes):
            raise UsageError(
                f"predictions must have shape ({len(labels)}, {self.classes}). Got {tuple(preds.shape)}."
            )
        self._errors += int(self.fault.is_made(scores, labels).sum())
        self._n += int(self.fault.is_counted(labels).sum())
        is_wrong = WRONG.is_made(scores, labels)
        for row, each in enumerate((labels[is_wrong], labels)):
            self._by_class[row] += torch.bincount(each, minlength=self.classes)
        self._is_told = False

    def compute(self) -> MeasuredRisk:
        """Return the risk measured so far. This is a look, unless nothing was added since the last one.

        Raises:
            UsageError: More looks than were planned.
        """
        if not self._is_told:
            if self._looked == self.looks:
                raise UsageError(
                    f"this would be look {self.looks + 1} of {self.looks}: say before how many networks will "
                    "be tried on these examples (looks=)."
                )
            self._looked += 1
            self._is_told = True
        if self._n == 0:
            return MeasuredRisk(0, 0, float("nan"), 1.0)
        facts = LookFacts(errors=self._errors, n=self._n, delta=self.delta, looks=self.looks)
        table: tuple[float | None, ...] = ()
        if self.has_classes:
            wrong, counted = self._by_class.tolist()
            table = occam_table(
                list(zip(wrong, counted, strict=True)), code_bits=0, delta=self.delta / self.looks
            )
        return MeasuredRisk(self._errors, self._n, self._errors / self._n, looked_risk(facts).value, table)

    def __call__(self, preds: Tensor, target: Tensor) -> None:
        """The same as ``update``: a value for every batch would be a look for every batch."""
        self.update(preds, target)


def lightning_callback(metric: RiskBoundMetric, batches: Batches) -> Any:
    """A callback for a ``Trainer`` of Lightning: after fitting, it measures the network on test batches.

    What was found is its attribute ``found``; ``certified_error`` and ``error_rate`` go to the loggers. It
    fits ``lightning`` and ``pytorch_lightning``, whichever is imported.

    Args:
        metric: What to count; its looks are planned.
        batches: Inputs and labels that took no part in training or choosing, such as a ``DataLoader``: pairs,
            or mappings with ``labels``, whose other entries are arguments of the network.
    """
    callback_types = _bases(_LIGHTNING, "Callback", "lightning")

    class RiskBoundCallback(*callback_types):  # type: ignore[misc]
        """Measures once, when fitting ends."""

        found: MeasuredRisk | None = None

        def on_fit_end(self, trainer: Any, pl_module: nn.Module) -> None:
            """Measures, and tells every logger."""
            self.found = measured(pl_module, metric, batches)
            for logger in trainer.loggers:
                logger.log_metrics(_numbers(self.found), step=trainer.global_step)

    return RiskBoundCallback()


def trainer_callback(metric: RiskBoundMetric, batches: Batches) -> Any:
    """The same for the ``Trainer`` of Hugging Face's transformers; the numbers go to its log history."""
    (callback_type,) = _bases(("transformers",), "TrainerCallback", "transformers")

    class RiskBoundCallback(callback_type):  # type: ignore[misc, valid-type]
        """Measures once, when training ends."""

        found: MeasuredRisk | None = None

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Measures, and adds to the history."""
            self.found = measured(kwargs["model"], metric, batches)
            state.log_history.append({**_numbers(self.found), "step": state.global_step})

    return RiskBoundCallback()


@torch.no_grad()
def measured(network: nn.Module, metric: RiskBoundMetric, batches: Batches) -> MeasuredRisk:
    """Measure a network on batches, in evaluation mode on its own device. Outputs may carry logits."""
    place = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    was_training = network.training
    network.eval()
    try:
        metric.reset()
        for batch in batches:
            if isinstance(batch, Mapping):
                named = {name: value.to(place) for name, value in batch.items() if name != "labels"}
                outputs, labels = network(**named), batch["labels"]
            else:
                inputs, labels = batch
                outputs = network(inputs.to(place))
            metric.update(getattr(outputs, "logits", outputs), labels)
        return metric.compute()
    finally:
        network.train(was_training)


def _numbers(found: MeasuredRisk) -> dict[str, float]:
    return {"certified_error": found.upper, "error_rate": found.error_rate}


def _bases(modules: Sequence[str], name: str, package: str) -> tuple[type, ...]:
    """The classes that a library's callbacks are made from: all that are imported, or one that can be."""
    found = [module for module in modules if sys.modules.get(module)] or modules
    bases = []
    for module in found:
        with suppress(ImportError):
            bases.append(getattr(importlib.import_module(module), name))
    if not bases:
        raise UsageError(f"{package} is not installed: pip install {package}.")
    return tuple(bases)
